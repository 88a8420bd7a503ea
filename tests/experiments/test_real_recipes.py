"""CelebA and ImageNet recipes at full size on what ARS_DATA holds of them: train, interrupt, go on, certify."""

from pathlib import Path

import pytest

from ars.certification.shards import merge
from ars.data.errors import DataError
from ars.data.locations import CELEBA, IMAGENET, find
from ars.experiments.certifying.local_engine import certify_run
from ars.experiments.certifying.request import Request
from ars.experiments.recipe import CertifySettings
from ars.experiments.recipe_file import read_recipe
from ars.experiments.run import load_run
from ars.experiments.training import train_run
from ars.training.loop import Interrupted

from .conftest import CPU

RECIPES = Path(__file__).parents[2] / "recipes"
# what a CPU cannot do in minutes: large batches, many steps
SMALL = ["--train.batch_size=2", "--train.max_steps=20", "--data.workers=0", "--certify.examples=1"]
FEW = CertifySettings(examples=2, n_select=2, n_estimate=6, alpha=0.05, precision="float32")


def needs(source):
    try:
        there = find(source)
    except DataError:
        there = None
    if there is None:
        pytest.skip(f"ARS_DATA does not hold {source[0]}")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "source"), [("celeba", CELEBA), ("imagenet", IMAGENET), ("imagenet_pretrained", IMAGENET)]
)
def test_a_recipe_at_full_size_trains_goes_on_and_certifies(name, source, tmp_path):
    needs(source)
    around = []
    if name == "imagenet_pretrained":
        few = ["--method=cohen", "--train.mask_only_epochs=0", "--train.max_steps=1"]
        train_run(read_recipe(RECIPES / "imagenet.yaml", [*SMALL, *few]), tmp_path / "cohen", device=CPU)
        around = [f"--classifier.from_run={tmp_path / 'cohen'}"]
    recipe = read_recipe(RECIPES / f"{name}.yaml", [*SMALL, *around])
    asked, standings = [], []

    def stop():
        asked.append(None)
        return len(asked) > 9

    with pytest.raises(Interrupted):
        train_run(recipe, tmp_path / "run", device=CPU, stop=stop)
    assert train_run(recipe, tmp_path / "run", device=CPU, watch=standings.append)
    assert (standings[0].step, standings[-1].step, standings[-1].steps) == (11, 20, 20)  # ten were done before
    certify_run(Request(tmp_path / "run", FEW), device=CPU)
    assert len(merge(tmp_path / "run" / "certify" / "test").records) == 2
    assert load_run(tmp_path / "run", CPU)[0].train.epochs == recipe.train.epochs
