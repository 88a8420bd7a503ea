"""Every number of the tables against one that is computed here, from the JSON lines alone."""

import gzip
import json
import math
import re
import shutil
import statistics
from dataclasses import replace
from decimal import Decimal

import pytest

from ars.report.measures import Spread
from ars.report.paper.measured import ROUND_RADII
from ars.report.paper.results import write_results
from ars.report.paper.sheet import radius_255, to_csv, to_markdown
from ars.runs.vote_count import read_tally

from .conftest import build_cell, lines_of, rows_of, sheets_of


@pytest.fixture(scope="module")
def sheets(results):
    return sheets_of(results)


def accuracy(records, bound, radius):
    right = [it["radii"][bound] for it in records if it["candidate"] == it["truth"] and it["radii"][bound] > 0]
    return 100 * sum(own >= radius for own in right) / len(records)


@pytest.mark.parametrize(("bound", "suffix"), [("cohen", ""), ("classes", "-class-bounds")])
def test_measures_are_those_of_the_records(results, sheets, bound, suffix):
    every = rows_of(sheets[f"measures{suffix}"], k="64", sigma="0.5", method="ARS", recipe="fast")
    assert len(every) == 1
    seeds = [lines_of(results / f"fast/adaptive-k64-s0.5-seed{seed}") for seed in (0, 1)]
    for name, radius in {"standard": 0, **{f"certified_{r:g}_255": r for r in ROUND_RADII}}.items():
        values = [accuracy(records, bound, radius / 255) for records in seeds]
        assert float(every[0][name]) == pytest.approx(statistics.mean(values), abs=1e-3), name
        assert float(every[0][f"{name}_std"]) == pytest.approx(statistics.stdev(values), abs=1e-3), name


def test_what_lies_just_below_a_round_radius_is_not_certified_there(tmp_path, monkeypatch):
    monkeypatch.setattr("ars.runs.run.check_radii", lambda *run: None)  # no votes have just these radii
    path = build_cell(tmp_path / "fast", images=len(ROUND_RADII)) / "certify/test/records.jsonl.gz"
    records = lines_of(tmp_path / "fast/adaptive-k64-s0.5-seed0")
    for record, radius in zip(records, ROUND_RADII, strict=True):
        own = math.nextafter(radius / 255, 0)
        record |= {"truth": record["candidate"], "label": record["candidate"], "radius": own}
        record["radii"] = {"cohen": own, "classes": own}
    path.write_bytes(gzip.compress("".join(json.dumps(it) + "\n" for it in records).encode()))
    sheet = sheets_of(tmp_path)["measures"]
    [row] = rows_of(sheet)
    for larger, radius in enumerate(reversed(ROUND_RADII)):
        assert float(row[f"certified_{radius:g}_255"]) == pytest.approx(100 * larger / len(ROUND_RADII), abs=1e-3)


def test_the_standard_error_of_votes_is_the_largest_of_the_seeds(tmp_path):
    for seed, correct in enumerate((5_000, 9_900)):
        path = build_cell(tmp_path / "fast", seed=seed)
        tally = replace(read_tally(path), correct=correct)
        (path / "vote.json").write_text(tally.to_json())
    sheet = sheets_of(tmp_path)["measures"]
    assert rows_of(sheet)[0]["vote_standard_error"] == "0.50"


def test_radii_are_cut_and_never_rounded_up(results, sheets):
    [row] = rows_of(sheets["measures"], k="64", sigma="0.5", method="ARS", recipe="fast")
    seeds = [lines_of(results / f"fast/adaptive-k64-s0.5-seed{seed}") for seed in (0, 1)]
    average = [sum(Decimal(it["radius"]) for it in s if it["label"] == it["truth"]) / len(s) for s in seeds]
    exact = 255 * sum(average) / 2
    assert exact - Decimal("1e-4") < Decimal(row["average_radius_255"]) <= exact
    shown = re.search(r"\| 64 \| 0\.5 \| ARS \|.*", to_markdown(sheets["measures"]))[0].split(" | ")[10]
    assert exact - Decimal("1e-2") < Decimal(shown.split()[0]) <= exact


def test_the_papers_two_values_are_both_shown(sheets):
    for name in ("table-1", "standard-accuracy-cifar-backgrounds"):
        [row] = rows_of(sheets[name], k="64", sigma="0.5", method="ARS", recipe="fast")
        assert (row["paper_main"], row["paper_appendix"]) == ("69.9", "65.4")
        assert "| 69.9 (1.2) † | 65.4 (1.8) † |" in to_markdown(sheets[name])
        assert "differ here; both are shown" in to_markdown(sheets[name])
    assert "/ 69.9 (1.2) † or 65.4 (1.8) † |" in to_markdown(sheets["table-1-glance-fast"])


def test_table_one_has_the_papers_settings_with_dashes_for_what_was_not_run(sheets):
    table = rows_of(sheets["table-1"])
    assert len({(row["k"], row["sigma"], row["method"]) for row in table}) == 60
    [static] = rows_of(sheets["table-1"], k="64", sigma="0.5", method="static mask")
    assert (static["ours"], static["recipe"], static["paper_main"]) == ("", "fast", "62.5")
    [other] = rows_of(sheets["table-1"], k="96", sigma="1", method="ARS")
    assert (other["ours"], other["recipe"], other["paper_main"]) == ("", "", "56.3")
    [row] = rows_of(sheets["table-1"], k="32", sigma="0.5", method="Cohen et al.")
    assert float(row["difference"]) == pytest.approx(float(row["ours"]) - 63.6, abs=1e-3)
    assert "| 96 | 1 | ARS | 56.3 (2.3) | 56.3 (2.3) | – | – | – | – | – | – | – |" in to_markdown(sheets["table-1"])


