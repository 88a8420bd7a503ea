import dataclasses

import pytest

from ars.recipes.read import read_recipe
from ars.recipes.recipe import Recipe
from ars.training.settings import TrainSettings


@pytest.mark.parametrize(("beta", "norm"), [("2", "l2"), ("1.5", "linf"), ("null", "linf")])
def test_unicr_takes_the_norms_that_its_noise_is_certified_for(beta, norm):
    assert read_recipe(None, ["--method", "unicr", "--beta", beta, "--certify.norm", norm]).certify.norm == norm


def test_the_identity_is_that_of_the_weights():
    recipe = Recipe()
    assert dataclasses.replace(recipe, sigma=0.6).identity != recipe.identity
    certify = dataclasses.replace(recipe.certify, n_estimate=7)
    assert dataclasses.replace(recipe, certify=certify).identity == recipe.identity
    often = TrainSettings(checkpoint_minutes=0.1)
    assert dataclasses.replace(recipe, train=often).identity == recipe.identity
    # the certified norm decides the weights if there is an attack
    linf, l2 = (["--method", "cohen", "--certify.norm", norm] for norm in ("linf", "l2"))
    assert read_recipe(None, linf).identity == read_recipe(None, l2).identity
    attack = ["--train.smoothadv.epsilon", "0.1"]
    assert read_recipe(None, linf + attack).identity != read_recipe(None, l2 + attack).identity
