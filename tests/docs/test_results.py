"""The committed weights, records and votes belong together."""

import json
from pathlib import Path

import pytest
import torch
from safetensors import safe_open

ROOT = Path(__file__).parents[2]
WEIGHTS = sorted((ROOT / "results").glob("*/*/model.safetensors"))


@pytest.mark.parametrize("weights", WEIGHTS, ids=lambda path: path.parent.name)
def test_the_weights_are_those_that_the_records_and_the_vote_are_of(weights):
    from ars.certification.digest import digest_model
    from ars.workflows.load import load_without_data

    cell = weights.parent
    certified = json.loads((cell / "certify" / "test" / "settings.json").read_text(encoding="utf-8"))["model"]
    assert json.loads((cell / "vote.json").read_text(encoding="utf-8"))["model"] == certified
    if not cell.name.startswith("sukenik"):  # whose noise needs the training images
        _, model = load_without_data(cell, torch.device("cpu"))
        assert digest_model(model) == certified


@pytest.mark.parametrize("weights", WEIGHTS, ids=lambda path: path.parent.name)
def test_a_recipe_has_the_identity_that_its_weights_were_saved_with(weights):
    """Keys that came later do not change it."""
    from ars.recipes.read import read_recipe

    with safe_open(weights, framework="numpy") as file:
        saved = json.loads(file.metadata()["about"])["identity"]
    assert read_recipe(weights.with_name("recipe.yaml")).identity == saved


def test_there_are_weights():
    assert len(WEIGHTS) > 10
