import json
import re

import pytest
from rich.console import Console

from ars.certification.schedule import Schedule
from ars.cli.report import print_table
from ars.report.curves import draw_curves
from ars.report.errors import ReportError
from ars.report.groups import make_sections
from ars.report.rendering import block_cells, cells, headers, note, to_json, to_markdown, to_rich
from ars.report.results import load_runs
from ars.report.table import make_table


@pytest.fixture
def table(make_run, make_record):
    """Two seeds of ARS, standard accuracies 1/2 and 1."""
    better = [[make_record(index, 1, 1, 4.5 / 255, seconds=1.5) for index in range(4)]]
    paths = [make_run("a0", method="adaptive"), make_run("a1", method="adaptive", seed=1, shards=better)]
    return make_table(make_sections(load_runs(paths)))


def test_a_row_by_hand(table):
    headline, _ = table.blocks
    (row,) = headline.rows
    assert headline.radii == (0.5, 1.0, 2.0, 4.0)
    assert headers(headline)[:4] == ["method", "standard", "≥ 0.5/255", "≥ 1/255"]
    assert cells(row) == [
        "ARS", "75.0 (35.4)", "75.0 (35.4)", "75.0 (35.4)", "75.0 (35.4)", "62.5 (53.0)",
        "3.12 (1.94)", "12.5 (17.7)", "2", "4", "1",
    ]  # fmt: skip


def test_the_average_radius_is_cut_not_rounded(make_run, make_record):
    path = make_run("a", shards=[[make_record(0, 0, 0, 1.999 / 255)]])
    (headline, _) = make_table(make_sections(load_runs([path]))).blocks
    assert cells(headline.rows[0])[-5] == "1.99"


def test_the_other_bound_stands_apart(table):
    headline, other = table.blocks
    assert (headline.headline, headline.caption) == (True, "under Cohen et al.'s bound, α = 0.05, N = 100")
    assert (other.headline, other.caption) == (False, "under our class bounds, α = 0.05, N = 100")
    assert other.rows[0].standard.values == (3 / 4, 1)
    text = to_markdown(table)
    assert text.index("## digits on photographs") < text.index(
        "### digits on photographs, 6×6, σ = 0.5, ℓ∞, under our class"
    )


def test_the_chosen_bound_is_the_headline(make_run, make_record):
    path = make_run("a", shards=[[make_record(0, 0, 0, 0.0, classes_radius=0.1, bound="classes")]])
    blocks = make_table(make_sections(load_runs([path]))).blocks
    assert [(block.bound, block.rows[0].standard.mean) for block in blocks] == [("classes", 1.0), ("cohen", 0.0)]


def test_noise_that_differs_in_the_last_digits_is_the_same_noise(make_run):
    own = make_run("own", method="own_model:masked", sigma=0.5000000000000009)
    (section,) = make_sections(load_runs([own, make_run("plain", method="own_model:plain")]))
    assert len(section.groups) == 2
    assert {block["sigma"] for block in json.loads(to_json(make_table([section])))} == {0.5}


def test_radii_are_the_same_for_all_runs(make_run, make_record):
    small = [[make_record(0, 0, 0, 1.5 / 255, sigmas=(0.25,))]]
    table = make_table(make_sections(load_runs([make_run("a"), make_run("b", sigma=0.25, shards=small)])))
    assert {block.radii for block in table.blocks} == {(0.5, 1.0, 2.0, 4.0)}


def test_l2_radii_are_shown_as_they_are(make_run, make_record):
    path = make_run("a", shards=[[make_record(0, 0, 0, 0.6, norm="l2"), make_record(1, 0, 0, 0.2, norm="l2")]])
    (block, _) = make_table(make_sections(load_runs([path]))).blocks
    assert headers(block)[2:7] == ["≥ 0.0625", "≥ 0.125", "≥ 0.25", "≥ 0.5", "avg radius"]
    assert cells(block.rows[0])[2:7] == ["100.0", "100.0", "50.0", "50.0", "0.40"]


