"""EXPERIMENTS.md says what the generated tables say."""

import gzip
import json
import re
import statistics
from fractions import Fraction
from pathlib import Path

import pytest

from ars.theory.rounding import truncate

ROOT = Path(__file__).parents[2]
TEXT = (ROOT / "EXPERIMENTS.md").read_text(encoding="utf-8")


def tables(text):
    """Every table as a list of rows, each by its headings."""
    for block in re.findall(r"(?:^\|.*\n)+", text, flags=re.MULTILINE):
        headings, _, *rows = ([cell.strip() for cell in line.strip("|\n").split(" | ")] for line in block.splitlines())
        yield [dict(zip(headings, row, strict=True)) for row in rows]


@pytest.mark.parametrize(
    ("number", "setting"),
    [
        (0, {"benchmark": "Digits on photographs"}),
        (1, {"benchmark": "CIFAR-10 on backgrounds", "k": "64", "σ": "0.5"}),
        (2, {"benchmark": "CIFAR-10 on backgrounds", "k": "96", "σ": "1"}),
        (3, {"benchmark": "CIFAR-10 on backgrounds", "k": "32", "σ": "0.5"}),
        (3, {"benchmark": "CIFAR-10 on backgrounds", "k": "48", "σ": "0.5"}),
        (3, {"benchmark": "CIFAR-10 on backgrounds", "k": "96", "σ": "0.5"}),
        (3, {"benchmark": "CIFAR-10 on backgrounds", "k": "96", "σ": "0.25"}),
    ],
)
def test_its_measures_are_those_of_the_generated_tables(number, setting):
    table = [rows for rows in tables(TEXT) if "standard" in rows[0]][number]
    shown = [row for row in table if all(row.get(name, setting.get(name)) == setting.get(name) for name in ("k", "σ"))]
    [measured] = tables((ROOT / "results/tables/measures.md").read_text(encoding="utf-8"))
    [beside] = tables((ROOT / "results/tables/table-1.md").read_text(encoding="utf-8"))
    every = {row["method"]: row for row in measured if setting.items() <= row.items()}
    size = {name: value for name, value in setting.items() if name != "benchmark"}
    paper = {row["method"]: row for row in beside if size and size.items() <= row.items()}
    assert {row["method"] for row in shown} == set(every)
    for row in shown:
        known = paper.get(row["method"], {}) | every[row["method"]]
        assert row == {name: known[name] for name in row}


def generated(name):
    [rows] = tables((ROOT / f"results/tables/{name}.md").read_text(encoding="utf-8"))
    return rows


def test_what_is_said_in_short_is_what_the_generated_tables_say():
    [shown] = [rows for rows in tables(TEXT) if "lead in the vote" in rows[0]]
    ours, paper, leads = generated("measures"), generated("table-1"), generated("leads")
    assert {(row["k"], row["σ"]) for row in shown} == {(row["k"], row["σ"]) for row in ours if row["k"] != "24"}
    for row in shown:
        setting = {name: row[name] for name in ("k", "σ")}

        def found(rows, setting=setting, **more):
            [it] = [it for it in rows if setting.items() <= it.items() and more.items() <= it.items()]
            return it

        for method, its in (("Cohen et al.", "the paper's"), ("static mask", "its static mask"), ("ARS", "its ARS")):
            assert row[method] == found(ours, method=method)["standard"].split()[0]
            assert row[its] == found(paper, method=method)["paper, main table"].split()[0]
        lead = [found(leads, method="ARS", less=it) for it in ("Cohen et al.", "static mask")]
        least = min((it["vote on the whole test set"] for it in lead), key=lambda text: float(text.split()[0]))
        assert row["lead in the vote"] == as_written(least)
        assert {found(ours, method=method)["seeds"] for method in ("Cohen et al.", "static mask", "ARS")} == {
            row["seeds"]
        }


def test_the_hours_are_those_of_the_records():
    cells = [path.parent for path in (ROOT / "results").glob("*/*/timing.json") if path.parent.parent.name != "digits"]
    seconds = sum(sum(json.loads((cell / "timing.json").read_text()).values()) for cell in cells)
    assert f"**It took {seconds / 3600:.1f} hours** on one H200" in TEXT


