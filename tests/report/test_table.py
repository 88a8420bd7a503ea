"""The table and its differences, by hand."""

import math

import pytest

from ars.certification.settings import Schedule
from ars.report.grouping import radius_lead, standard_lead
from ars.report.rendering import leads, to_markdown
from ars.report.table import comparable_pairs

from ..runs.conftest import DRAWS
from .conftest import shown, table_of


def test_a_row_by_hand(table):
    headline, _ = table.blocks
    assert headline.radii == (0.5, 1.0, 2.0, 4.0)
    assert list(shown(headline)[0])[:4] == ["method", "standard", "≥ 0.5/255", "≥ 1/255"]
    assert list(shown(headline)[0].values()) == [
        "ARS", "75.0 (35.4)", "75.0 (35.4)", "75.0 (35.4)", "75.0 (35.4)", "62.5 (53.0)",
        "3.12 (1.94)", "12.5 (17.7)", "2", "4", "1",
    ]  # fmt: skip


def test_the_other_bound_stands_apart(table):
    headline, other = table.blocks
    assert (headline.headline, headline.caption) == (True, f"under Cohen et al.'s bound, α = 0.05, N = {DRAWS:,}")
    assert (other.headline, other.caption) == (False, f"under our class bounds, α = 0.05, N = {DRAWS:,}")
    assert other.rows[0].standard.values == (3 / 4, 1)
    text = to_markdown(table)
    assert text.index("## digits on photographs") < text.index(
        "### digits on photographs, 6×6, σ = 0.5, ℓ∞, under our class"
    )


def test_the_chosen_bound_is_the_headline(make_run, make_record):
    path = make_run("a", shards=[[make_record(0, 0, 0, 0.0, classes_radius=1.5 / 255, bound="classes")]])
    blocks = table_of(path).blocks
    assert [(block.bound, block.rows[0].standard.mean) for block in blocks] == [("classes", 1.0), ("cohen", 0.0)]


def test_radii_are_the_same_for_all_runs(make_run, make_record):
    small = [[make_record(0, 0, 0, 1.5 / 255, sigmas=(0.25,))]]
    table = table_of(make_run("a"), make_run("b", sigma=0.25, shards=small))
    assert {block.radii for block in table.blocks} == {(0.5, 1.0, 2.0, 4.0)}


L2 = {"≥ 0.0625": "100.0", "≥ 0.125": "100.0", "≥ 0.25": "50.0", "≥ 0.5": "50.0", "avg radius": "0.40"}
NONE = {"standard": "0.0", "avg radius (/255)": "0.00", "abstained": "100.0"}


@pytest.mark.parametrize(
    ("radii", "norm", "expected"),
    [
        ((1.999 / 255,), "linf", {"avg radius (/255)": "1.99"}),  # cut and not rounded
        ((0.6, 0.2), "l2", L2),  # as they are
        ((0.0,), "linf", NONE),
    ],
)
def test_radii_have_columns_and_averages(make_run, make_record, radii, norm, expected):
    records = [make_record(index, 0, 0, radius, norm=norm) for index, radius in enumerate(radii)]
    [row] = shown(table_of(make_run("a", shards=[records])).blocks[0])
    assert row.items() >= expected.items()
    assert expected is not NONE or not any(name.startswith("≥") for name in row)


def test_a_grid_with_radius_zero_has_its_standard_accuracy(make_run, make_decided):
    path = make_run("a", shards=[[make_decided(0, 1, 1, 1), make_decided(1, 1, 1, 3)]])
    (block,) = table_of(path).blocks
    assert list(shown(block)[0])[1:4] == ["standard", "≥ 2/255", "≥ 4/255"]
    assert list(shown(block)[0].values())[1:6] == ["100.0", "50.0", "50.0", "–", "0.0"]


def headline(*paths):
    return table_of(*paths).blocks[0]


def leads_of(block):
    """The leads of the last row over the first one, in standard accuracy and in average radius."""
    [(one, other)] = comparable_pairs(block)
    return standard_lead(one, other, block.bound), radius_lead(one, other, block.bound)


@pytest.fixture
def better(make_record):
    """Of the four images that Cohen et al. is right about at 4.5 and 2.5, all are right, at 4.5/255."""

    def build(**changes):
        truths = enumerate((0, 1, 2, 0))
        return [[make_record(index, truth, truth, 4.5 / 255, **changes) for index, truth in truths]]

    return build


def test_leads_by_hand(make_run, better):
    block = headline(make_run("a"), make_run("b", method="adaptive", shards=better()))
    standard, radius = leads_of(block)
    spread = math.sqrt(4 * 0.5**2 / 3)  # right on 0, 0, 1, 1 more
    assert (standard.mean, standard.error) == pytest.approx((0.5, spread / 2))
    assert radius.mean == pytest.approx((0 + 2 + 4.5 + 4.5) / 4 / 255)
    assert leads(block).startswith("ARS less Cohen et al.: 50.0 ± 28.9 (standard accuracy in points")


MORE_DRAWS = {"schedule": Schedule("radius", 2 * DRAWS, tolerance=0.01)}


@pytest.mark.parametrize(
    ("changes", "data"), [({"alpha": 0.01}, {}), (MORE_DRAWS, {}), ({"subset": "test[::2]"}, {}), ({}, {"seed": 3})]
)
def test_what_was_certified_otherwise_is_not_compared(make_run, better, changes, data):
    block = headline(make_run("a"), make_run("b", method="adaptive", shards=better(**changes), data=data))
    assert len(block.rows) == 2
    assert comparable_pairs(block) == []
    assert leads(block) == ""


def test_a_grid_of_radii_has_the_leads_that_it_decided(make_run, make_decided):
    def run(name, method, certified, **grid):
        records = [make_decided(index, 1, 1, number, **grid) for index, number in enumerate(certified)]
        return make_run(name, method=method, shards=[records])

    standard, radius = leads_of(headline(run("a", "cohen", (1, 0)), run("b", "adaptive", (3, 2))))
    assert (standard.mean, radius) == (0.5, None)
    grid = {"grid": (1 / 255, 3 / 255)}
    block = headline(run("c", "cohen", (1, 0), **grid), run("d", "adaptive", (2, 2), **grid))
    assert leads_of(block)[0] is None
    assert leads(block) == ""


def test_one_row_and_one_image_say_no_more_than_is_known(make_run, make_record):
    assert leads(headline(make_run("a"))) == ""
    one = [[make_record(0, 0, 0, 0.1)]]
    block = headline(make_run("b", shards=one), make_run("c", method="adaptive", shards=one))
    assert leads(block).startswith("ARS less Cohen et al.: 0.0 (standard")