def test_norms_noise_levels_and_bounds_are_not_compared(make_run, make_record):
    paths = [
        make_run("a"),
        make_run("b", method="adaptive", shards=[[make_record(0, 0, 0, 0.6, norm="l2")]]),
        make_run("c", method="unicr", sigma=0.25),
        make_run("d", method="static_mask", shards=[[make_record(0, 0, 0, 0.1, bound="classes")]]),
    ]
    assert [len(section.groups) for section in make_sections(load_runs(paths))] == [1, 1, 1, 1]


def test_abstaining_everywhere_leaves_no_radii(make_run, make_record):
    path = make_run("a", shards=[[make_record(0, 0, 0, 0.0)]])
    (block, _) = make_table(make_sections(load_runs([path]))).blocks
    assert cells(block.rows[0]) == ["Cohen et al.", "0.0", "0.00", "100.0", "1", "1", "0.5"]


def test_the_note_gives_the_largest_standard_error(table, make_run, make_record):
    assert "at most 25.0 points" in note(table.blocks[0])
    right = make_run("right", method="adaptive", shards=[[make_record(index, 1, 1, 0.1) for index in range(4)]])
    assert "at most 25.0 points" in note(make_table(make_sections(load_runs([right, make_run("half")]))).blocks[0])


def test_other_images_are_owned_up_to(make_run, make_record):
    paths = [make_run("a"), make_run("b", seed=1, shards=[[make_record(0, 0, 0, 0.1)]])]
    block = make_table(make_sections(load_runs(paths))).blocks[0]
    assert "did not all answer for the same images" in note(block)
    assert block.rows[0].images == 1  # the least number of them
    assert cells(block.rows[0])[-2] == "1-4"


@pytest.fixture
def unlike(make_run, make_record):
    """Two methods at different alphas, on different test inputs."""
    shards = [[make_record(index, 1, 1, 4.5 / 255, alpha=0.4) for index in range(4)]]
    theirs = [[make_record(index, 1, 1, 4.5 / 255) for index in range(4)]]
    paths = [make_run("theirs", shards=theirs, data={"seed": 0})]
    paths.append(make_run("ours", method="adaptive", shards=shards, data={"seed": 1}))
    return make_table(make_sections(load_runs(paths)))


def printed(table):
    console = Console(width=200, record=True)
    console.print(to_rich(table))
    return console.export_text()


def test_headings_name_the_norm(make_run, make_record):
    l2 = make_run("b", shards=[[make_record(0, 0, 0, 0.6, norm="l2")]])
    table = make_table(make_sections(load_runs([make_run("a"), l2])))
    for text in (to_markdown(table), printed(table)):
        assert text.count("σ = 0.5, ℓ∞, under") == text.count("σ = 0.5, ℓ2, under") == 2  # each under both bounds


def test_alpha_is_said_once_where_all_rows_have_it(table):
    for block in table.blocks:
        assert block.caption.endswith((" bound, α = 0.05, N = 100", " bounds, α = 0.05, N = 100"))
        assert not {"α", "N"} & set(headers(block))
        assert f"{block.section.heading}, {block.caption}; {block.judged}\n" in to_markdown(table)
        assert f"{block.section.heading}, {block.caption}; r in" in printed(table)


def test_alpha_is_shown_with_all_of_its_digits(make_run, make_record):
    shards = [[make_record(index, 1, 1, 4.5 / 255, alpha=0.0500000499) for index in range(4)]]
    table = make_table(make_sections(load_runs([make_run("run", shards=shards)])))
    assert "α = 0.0500000499," in table.blocks[0].caption


