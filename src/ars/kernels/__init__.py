"""Fused GPU kernels for the paper's networks. Triton is imported only when a kernel runs."""
