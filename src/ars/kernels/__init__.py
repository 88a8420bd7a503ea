"""Fused GPU kernels for the paper's networks. Triton is imported only where it runs."""
