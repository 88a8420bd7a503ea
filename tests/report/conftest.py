"""The fixtures of tests/runs, which build run folders without training."""

from ..runs.conftest import make_decided, make_record, make_records, make_run

__all__ = ["make_decided", "make_record", "make_records", "make_run"]
