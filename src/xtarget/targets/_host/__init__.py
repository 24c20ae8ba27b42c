"""The host: its CPU, its shared libraries, and what its files hold."""
