"""Making bundles: what is wanted, the compilers at work, and C around the result."""
