"""A block of one warp as one thread that computes with vectors, for CPUs."""
