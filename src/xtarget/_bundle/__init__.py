"""Bundles: files of binaries for several targets. `builder` makes them."""
