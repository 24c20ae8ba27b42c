"""The computations that `benchmarks/bench_speed.py` times against torch, by family."""
