"""The page on the results folder lists what is there, and what is there belongs together."""

import json
import re
from pathlib import Path

import pytest
import torch

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


WEIGHTS = sorted((ROOT / "results").glob("*/*/model.safetensors"))


@pytest.mark.parametrize("weights", WEIGHTS, ids=lambda path: path.parent.name)
def test_the_weights_are_those_that_the_records_and_the_vote_are_of(weights):
    from ars.experiments.fingerprint import fingerprint
    from ars.experiments.run import load_without_data

    cell = weights.parent
    certified = json.loads((cell / "certify" / "test" / "settings.json").read_text(encoding="utf-8"))["model"]
    assert json.loads((cell / "vote.json").read_text(encoding="utf-8"))["model"] == certified
    if not cell.name.startswith("sukenik"):  # whose noise needs the training images
        _, model = load_without_data(cell, torch.device("cpu"))
        assert fingerprint(model) == certified
