"""The disk format of run folders; loads no torch."""
