"""The fixtures of tests/runs, which build run folders without training, and the table of such folders."""

from ars.report.grouping import make_sections
from ars.report.rendering import make_columns
from ars.report.table import make_table
from ars.runs.run import load_runs

from ..runs.conftest import make_decided, make_record, make_records, make_run

__all__ = ["make_decided", "make_record", "make_records", "make_run", "shown", "table_of"]


def table_of(*paths):
    return make_table(make_sections(load_runs(paths)))


def shown(block):
    """The rows of a block as they are printed: the texts by their headings."""
    columns = make_columns(block)
    return [{column.name: column.texts[number] for column in columns} for number in range(len(block.rows))]
