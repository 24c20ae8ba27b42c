"""From a compile request to a loaded function: memory, cache, bundles, compilers."""
