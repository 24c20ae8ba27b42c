"""Fused functions: several operators of the catalog as few launches."""
