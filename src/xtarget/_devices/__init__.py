"""Devices of this machine: vendors by name, their probes, and streams of other libraries."""
