"""The methods that are compared, one file each, and their registry; loads no torch."""
