"""Packed results beside the published numbers: tables, figures and a page, from record files alone."""
