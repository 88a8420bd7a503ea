"""Which trainings come before a recipe's own."""

import dataclasses

import pytest

from ars.data.settings import Data
from ars.recipes.read import read_recipe
from ars.recipes.recipe import Classifier, RecipeError, Start
from ars.recipes.start_sizes import epochs_in_all, start_of, starts_of
from ars.training.settings import MaskPrior

from ..conftest import TINY


@pytest.fixture
def recipe():
    settings = dataclasses.replace(TINY.train, epochs=2)
    data = Data("cifar_backgrounds", size=64)
    return dataclasses.replace(TINY, data=data, train=settings, start=Start(size=32, epochs=3))


def sized(recipe, size, **changes):
    return dataclasses.replace(recipe, data=dataclasses.replace(recipe.data, size=size), **changes)


def test_the_classifier_starts_alone_without_anything_that_only_a_mask_has(recipe):
    settings = dataclasses.replace(recipe.train, mask_only_epochs=1, mask_prior=MaskPrior(0.1))
    first = start_of(dataclasses.replace(recipe, share=0.3, train=settings))
    assert (first.method, first.data.size, first.train.epochs, first.start) == ("cohen", 32, 3, None)
    assert (first.train.mask_only_epochs, first.train.mask_prior.weight) == (0, 0.0)
    assert (first.sigma, first.seed) == (recipe.sigma, recipe.seed)


def test_without_larger_images_or_with_a_trained_classifier_there_is_no_start(recipe):
    assert start_of(sized(recipe, 32)) is None
    assert start_of(dataclasses.replace(recipe, start=None)) is None
    assert start_of(dataclasses.replace(recipe, classifier=Classifier(from_run="there"))) is None


def test_epochs_count_by_the_size_of_their_images(recipe):
    assert epochs_in_all(dataclasses.replace(recipe, start=None)) == 2
    assert epochs_in_all(recipe) == 2 + 3 / 4
    assert epochs_in_all(dataclasses.replace(recipe, start=Start(32, 3, through=(48,)))) == 2 + 2 * 0.75**2 + 3 / 4


def test_a_run_on_the_way_is_that_of_its_own_size(recipe):
    larger = dataclasses.replace(recipe, start=Start(32, 3, through=(48,)))
    assert start_of(larger).identity == sized(recipe, 48).identity != larger.identity != recipe.identity
    assert dataclasses.replace(recipe, start=Start(32, 3, through=(64, 96))).identity == recipe.identity
    assert dataclasses.replace(recipe, start=Start(32, 4)).identity != recipe.identity


def test_on_the_way_unicr_keeps_the_shape_of_its_noise(recipe):
    """The paper's beta is 2.25 at k = 96, sigma = 1.0, and 2 at 64; at sigma = .5 it is the same for both."""
    unicr = sized(recipe, 96, method="unicr", start=Start(32, 3, through=(64,)), sigma=1.0)
    first, alone = starts_of(unicr)
    assert (first.beta, alone.beta) == (2.25, None)
    assert start_of(dataclasses.replace(unicr, beta=1.5)).beta == 1.5
    assert start_of(dataclasses.replace(unicr, sigma=0.5)).beta is None


def test_keys_of_a_start_on_the_command_line():
    options = ["--data.kind=cifar_backgrounds", "--data.size=64"]
    assert read_recipe(None, [*options, "--start.epochs=5"]).start == Start(32, 5)
    assert read_recipe(None, options).start is None
    with pytest.raises(RecipeError, match="got 32 and 0"):
        read_recipe(None, [*options, "--start.epochs=0"])
