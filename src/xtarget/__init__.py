"""xtarget."""
