"""Code that the cache and bundles share: artifact records and their signatures."""
