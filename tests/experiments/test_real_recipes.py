"""CelebA and ImageNet recipes at full size on what ARS_DATA holds of them: train, interrupt, go on, certify."""

from pathlib import Path

import pytest

from ars.certification.shards import merge
from ars.data.errors import DataError
from ars.data.locations import CELEBA, IMAGENET, find
from ars.experiments.certifying import certify_run
from ars.experiments.recipe import CertifySettings, read_recipe
from ars.experiments.run import load_run, train_run
from ars.training.loop import Interrupted

from .conftest import CPU

RECIPES = Path(__file__).parents[2] / "recipes"
# what a CPU cannot do in minutes: large batches, many steps
SMALL = ["--train.batch_size=2", "--train.max_steps=2", "--data.workers=0"]
FEW = CertifySettings(examples=2, n_select=2, n_estimate=6, alpha=0.05, precision="float32")


@pytest.mark.slow
@pytest.mark.parametrize(("name", "source"), [("celeba", CELEBA), ("imagenet", IMAGENET)])
def test_a_recipe_at_full_size_trains_goes_on_and_certifies(name, source, tmp_path):
    try:
        there = find(source)
    except DataError:
        there = None
    if there is None:
        pytest.skip(f"ARS_DATA holds no {name}")
    recipe = read_recipe(RECIPES / f"{name}.yaml", SMALL)
    with pytest.raises(Interrupted):
        train_run(recipe, tmp_path / "run", device=CPU, stop=lambda: True)
    standings = []
    assert train_run(recipe, tmp_path / "run", device=CPU, watch=standings.append)
    assert [(at.step, at.steps) for at in standings] == [(2, 2)]  # the first was done before
    certify_run(tmp_path / "run", FEW, device=CPU)
    assert len(merge(tmp_path / "run" / "certify" / "test").records) == 2
    assert load_run(tmp_path / "run", CPU)[0].train.epochs == recipe.train.epochs
