"""The command line. `main` says what the commands take; what they do is in the other files."""
