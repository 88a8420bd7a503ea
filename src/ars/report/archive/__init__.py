"""The committed results/: tables, figures and a page beside the published numbers, from record files alone."""

from ars.report.archive.writing import Written, write_results

__all__ = ["Written", "write_results"]