def words_of(section):
    """A section in one line."""
    [text] = [text for text in re.split(r"^## ", TEXT, flags=re.MULTILINE) if text.startswith(section)]
    return " ".join(text.split())


NOISE = {".50 ± .02", "1.04 ± .07"}
"""What is said with a ± and is no difference: noise levels of Súkeník et al."""
HEADLINE = [("64", "0.5"), ("96", "1")]
EVERY = [*HEADLINE, ("32", "0.5"), ("48", "0.5"), ("96", "0.5"), ("96", "0.25")]


@pytest.mark.parametrize(
    ("section", "settings", "least"),
    [
        ("In short", EVERY, 6),
        ("Digits on photographs", [("24", "0.75")], 6),
        ("CIFAR-10 on backgrounds, k = 64, σ = .5", [("64", "0.5")], 4),
        ("CIFAR-10 on backgrounds, k = 96, σ = 1.0", [("96", "1")], 6),
        ("The cross", EVERY, 15),
        ("The other rivals", HEADLINE, 15),
    ],
)
def test_differences_are_those_of_the_settings_that_a_section_is_about(section, settings, least):
    told = set(re.findall(r"−?[0-9]*\.[0-9]+ ± [0-9]*\.[0-9]+", words_of(section))) - NOISE
    rows = [row for name in ("leads", "leads-class-bounds") for row in generated(name)]
    mine = [row for row in rows if (row["k"], row["σ"]) in settings]
    assert len(told) >= least
    assert told <= {as_written(value) for row in mine for value in row.values() if " ± " in value}
    ahead = r"(\S+ ± [0-9.]+)(?: points)? over (?:the )?(Cohen et al\.|static mask|UniCR)"
    for lead, less in re.findall(ahead, words_of(section)):
        assert lead in {
            as_written(it) for row in mine if (row["method"], row["less"]) == ("ARS", less) for it in row.values()
        }


def as_written(value):
    """A number of a table as the text has it, without a zero before the point and with a minus.

    >>> as_written("-0.2 ± 0.6")
    '−.2 ± .6'
    """
    return re.sub(r"\b0\.", ".", value).replace("-", "−")


def test_the_norm_is_named_where_radii_are_shown():
    sections = [section for section in re.split(r"^## ", TEXT, flags=re.MULTILINE) if " (/255) " in section]
    assert len(sections) == 5
    for section in sections:
        assert "ℓ∞" in section.split(" (/255) ")[0], section.splitlines()[0]


def test_its_estimates_are_those_of_the_plans():
    from ars.experiments.sweeps.file import read_sweep
    from ars.experiments.sweeps.plan import make_plan

    [rows] = [rows for rows in tables(TEXT) if "estimated" in rows[0]]
    for row in rows:
        path = ROOT / re.search(r"\((.*)\)", row["file"])[1]
        seconds = make_plan(read_sweep(path), ROOT / "no-runs").seconds
        assert float(row["estimated"].removesuffix(" min")) == pytest.approx(seconds / 60, abs=1), path


@pytest.mark.parametrize("link", sorted(set(re.findall(r"\]\(([^)#]+)\)", TEXT))))
def test_its_links_lead_somewhere(link):
    assert (ROOT / link).exists()


@pytest.mark.parametrize(
    ("section", "cells"),
    [
        ("CIFAR-10 on backgrounds, k = 64, σ = .5", "*/*-k64-s0.5-seed*"),
        ("CIFAR-10 on backgrounds, k = 96, σ = 1.0", "*/*-k96-s1-seed*"),
    ],
)
def test_the_minutes_of_a_training_and_a_certification_are_those_of_the_records(section, cells):
    timed = [json.loads(path.read_text()) for path in (ROOT / "results").glob(f"{cells}/timing.json")]
    assert len(timed) == 11
    train, certify = ([one[f"{work}_seconds"] / 60 for one in timed] for work in ("train", "certify"))
    said = f"training {min(train):.1f} to {max(train):.1f} minutes a method, certification {min(certify):.1f} to"
    assert f"{said} {max(certify):.1f}." in words_of(section)


