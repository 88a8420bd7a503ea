"""The page on the results folder lists what is there."""

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "results.md").read_text(encoding="utf-8")


def test_the_tables_that_it_lists_are_those_that_are_there():
    _, _, listed = re.findall(r"((?:^\|.*\n)+)", PAGE, flags=re.MULTILINE)[1].split("\n", 2)
    names = re.findall(r"`([^`]+)`", " ".join(line.split("|")[1] for line in listed.splitlines()))
    [sentence] = re.findall(r"^A table or figure is there once .*$", PAGE, flags=re.MULTILINE)
    lacking = set(re.findall(r"`([^`]+)`", sentence))
    patterns = {name: re.sub("[A-Z]{2,}|[*]", ".+", name) for name in names}
    there = {path.stem for path in (ROOT / "results" / "tables").glob("*.md")}
    found = {name: {table for table in there if re.fullmatch(pattern, table)} for name, pattern in patterns.items()}
    assert {name for name, tables in found.items() if not tables} == lacking
    assert set().union(*found.values()) == there


def test_the_figures_that_it_lists_are_those_that_are_there():
    known = {"curves": "certified accuracy against the radius", "accuracy-by-k": "accuracy against k", "masks": "masks"}
    known["pipeline"] = "one draw taken apart"
    [listed] = re.findall(r"^\| `figures/\*\.svg` \|(.*)\|$", PAGE, flags=re.MULTILINE)
    there = {path.name for path in (ROOT / "results" / "figures").iterdir()}
    assert all(name.startswith(tuple(known)) for name in there)
    for start, words in known.items():
        assert (words in listed) == any(name.startswith(start) for name in there), start