def test_the_number_of_draws_has_a_column_where_rows_differ_in_it(make_run, make_record):
    more = [[make_record(index, 1, 1, 6.5 / 255, schedule=Schedule("radius", 20_000, (), 0.01)) for index in range(4)]]
    [section] = make_sections(load_runs([make_run("theirs"), make_run("ours", method="adaptive", shards=more)]))
    table = make_table([section])
    for block in table.blocks:
        shown = [dict(zip(headers(block), texts, strict=True)) for texts in block_cells(block)]
        assert [(row["method"], row["N"]) for row in shown] == [("Cohen et al.", "100"), ("ARS", "≤ 20,000")]
        assert "several N" in block.caption
        assert [block.label(row) for row in block.rows] == ["Cohen et al., N = 100", "ARS, N ≤ 20,000"]
        assert "with more of them radii are larger" in note(block)


def test_models_of_ones_own_have_lines_of_their_own(make_run):
    runs = [make_run(name, method=name, given="0" * 16) for name in ("mine:plain", "mine:masked")]
    figure = draw_curves(make_table(make_sections(load_runs(runs))).sections).figure
    lines = [(line.get_color(), line.get_linestyle()) for line in figure.axes[0].get_lines()]
    assert len(lines) == len(set(lines)) == 2
    [section] = make_sections(load_runs([*runs, make_run("theirs")]))
    assert [group.method for group in section.groups] == ["cohen", "mine:plain", "mine:masked"]  # as they were given


def test_two_checkpoints_of_a_model_of_ones_own_stand_side_by_side(make_run):
    runs = [make_run("before", method="mine:net", given="0" * 16), make_run("after", method="mine:net", given="1" * 16)]
    [section] = make_sections(load_runs(runs))
    assert [group.label for group in section.groups] == ["mine:net (before)", "mine:net (after)"]
    with pytest.raises(ReportError, match="are both seed 0 of mine:net"):
        make_sections(load_runs([runs[0], make_run("again", method="mine:net", given="0" * 16)]))


def test_alpha_has_a_column_where_rows_differ_in_it(unlike):
    assert len(unlike.sections) == 1
    for block in unlike.blocks:
        shown = [dict(zip(headers(block), texts, strict=True)) for texts in block_cells(block)]
        assert [(row["method"], row["α"], row["s/image"]) for row in shown] == [
            ("Cohen et al.", "0.05", "0.5"),
            ("ARS", "0.4", "0.5"),
        ]
        assert "several α" in block.caption
        assert [block.label(row) for row in block.rows] == ["Cohen et al., α = 0.05", "ARS, α = 0.4"]
    assert re.search(r"\| 4 \| 0\.4 \| 0\.5 \|$", to_markdown(unlike), flags=re.MULTILINE)
    assert re.search(r"ARS .* 4 +0\.4 +0\.5", printed(unlike))
    assert "at a larger one more is certified" in note(unlike.blocks[0])
    assert "α = 0.4" in draw_curves(unlike.sections).svg.decode()


def test_other_test_inputs_are_owned_up_to_wherever_the_table_is(unlike):
    sentence = "did not all answer for the same images; only those of one set can be compared: theirs | ours."
    assert unlike.blocks[0].section.image_sets == [[run] for run in unlike.blocks[0].section.runs]
    assert sentence in note(unlike.blocks[0])
    assert to_markdown(unlike).count(sentence) == 2
    assert " ".join(printed(unlike).split()).count(sentence) == 2
    assert [block["same_images"] for block in json.loads(to_json(unlike))] == [False, False]
    assert "not the same images" in draw_curves(unlike.sections).svg.decode()


def test_seeds_with_other_numbers_of_images_show_both(make_run, make_record):
    paths = [make_run("a"), make_run("b", seed=1, shards=[[make_record(0, 0, 0, 0.1)]])]
    block = make_table(make_sections(load_runs(paths))).blocks[0]
    assert dict(zip(headers(block), block_cells(block)[0], strict=True))["n"] == "1-4"
    assert "can be compared: a | b." in note(block)


