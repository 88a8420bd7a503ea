"""What the page says of a block: the verdict, the best row, and who is how far ahead."""

import re
from dataclasses import replace

import pytest

from ars.report.measures import Lead
from ars.report.views import compare
from ars.report.writing import view_of_runs

from .conftest import table_of


@pytest.fixture
def judge(make_run, make_record):
    """Compares methods by which of so many images each is right about, all certified at 4.5/255."""

    def build(**right):
        paths = []
        for method, images in right.items():
            changes = {"alpha": 0.4} if method == "unicr" else {}
            records = [make_record(index, 1, hit, 4.5 / 255, **changes) for index, hit in enumerate(images)]
            paths.append(make_run(method, method=method, shards=[records]))
        view = view_of_runs(table_of(*paths).sections[0], {}, {})
        return view, compare(view, view.blocks[0])

    return build


def labels(comparison):
    return [member.label for member, best in zip(comparison.members, comparison.best, strict=True) if best]


CLEAR = {"cohen": [0] * 20 + [1] * 20, "static_mask": [0] * 25 + [1] * 15, "adaptive": [1] * 40}


@pytest.mark.parametrize(
    ("right", "verdict", "best"),
    [
        (CLEAR, "best.* 100.0% .* 50.0 ± 8.0 points more than Cohen et al.", ["ARS"]),
        ({"cohen": [0, 1, 1, 1], "adaptive": [1, 1, 1, 1]}, "ahead.* 25.0 ± 25.0 points, may be chance", ["ARS"]),
        ({"cohen": [0], "adaptive": [1]}, "chance", ["ARS"]),  # of one image no lead is certain
        ({"cohen": [0, 1], "adaptive": [1, 0]}, "level", []),
        ({"cohen": [0, 1, 1, 1], "unicr": [1, 1, 1, 1]}, "not all rows can be compared", []),  # at another alpha
        ({"adaptive": [0, 1]}, "50.0% .* radius of 2.25/255", []),
    ],
)
def test_the_verdict_and_the_best_row(judge, right, verdict, best):
    _, found = judge(**right)
    assert re.search(verdict, found.verdict)
    assert labels(found) == best


def test_leads_are_of_the_first_row_over_every_other(judge):
    _, found = judge(**CLEAR)
    told = [(other.label, standard) for other, standard, _ in found.leads]
    assert told == [("Cohen et al.", "50.0 ± 8.0"), ("static mask", "62.5 ± 7.8")]


def test_a_mean_over_other_seeds_makes_no_row_the_best(judge):
    view, _ = judge(cohen=[0] * 20 + [1] * 20, adaptive=[1] * 40)
    behind = replace(view, lead=lambda one, other, bound: (Lead(-0.1, 0.01), None))
    found = compare(behind, view.blocks[0])
    assert "on the same seeds Cohen et al. is not behind" in found.verdict
    assert labels(found) == []


def test_a_grid_without_radius_zero_is_judged_at_its_smallest_radius(make_run, make_decided):
    def run(method, certified):
        records = [make_decided(index, 1, 1, number, grid=(1 / 255, 3 / 255)) for index, number in enumerate(certified)]
        return make_run(method, method=method, shards=[records])

    table = table_of(run("cohen", (1, 0)), run("adaptive", (2, 1)))
    view = view_of_runs(table.sections[0], {}, {})
    found = compare(view, view.blocks[0])
    assert "at radius 1/255 for 100.0%" in found.verdict
    assert dict(
        zip([column.name for column in found.columns], [column.texts for column in found.columns], strict=True)
    )["≥ 1/255"] == ("50.0", "100.0")


def test_what_narrow_screens_hide_in_one_table_the_other_shows(judge):
    _, found = judge(cohen=[0, 1], adaptive=[1, 1])
    wide, narrow = ([column.texts for column in columns if column.kind == kind]
                    for columns, kind in ((found.columns, "wide"), (found.details, "narrow")))  # fmt: skip
    assert wide == narrow != []
