"""From call to launches: one file for each family of kernels; `layouts` and `tuning` serve all."""
