"""Sweeps: many runs from one file."""
