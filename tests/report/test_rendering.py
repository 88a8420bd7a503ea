"""The table as text, as JSON and on a terminal, and the images of a run as CSV."""

import json
import re

import pytest
from rich.console import Console

from ars.certification.settings import Schedule
from ars.cli.table import print_table
from ars.report.curves import draw_curves
from ars.report.rendering import images_csv, note, to_json, to_markdown, to_rich
from ars.runs.run import load_runs

from ..runs.conftest import DRAWS
from .conftest import shown, table_of


@pytest.fixture
def unlike(make_run, make_record):
    """Two methods at different alphas, on different test inputs."""
    shards = [[make_record(index, 1, 1, 4.5 / 255, alpha=0.4) for index in range(4)]]
    theirs = [[make_record(index, 1, 1, 4.5 / 255) for index in range(4)]]
    paths = [make_run("theirs", shards=theirs, data={"seed": 0})]
    paths.append(make_run("ours", method="adaptive", shards=shards, data={"seed": 1}))
    return table_of(*paths)


def printed(table):
    console = Console(width=200, record=True)
    console.print(to_rich(table))
    return console.export_text()


def test_the_note_gives_the_largest_standard_error(table, make_run, make_record):
    assert "at most 25.0 points" in note(table.blocks[0])
    right = make_run("right", method="adaptive", shards=[[make_record(index, 1, 1, 0.1) for index in range(4)]])
    assert "at most 25.0 points" in note(table_of(right, make_run("half")).blocks[0])


def test_alpha_is_said_once_where_all_rows_have_it(table):
    for block in table.blocks:
        assert block.caption.endswith((f" bound, α = 0.05, N = {DRAWS:,}", f" bounds, α = 0.05, N = {DRAWS:,}"))
        assert not {"α", "N"} & set(shown(block)[0])


MORE_DRAWS = {"schedule": Schedule("radius", 2 * DRAWS, (), 0.01)}


@pytest.mark.parametrize(
    ("changes", "name", "texts"),
    [(MORE_DRAWS, "N", (f"N = {DRAWS:,}", f"N ≤ {2 * DRAWS:,}")), ({"alpha": 0.4}, "α", ("α = 0.05", "α = 0.4"))],
)
def test_alpha_and_draws_have_a_column_where_rows_differ_in_them(make_run, make_record, changes, name, texts):
    more = [[make_record(index, 1, 1, 6.5 / 255, **changes) for index in range(4)]]
    table = table_of(make_run("theirs"), make_run("ours", method="adaptive", shards=more))
    theirs, ours = (text.removeprefix(name).removeprefix(" =").strip() for text in texts)
    for block in table.blocks:
        found = [(row["method"], row[name], row["s/image"]) for row in shown(block)]
        assert found == [("Cohen et al.", theirs, "0.5"), ("ARS", ours, "0.5")]
        assert f"several {name}" in block.caption
        assert [block.label(row) for row in block.rows] == [f"Cohen et al., {texts[0]}", f"ARS, {texts[1]}"]
    assert re.search(rf"\| 4 \| {ours} \| 0\.5 \|$", to_markdown(table), flags=re.MULTILINE)
    assert re.search(rf"ARS .* 4 +{ours} +0\.5", printed(table))
    assert texts[1] in draw_curves(table.sections).svg.decode()


def test_other_test_inputs_are_owned_up_to_wherever_the_table_is(unlike):
    sentence = "did not all answer for the same images; only those of one set can be compared: theirs | ours."
    assert unlike.blocks[0].section.image_sets == [[run] for run in unlike.blocks[0].section.runs]
    assert sentence in note(unlike.blocks[0])
    assert to_markdown(unlike).count(sentence) == 2
    assert " ".join(printed(unlike).split()).count(sentence) == 2
    assert [block["same_images"] for block in json.loads(to_json(unlike))] == [False, False]
    lines = re.findall("<!-- (.*?) -->", draw_curves(unlike.sections).svg.decode())
    assert "not the same images" in " ".join(lines)


def test_seeds_with_other_numbers_of_images_show_both(make_run, make_record):
    paths = [make_run("a"), make_run("b", seed=1, shards=[[make_record(0, 0, 0, 0.1)]])]
    block = table_of(*paths).blocks[0]
    assert shown(block)[0]["n"] == "1-4"
    assert "can be compared: a | b." in note(block)


def test_json_has_the_numbers_in_full(table):
    headline, _ = json.loads(to_json(table))
    (row,) = headline["rows"]
    assert row["standard_accuracy"]["values"] == [0.5, 1.0]
    assert row["average_certified_radius"]["mean"] == pytest.approx((7 / 4 + 4.5) / 2)
    assert [entry["radius"] for entry in row["certified_accuracy"]] == [0.5, 1, 2, 4]
    assert (row["seeds"], row["images"], headline["radius_unit"]) == ([0, 1], [4, 4], "1/255")


