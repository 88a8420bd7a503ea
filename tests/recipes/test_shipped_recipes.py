"""The recipes against the paper's table of hyperparameters and, where it is there, data at full size."""

import pytest

from ars.certification.settings import CertifySettings
from ars.data.locate import CELEBA, IMAGENET, find
from ars.data.settings import DataError
from ars.recipes.read import SHIPPED, read_recipe
from ars.recipes.recipe import Recipe
from ars.runs.shards import merge
from ars.training.loop import Interrupted
from ars.training.optimizers import settings_of
from ars.workflows.certify import certify_run
from ars.workflows.load import load_run
from ars.workflows.request import Request
from ars.workflows.train import train_run

from ..conftest import CPU

UNICR_32 = ["--data.size=32", "--train.classifier.name=sgd", "--train.classifier.lr=0.01",
            "--train.classifier.weight_decay=0.0005", "--train.schedule.factor=0.1"]  # fmt: skip
COHEN_IMAGENET = ["--method=cohen", "--train.epochs=90", "--train.mask_only_epochs=0"]


def recipe(name, *overrides):
    return read_recipe(SHIPPED / f"{name}.yaml", overrides)


def test_the_digits_recipe_is_what_the_demo_runs():
    assert recipe("digits") == Recipe()


@pytest.mark.parametrize("path", sorted(SHIPPED.glob("*.yaml")), ids=lambda path: path.name)
def test_every_recipe_can_be_read_and_written_back(path, tmp_path):
    recipe = read_recipe(path)
    (tmp_path / "resolved.yaml").write_text(recipe.to_yaml())
    assert read_recipe(tmp_path / "resolved.yaml") == recipe


@pytest.mark.parametrize(
    ("name", "overrides", "part", "optimizer", "rates"),
    [
        ("cifar_backgrounds_paper", [], "classifier", ("adamw", 1e-4), {29: 1e-2, 30: 1e-3, 60: 1e-4, 99: 1e-5}),
        ("cifar_backgrounds_paper", [], "mask", ("adamw", 1e-4), {0: 1e-3, 39: 1e-3, 40: 5e-4, 80: 2.5e-4, 99: 2.5e-4}),
        ("cifar_cohen", [], "classifier", ("sgd", 1e-4), {0: 1e-1, 30: 1e-2, 60: 1e-3, 89: 1e-3}),
        ("cifar_unicr", [], "classifier", ("adamw", 1e-2), {0: 1e-3, 30: 5e-4, 60: 2.5e-4, 99: 1.25e-4}),
        ("cifar_unicr", UNICR_32, "classifier", ("sgd", 5e-4), {0: 1e-2, 30: 1e-3, 60: 1e-4, 90: 1e-5}),
        ("cifar_sukenik", [], "classifier", ("sgd", 0), {0: 1e-2, 30: 1e-3, 60: 1e-4, 90: 1e-5}),
        ("celeba", [], "classifier", ("sgd", 0), {0: 5e-2, 2: 5e-2, 3: 4e-2, 6: 3.2e-2, 23: 5e-2 * 0.8**7}),
        ("celeba", [], "mask", ("sgd", 0), {0: 5e-2, 23: 5e-2}),
        ("imagenet", [], "mask", ("sgd", 1e-4), {0: 5e-2, 10: 5e-2, 39: 5e-2, 40: 5e-3, 70: 5e-4, 99: 5e-4}),
        ("imagenet", [], "classifier", ("sgd", 1e-4), {10: 1e-1, 39: 1e-1, 40: 1e-2, 70: 1e-3, 99: 1e-3}),
        ("imagenet", COHEN_IMAGENET, "classifier", ("sgd", 1e-4), {0: 1e-1, 30: 1e-2, 60: 1e-3, 89: 1e-3}),
        ("imagenet_pretrained", [], "mask", ("sgd", 1e-4), {0: 5e-2, 9: 5e-2}),
    ],
)  # fmt: skip
def test_the_optimisers_and_their_schedules_are_the_papers(name, overrides, part, optimizer, rates):
    train = recipe(name, *overrides).train
    chosen = settings_of(train, part)
    assert (chosen.name, chosen.weight_decay) == optimizer
    assert chosen.momentum == (0 if name == "celeba" else 0.9)
    steps = 7
    for epoch, rate in rates.items():
        for step in (epoch * steps, (epoch + 1) * steps - 1):
            assert chosen.lr * train.factor(part, step, steps_per_epoch=steps) == pytest.approx(rate)


@pytest.mark.parametrize(
    ("name", "epochs", "alone", "batch", "examples", "every", "draws", "alpha"),
    [
        ("cifar_backgrounds_paper", 100, 0, 256, 200, 50, 50_000, 0.05),
        ("cifar_cohen", 90, 0, 400, 200, 50, 50_000, 0.05),
        ("cifar_unicr", 100, 0, 256, 200, 50, 50_000, 0.05),
        ("cifar_sukenik", 100, 0, 256, 200, 50, 50_000, 0.05),
        ("celeba", 24, 0, 64, 100, 200, 10_000, 0.05),
        ("imagenet", 100, 10, 300, 500, 100, 100_000, 0.01),
        ("imagenet_pretrained", 10, 0, 300, 500, 100, 100_000, 0.01),
    ],
)
def test_epochs_batches_and_certification_are_the_papers(name, epochs, alone, batch, examples, every, draws, alpha):
    it = recipe(name)
    assert (it.train.epochs, it.train.mask_only_epochs, it.train.batch_size) == (epochs, alone, batch)
    how = it.certify
    assert (how.examples, how.every, how.n_select, how.n_estimate, how.alpha) == (examples, every, 100, draws, alpha)
    assert it.classifier.freeze == (name == "imagenet_pretrained")


# a CPU could not do large batches and many steps in minutes
SMALL = ["--train.batch_size=2", "--train.max_steps=20", "--data.workers=0", "--certify.examples=1"]
FEW = CertifySettings(examples=2, n_select=2, n_estimate=6, precision="float32")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "source"), [("celeba", CELEBA), ("imagenet", IMAGENET), ("imagenet_pretrained", IMAGENET)]
)
def test_a_recipe_at_full_size_trains_resumes_and_certifies(name, source, tmp_path):
    """On what ARS_DATA holds of CelebA and ImageNet."""
    try:
        there = find(source)
    except DataError:
        there = None
    if there is None:
        pytest.skip(f"ARS_DATA does not hold {source[0]}")
    around = []
    if name == "imagenet_pretrained":
        few = ["--method=cohen", "--train.mask_only_epochs=0", "--train.max_steps=1"]
        train_run(recipe("imagenet", *SMALL, *few), tmp_path / "cohen", device=CPU)
        around = [f"--classifier.from_run={tmp_path / 'cohen'}"]
    chosen, asked, standings = recipe(name, *SMALL, *around), [], []

    def stop():
        asked.append(None)
        return len(asked) > 9

    with pytest.raises(Interrupted):
        train_run(chosen, tmp_path / "run", device=CPU, stop=stop)
    assert train_run(chosen, tmp_path / "run", device=CPU, watch=standings.append)
    assert (standings[0].step, standings[-1].step, standings[-1].steps) == (11, 20, 20)  # ten were done before
    certify_run(Request(tmp_path / "run", FEW), device=CPU)
    assert len(merge(tmp_path / "run" / "certify" / "test").records) == 2
    assert load_run(tmp_path / "run", CPU)[0].train.epochs == chosen.train.epochs