def test_the_papers_columns_stand_only_where_it_has_numbers(results, copied, sheets):
    for name in ("standard-accuracy-digits", "standard-accuracy-digits-class-bounds", "vote-digits"):
        assert "paper" not in to_csv(sheets[name]).splitlines()[0]
        assert rows_of(sheets[name])[0]["ours"]
        assert "main table" not in to_markdown(sheets[name])
    page = (results / "index.html").read_text(encoding="utf-8")
    for view in re.findall(r'<section class="view first".*?</section>', page, flags=re.DOTALL):
        assert (' class="paper">paper</th>' in view) == ("Digits on photographs" not in view)
    assert "Results beside the paper" in page
    for sweep in ("fast", "paper"):
        shutil.rmtree(copied / sweep)
    write_results(copied, copied)
    assert "paper’s numbers" not in (copied / "index.html").read_text(encoding="utf-8")


def test_recipe_and_inputs_stand_beside_every_number(results, sheets):
    with_numbers = set()
    for name, sheet in sheets.items():
        for row in [] if sheet.cells else rows_of(sheet):
            if row.get("ours") or row.get("standard"):
                with_numbers.add(name)
                assert row["recipe"]
                assert row["inputs"]
                paths = row["recipes"].split()
                assert paths
                assert all((results / path).exists() for path in paths)
    assert {"table-1", "measures", "standard-accuracy-digits", "vote-digits"} <= with_numbers


def test_notes_stand_with_the_tables_that_need_them(sheets):
    apart = [name for name in sheets if name.endswith("-class-bounds")]
    assert list(sheets)[-5:] == apart
    for name, sheet in sheets.items():
        text = to_markdown(sheet)
        on_them = "CIFAR" in sheet.title or name.startswith(("table-1", "measures", "leads", "masks"))
        assert ("not the paper's BG-20k" in text) == (on_them and name != "k32-subset-sizes"), name
        assert ("ℓ∞ perturbations" in text) == (name not in ("runs", "masks") and not name.startswith("vote-")), name
        if name in apart:
            assert "class bounds" in sheet.title
            assert "paper" not in text.split("\n")[2]  # the headings
            assert all(line.entry.cells for line in sheet.lines)


def test_quoted_radii_and_imagenets_odd_deviations(tmp_path):
    build_cell(tmp_path / "faces", kind="celeba", title="CelebA", k=160, method="cohen", images=20)
    build_cell(tmp_path / "large", kind="imagenet", title="ImageNet", k=224, method="cohen", images=20)
    sheets = sheets_of(tmp_path)
    [row] = rows_of(sheets["quoted-radii"], benchmark="CelebA", sigma="0.5", method="Cohen et al.")
    assert (row["linf_radius"], row["paper"]) == ("0.004", "45.0")
    expected = accuracy(lines_of(tmp_path / "faces/cohen-k160-s0.5-seed0"), "cohen", 0.004)
    assert float(row["ours"]) == pytest.approx(expected)
    text = to_markdown(sheets["standard-accuracy-imagenet"])
    assert "57.2 (0.009)" in text
    assert "look like fractions" in text
    [vote] = rows_of(sheets["vote-imagenet"], sigma="0.5", method="Cohen et al.")
    assert "counts as wrong" not in to_markdown(sheets["vote-imagenet"])
    assert (vote["paper"], vote["paper_std"], vote["standard_error"]) == ("60.7", "0.5", "0.48")


def test_the_subset_sizes_take_the_certification_with_as_many_images(tmp_path):
    path = build_cell(tmp_path / "fast", k=32, method="adaptive", images=200)
    other = build_cell(tmp_path / "more", k=32, method="adaptive", images=500, seed=1)
    (other / "certify/test").rename(path / "certify/five-hundred")
    sheet = sheets_of(tmp_path)["k32-subset-sizes"]
    found = {row["images"]: row for row in rows_of(sheet, sigma="0.5", method="ARS")}
    expected = accuracy(lines_of(path, "five-hundred"), "cohen", 0)
    assert float(found["500"]["ours"]) == pytest.approx(expected)
    assert found["200"]["ours"]
    assert found["10000"]["ours"] == ""
    shutil.rmtree(path / "certify/test")
    (path / "certify/five-hundred").rename(path / "certify/test")
    sheet = sheets_of(tmp_path)["k32-subset-sizes"]
    assert [row["images"] for row in rows_of(sheet, sigma="0.5", method="ARS") if row["ours"]] == ["500"]


def test_what_was_run_sums_the_minutes_and_says_on_what(sheets, copied):
    [row] = rows_of(sheets["runs"], sweep="fast", k="64", method="Cohen et al.")
    assert (row["sigmas"], row["cells"], row["certified"], row["voted"]) == ("0.5, 1", "3", "3", "2")
    assert float(row["training_minutes"]) == pytest.approx(3 * 684.5 / 60, abs=1e-3)
    assert (row["device"], row["torch"], row["certified_on"]) == ("NVIDIA H200", "2.13.0", "")
    [folder] = copied.glob("small/*/certify/test")
    (folder / "environment.json").write_text('{"device": "8 cores"}')
    [row] = rows_of(sheets_of(copied)["runs"], sweep="small")
    assert (row["device"], row["certified_on"]) == ("NVIDIA H200", "8 cores")


def test_a_radius_whose_product_has_few_decimals_is_not_shown_above_it():
    assert str(radius_255(Spread((0.62,)))) == "158.09"  # 0.62 as a float, times 255, lies below 158.1
