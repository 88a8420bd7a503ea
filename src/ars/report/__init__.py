"""Reports on certified runs, from the files of their folders alone; never imports torch."""

from ars.report.rendering import to_json, to_markdown, to_rich
from ars.report.table import Table
from ars.report.writing import Report, write_report
from ars.runs.records import ReportError

__all__ = ["Report", "ReportError", "Table", "to_json", "to_markdown", "to_rich", "write_report"]