def test_json_has_the_numbers_in_full(table):
    headline, _ = json.loads(to_json(table))
    (row,) = headline["rows"]
    assert row["standard_accuracy"]["values"] == [0.5, 1.0]
    assert row["average_certified_radius"]["mean"] == pytest.approx((7 / 4 + 4.5) / 2)
    assert [entry["radius"] for entry in row["certified_accuracy"]] == [0.5, 1, 2, 4]
    assert (row["seeds"], row["images"], headline["radius_unit"]) == ([0, 1], [4, 4], "1/255")


def test_the_terminal_shows_every_cell(table):
    console = Console(width=160, record=True)
    console.print(to_rich(table))
    text = console.export_text()
    assert all(cell in text for block in table.blocks for row in block.rows for cell in cells(row))


@pytest.mark.parametrize(("terminal", "columns"), [(False, 80), (True, 80), (True, 40)])
def test_no_number_is_cut_beside_a_long_name(make_run, capsys, monkeypatch, terminal, columns):
    monkeypatch.setenv("COLUMNS", str(columns))
    monkeypatch.setattr(Console, "is_terminal", terminal)
    name = "a_package_of_my_own.a_module_with_a_long_name:my_model"
    print_table([make_run("a", method=name)], name="test", as_json=False)
    text = capsys.readouterr().out
    table = make_table(make_sections(load_runs([make_run("b", method=name)])))
    for block in table.blocks:
        shown, *numbers = cells(block.rows[0])
        assert all(number in text for number in numbers)
        assert (shown in text) == (not terminal)
    assert "…" not in text


@pytest.fixture
def decided(make_run, make_decided):
    """A run of curve mode without radius 0, beside one in fixed mode."""
    grid = (1 / 255, 3 / 255)
    shards = [[make_decided(0, 1, 1, 2, grid=grid), make_decided(1, 1, 1, 0, grid=grid)]]
    return make_table(make_sections(load_runs([make_run("a"), make_run("b", shards=shards)])))


def test_a_grid_has_columns_of_its_own_and_what_it_did_not_decide_is_blank(decided):
    *_, block = decided.blocks
    assert headers(block)[:4] == ["method", "standard", "≥ 1/255", "≥ 3/255"]
    assert cells(block.rows[0])[:6] == ["Cohen et al.", "–", "50.0", "50.0", "–", "–"]
    assert block.caption == "under Cohen et al.'s bound, α = 0.05, N ≤ 10,000, decided at these radii only"
    assert "at most" not in note(block)
    assert len(decided.sections[1]) == 1


def test_json_of_a_grid_has_no_number_that_was_not_decided(decided):
    *_, block = json.loads(to_json(decided))
    (row,) = block["rows"]
    assert row["standard_accuracy"] == {"mean": None, "std": None, "values": [], "standard_error": None}
    assert row["average_certified_radius"]["mean"] is None
    assert [entry["mean"] for entry in row["certified_accuracy"]] == [0.5, 0.5]
    assert (row["mode"], row["n_estimate"], row["draws_per_image"]["mean"]) == ("curve", 10_000, 100)


def test_a_grid_with_radius_zero_has_its_standard_accuracy(make_run, make_decided):
    path = make_run("a", shards=[[make_decided(0, 1, 1, 1), make_decided(1, 1, 1, 3)]])
    (block,) = make_table(make_sections(load_runs([path]))).blocks
    assert headers(block)[1:4] == ["standard", "≥ 2/255", "≥ 4/255"]
    assert cells(block.rows[0])[1:6] == ["100.0", "50.0", "50.0", "–", "0.0"]


def test_different_grids_are_not_compared(make_run, make_decided):
    other = [[make_decided(0, 1, 1, 1, grid=(1 / 255,))]]
    runs = load_runs(
        [make_run("a", shards=[[make_decided(0, 1, 1, 1)]]), make_run("b", shards=other, method="adaptive")]
    )
    assert len(make_sections(runs)) == 2
