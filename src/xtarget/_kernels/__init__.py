"""Kernel libraries: finding, reading and checking them, and `@xtarget.kernel`."""
