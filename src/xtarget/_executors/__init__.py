"""Executors of long jobs: opened by name, asked, and compared with this process."""
