"""Services of the operating system: files, locks, signals, child processes."""
