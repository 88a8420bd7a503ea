"""Attempts to break certificates."""
