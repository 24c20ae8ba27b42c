"""Run times' own compilers in child processes."""