@pytest.mark.parametrize(("terminal", "columns"), [(False, 80), (True, 80), (True, 40)])
def test_no_number_is_cut_beside_a_long_name(make_run, capsys, monkeypatch, terminal, columns):
    monkeypatch.setenv("COLUMNS", str(columns))
    monkeypatch.setattr(Console, "is_terminal", terminal)
    name = "a_package_of_my_own.a_module_with_a_long_name:my_model"
    table = table_of(make_run("a", method=name))
    print_table(table)
    text = capsys.readouterr().out
    for block in table.blocks:
        name_shown, *numbers = shown(block)[0].values()
        assert all(number in text for number in numbers)
        assert (name_shown in text) == (not terminal)
    assert "…" not in text


def test_a_grid_has_columns_of_its_own_and_what_it_did_not_decide_is_blank(make_run, make_decided):
    grid = (1 / 255, 3 / 255)
    shards = [[make_decided(0, 1, 1, 2, grid=grid), make_decided(1, 1, 1, 0, grid=grid)]]
    table = table_of(make_run("a"), make_run("b", shards=shards))
    *_, block = table.blocks
    assert list(shown(block)[0])[:4] == ["method", "standard", "≥ 1/255", "≥ 3/255"]
    assert list(shown(block)[0].values())[:6] == ["Cohen et al.", "–", "50.0", "50.0", "–", "–"]
    assert block.caption == "under Cohen et al.'s bound, α = 0.05, N ≤ 10,000, decided at these radii only"
    assert "at most" not in note(block)
    assert len(table.sections[1]) == 1
    *_, written = json.loads(to_json(table))
    (row,) = written["rows"]
    assert row["standard_accuracy"] == {"mean": None, "std": None, "values": [], "standard_error": None}
    assert row["average_certified_radius"]["mean"] is None
    assert [entry["mean"] for entry in row["certified_accuracy"]] == [0.5, 0.5]
    assert (row["mode"], row["n_estimate"], row["draws_per_image"]["mean"]) == ("curve", 10_000, 9000)


def test_every_two_rows_are_in_the_json_and_the_last_one_is_told(make_run, make_record):
    better = [[make_record(index, truth, truth, 4.5 / 255) for index, truth in enumerate((0, 1, 2, 0))]]
    paths = [make_run("a"), make_run("m", method="static_mask"), make_run("b", method="adaptive", shards=better)]
    table = table_of(*paths)
    block, _ = json.loads(to_json(table))
    told = {(it["method"], it["less"]): it["standard_accuracy"]["mean"] for it in block["differences"]}
    assert told == {
        ("ARS", "Cohen et al."): 0.5, ("ARS", "static mask"): 0.5, ("static mask", "Cohen et al."): 0.0,
    }  # fmt: skip
    radius = block["differences"][0]["average_certified_radius"]["mean"]
    assert radius == pytest.approx(2.75)  # in the unit of the report
    sentence = "ARS less Cohen et al.: 50.0 ± 28.9; less static mask: 50.0 ± 28.9 (standard"
    assert sentence in to_markdown(table)


def test_a_line_an_image_with_radii_that_are_cut(make_run, make_record):
    shards = [[make_record(0, 0, 0, 1.99999 / 255), make_record(1, 2, 1, 0.0)]]
    path = make_run("own", shards=shards)
    (path / "certify" / "test" / "files.json").write_text(json.dumps(["a/1, old.png", "b/2\udcff.png"]))
    (run,) = load_runs([path])
    first, second = (record.certificate.counts for record in run.records)
    assert images_csv(run).splitlines() == [
        "index,file,truth,label,radius_255,norm,candidate,votes,draws",
        f'0,"a/1, old.png",zero,zero,1.9999,linf,zero,{first[0]},{DRAWS}',
        f"1,b/2\udcff.png,two,,0.0000,linf,one,{second[1]},{DRAWS}",
    ]


def test_radii_of_a_grid_are_as_asked_for_and_those_of_l2_have_their_norm(make_run, make_decided, make_record):
    (run,) = load_runs([make_run("own", shards=[[make_decided(0, 0, 0, 2)]])])
    assert images_csv(run).splitlines()[1] == "0,,zero,zero,2.0000,linf,zero,8900,9000"
    (run,) = load_runs([make_run("other", shards=[[make_record(0, 0, 0, 0.6, norm="l2")]])])
    assert (
        images_csv(run).splitlines()[1] == f"0,,zero,zero,0.6000,l2,zero,{run.records[0].certificate.counts[0]},{DRAWS}"
    )
