"""The fixtures of tests/runs, which build run folders without training, and the tables of such folders."""

import pytest

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


@pytest.fixture
def all_right(make_record):
    """Shards of four images, all right at 4.5/255."""
    return [[make_record(index, 1, 1, 4.5 / 255, seconds=1.5) for index in range(4)]]


@pytest.fixture
def table(make_run, all_right):
    """Two seeds of ARS, standard accuracies 1/2 and 1."""
    return table_of(make_run("a0", method="adaptive"), make_run("a1", method="adaptive", seed=1, shards=all_right))


@pytest.fixture
def runs(make_run):
    """Two seeds of ARS, one with its stages and its environment, and a rival at another noise level."""
    return [
        make_run("ars-0", method="adaptive", stages=3, environment={"python": "3.11", "torch": {"cuda": None}}),
        make_run("ars-1", method="adaptive", seed=1),
        make_run("cohen-0", sigma=0.25),
    ]
