"""Benchmarks: one file each; every test input is a pure function of (index, seed)."""
