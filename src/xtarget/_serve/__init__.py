"""The compile server (`xtarget serve`): what it answers, and how it is reached."""
