"""Every method trains, certifies and is reported like any other."""

from typing import get_args

import pytest

from ars.experiments.certifying.local_engine import certify_run
from ars.experiments.certifying.request import Request
from ars.experiments.recipe import Method
from ars.experiments.training import train_run
from ars.report import write_report
from ars.report.groups import METHOD_NAMES
from ars.report.rendering import cells, headers

from .conftest import CPU, TINY


@pytest.mark.parametrize("method", get_args(Method))
def test_a_method_goes_all_the_way(method, tiny, tmp_path):
    folder = tmp_path / "run"
    assert train_run(tiny(method=method), folder, device=CPU)
    records = certify_run(Request(folder, TINY.certify), device=CPU)
    assert [record.certificate.index for record in records] == list(range(6))
    again = certify_run(Request(folder, TINY.certify), device=CPU)
    assert [record.certificate for record in again] == [record.certificate for record in records]
    headline = write_report([folder], tmp_path / "report").table.blocks[0]
    [row] = headline.rows
    shown = dict(zip(headers(headline), cells(row), strict=True))
    assert (shown["method"], shown["n"], shown["seeds"]) == (METHOD_NAMES[method], "6", "1")


def test_input_dependent_noise_is_recorded_image_by_image(tiny, tmp_path):
    train_run(tiny(method="sukenik"), tmp_path / "run", device=CPU)
    records = certify_run(Request(tmp_path / "run", TINY.certify), device=CPU)
    levels = [record.certificate.sigmas for record in records]
    assert len(set(levels)) == len(levels)
    assert all(0.5 * TINY.sigma < level < 2 * TINY.sigma for (level,) in levels)
