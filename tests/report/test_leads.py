"""How far two rows of a report are apart, by hand."""

import json
import math

import pytest

from ars.certification.schedule import Schedule
from ars.report import write_report
from ars.report.groups import make_sections
from ars.report.leads import differences
from ars.report.rendering import leads, to_json, to_markdown
from ars.report.results import load_runs
from ars.report.table import make_table


def headline(*paths):
    return make_table(make_sections(load_runs(paths))).blocks[0]


@pytest.fixture
def better(make_record):
    """Of the four images that Cohen et al. is right about at 4.5 and 2.5, all are right, at 4.5/255."""

    def build(**changes):
        truths = enumerate((0, 1, 2, 0))
        return [[make_record(index, truth, truth, 4.5 / 255, **changes) for index, truth in truths]]

    return build


def test_leads_by_hand(make_run, better):
    block = headline(make_run("a"), make_run("b", method="adaptive", shards=better()))
    [it] = differences(block)
    assert (it.one.label, it.other.label) == ("ARS", "Cohen et al.")
    spread = math.sqrt(4 * 0.5**2 / 3)  # right on 0, 0, 1, 1 more
    assert (it.standard.mean, it.standard.error) == pytest.approx((0.5, spread / 2))
    assert it.average_radius.mean == pytest.approx((0 + 2 + 4.5 + 4.5) / 4 / 255)
    assert leads(block).startswith("ARS less Cohen et al.: 50.0 ± 28.9 (standard accuracy in points")


def test_seeds_are_averaged_image_by_image_first(make_run, better):
    seeds = [make_run(f"b{seed}", method="adaptive", seed=seed, shards=better()) for seed in (1, 2)]
    [it] = differences(headline(make_run("a"), *seeds))
    [single] = differences(headline(make_run("c"), seeds[0]))
    assert (it.standard, it.average_radius) == (single.standard, single.average_radius)


def test_every_two_rows_are_in_the_json_and_the_last_one_is_told(make_run, better, tmp_path):
    paths = [make_run("a"), make_run("m", method="static_mask"), make_run("b", method="adaptive", shards=better())]
    table = make_table(make_sections(load_runs(paths)))
    block, _ = json.loads(to_json(table))
    told = {(it["method"], it["less"]): it["standard_accuracy"]["mean"] for it in block["differences"]}
    assert told == {
        ("ARS", "Cohen et al."): 0.5, ("ARS", "static mask"): 0.5, ("static mask", "Cohen et al."): 0.0,
    }  # fmt: skip
    radius = block["differences"][0]["average_certified_radius"]["mean"]
    assert radius == pytest.approx(2.75)  # in the unit of the report
    sentence = "ARS less Cohen et al.: 50.0 ± 28.9; less static mask: 50.0 ± 28.9 (standard"
    assert sentence in to_markdown(table)
    write_report(paths, tmp_path / "report")
    assert sentence in (tmp_path / "report/index.html").read_text(encoding="utf-8")


MORE_DRAWS = {"schedule": Schedule("fixed", 101), "planned": 101, "counts": (99, 1, 1)}


@pytest.mark.parametrize("changes", [{"alpha": 0.01}, MORE_DRAWS, {"subset": "test[::2]"}])
def test_what_was_certified_otherwise_is_not_compared(make_run, better, changes):
    block = headline(make_run("a"), make_run("b", method="adaptive", shards=better(**changes)))
    assert len(block.rows) == 2
    assert differences(block) == []
    assert leads(block) == ""


def test_other_test_inputs_are_not_compared(make_run, better):
    block = headline(make_run("a"), make_run("b", method="adaptive", shards=better(), data={"seed": 3}))
    assert differences(block) == []


def test_a_grid_of_radii_has_the_leads_that_it_decided(make_run, make_decided):
    def run(name, method, certified, **grid):
        records = [make_decided(index, 1, 1, number, **grid) for index, number in enumerate(certified)]
        return make_run(name, method=method, shards=[records])

    [it] = differences(headline(run("a", "cohen", (1, 0)), run("b", "adaptive", (3, 2))))
    assert it.standard.mean == 0.5
    assert it.average_radius is None
    grid = {"grid": (1 / 255, 3 / 255)}
    block = headline(run("c", "cohen", (1, 0), **grid), run("d", "adaptive", (2, 2), **grid))
    [it] = differences(block)
    assert it.standard is None
    assert leads(block) == ""


def test_one_row_and_one_image_say_no_more_than_is_known(make_run, make_record):
    assert leads(headline(make_run("a"))) == ""
    one = [[make_record(0, 0, 0, 0.1)]]
    block = headline(make_run("b", shards=one), make_run("c", method="adaptive", shards=one))
    assert leads(block).startswith("ARS less Cohen et al.: 0.0 (standard")
