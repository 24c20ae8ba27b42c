"""Behaviour that all vendors' devices, modules, streams and memory share."""