@pytest.mark.parametrize(
    ("section", "settings"),
    [
        ("CIFAR-10 on backgrounds, k = 64, σ = .5", [("64", "0.5")]),
        ("CIFAR-10 on backgrounds, k = 96, σ = 1.0", [("96", "1")]),
        ("The cross", [("32", "0.5"), ("48", "0.5"), ("96", "0.5"), ("96", "0.25")]),
    ],
)
def test_accuracies_under_class_bounds_and_shares_of_masks_are_those_of_the_tables(section, settings):
    text = words_of(section)
    _, bounded = text.split("nder our class bounds", 1)
    rows = {
        (row["k"], row["σ"], row["method"]): row["standard"].split()[0] for row in generated("measures-class-bounds")
    }
    shares = {(row["k"], row["σ"], row["method"]): row["least to most"] for row in generated("masks")}
    for setting in settings:
        three = [rows[*setting, method] for method in ("Cohen et al.", "static mask", "ARS")]
        assert f"{three[0]}, {three[1]} and {three[2]}%" in bounded
        assert setting[0] == "32" or f"{shares[*setting, 'ARS']}%" in text


def records(cell):
    [packed] = (ROOT / "results").glob(f"{cell}/certify/*/*.jsonl.gz")
    with gzip.open(packed, "rt", encoding="utf-8") as lines:
        return [json.loads(line) for line in lines]


def largest(cell):
    """The largest certified radius of a packed cell, in 1/255, cut."""
    return truncate(255 * max(Fraction(record["radius"]) for record in records(cell)), 2)


def test_the_largest_radii_of_the_rivals_are_those_of_the_records():
    [rows] = [rows for rows in tables(TEXT) if any("largest radius" in name for name in rows[0])]
    methods = {"UniCR": "unicr", "Súkeník et al.": "sukenik"}
    assert len(rows) == 4
    for row in rows:
        cell = f"k{row['k']}-s{float(row['σ']):g}-seed0"
        ours, cohens = largest(f"rivals/{methods[row['method']]}-{cell}"), largest(f"headline/cohen-{cell}")
        assert row["largest radius (/255), that of Cohen et al."] == f"{ours}, {cohens}"


def test_the_noise_of_sukenik_et_al_is_that_of_the_records():
    told = []
    for cell, digits in (("k64-s0.5", ".50 ± .02"), ("k96-s1", "1.04 ± .07")):
        noise = [record["sigmas"][0] for record in records(f"rivals/sukenik-{cell}-seed0")]
        assert as_written(f"{statistics.mean(noise):.2f} ± {statistics.pstdev(noise):.2f}") == digits
        told.append(as_written(f"{min(noise):.3f} to {max(noise):.3f}"))
    assert f"Its noise on the 200 images is {told[0]} (k = 64) and {told[1]} (k = 96)." in TEXT


@pytest.mark.parametrize(
    ("section", "setting", "seeds"),
    [
        ("CIFAR-10 on backgrounds, k = 64, σ = .5", "k64-s0.5", 3),
        ("CIFAR-10 on backgrounds, k = 96, σ = 1.0", "k96-s1", 3),
        ("The cross", "k48-s0.5", 1),
    ],
)
def test_votes_on_the_certified_images_are_those_of_the_records(section, setting, seeds):
    [told] = re.findall(r"200 images is right on (\S+), (\S+) and (\S+)%", words_of(section))
    for method, share in zip(("cohen", "static_mask", "adaptive"), told, strict=True):
        known = [record for seed in range(seeds) for record in records(f"*/{method}-{setting}-seed{seed}")]
        assert len(known) == 200 * seeds
        right = sum(record["candidate"] == record["truth"] for record in known)
        assert share == f"{100 * right / len(known):.1f}", method


@pytest.mark.parametrize(
    ("section", "setting"),
    [
        ("CIFAR-10 on backgrounds, k = 64, σ = .5", ("64", "0.5")),
        ("CIFAR-10 on backgrounds, k = 96, σ = 1.0", ("96", "1")),
    ],
)
def test_leads_seed_by_seed_are_those_of_the_table(section, setting):
    number = r"[0-9]+\.[0-9]"
    told = re.findall(rf" by ({number}, {number} and {number})", words_of(section))
    rows = [row for row in generated("leads") if (row["k"], row["σ"]) == setting and row["method"] == "ARS"]
    known = {value.replace(", ", " and ").replace(" and ", ", ", 1) for row in rows for value in row.values()}
    assert len(told) == 4
    assert set(told) <= known
