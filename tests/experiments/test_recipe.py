import os
import re
from pathlib import Path

import pytest

from ars.experiments.recipe import Recipe, RecipeError
from ars.experiments.recipe_file import read_recipe, recipe_parser
from ars.training.settings import TrainSettings

RECIPES = Path(__file__).parents[2] / "recipes"


def test_the_digits_recipe_is_what_the_demo_runs():
    assert read_recipe(RECIPES / "digits.yaml") == Recipe()


@pytest.mark.parametrize("path", sorted(RECIPES.glob("*.yaml")), ids=lambda path: path.name)
def test_every_recipe_can_be_read_and_written_back(path, tmp_path):
    recipe = read_recipe(path)
    (tmp_path / "resolved.yaml").write_text(recipe.to_yaml())
    assert read_recipe(tmp_path / "resolved.yaml") == recipe


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        (b"", "r.yaml is empty; a recipe is keys such as"),
        (b"# nothing yet", "r.yaml is empty; a recipe is keys such as"),
        (b"words", "r.yaml holds a str; a recipe is keys such as"),
        (b"\xfd\x00", "r.yaml is not a text file; a recipe is one, in YAML"),
        (
            b"method: cohen\nsigma: 1.0\nmethod: adaptive",
            "r.yaml: method stands twice, on lines 1 and 3; keep one of them",
        ),
        (b"train:\n  mask: {lr: 0.1, lr: 0.2}", "r.yaml: train.mask.lr stands twice, on line 2; keep one of them"),
        (b"sigma: [", "r.yaml is not YAML, which a recipe is: .*; mend it"),
    ],
)
def test_a_file_that_is_no_recipe_at_all_is_refused_with_advice(tmp_path, content, sentence):
    (tmp_path / "r.yaml").write_bytes(content)
    with pytest.raises(RecipeError, match=sentence):
        read_recipe(tmp_path / "r.yaml")


def test_dotted_overrides_change_single_values():
    recipe = read_recipe(RECIPES / "digits.yaml", ["--train.mask.lr", "0.5", "--method=cohen"])
    assert recipe.train.mask.lr == 0.5
    assert recipe.method == "cohen"
    assert recipe.train.classifier == Recipe().train.classifier


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        ("sigmaa: 1.0", "there is no key sigmaa; did you mean sigma[?] 'ars train --keys' lists what there is"),
        ("train: {epoch: 3}", "there is no key train.epoch; did you mean train.epochs[?] 'ars train --keys'"),
        ("trian: {epochs: 3}", "there is no key trian.epochs; did you mean train.epochs[?]"),
        ("trian: 3", "there is no key trian; did you mean train[?]"),
        ("start: {sizes: 3}", "there is no key start.sizes; did you mean start.size[?]"),
        ("zzzz: 1", "there is no key zzzz; 'ars train --keys' lists what there is"),
        ("method: magic", "method must be one of adaptive, cohen, static_mask, unicr or sukenik, got magic$"),
        ("method: cohn", "sukenik, got cohn; did you mean cohen[?]"),
        ("train: {epochs: abc}", "train.epochs must be a whole number, got abc$"),
        ("train: {mask: {lr: x}}", "train.mask.lr must be a number, got x$"),
        ("sigma: .nan", "sigma must be positive, got nan$"),
        ("classifier: {freeze: 7}", "classifier.freeze must be true or false, got 7$"),
        ("certify: {radii: 3}", "certify.radii must be a list in brackets, got 3$"),
        ("train: 3", "train has keys of its own, got 3; give some .'ars train --keys' lists them. or leave it out"),
        ("train:\n  # epochs: 3", "train has keys of its own, got nothing; give some"),
        ("train: {mask: adamw}", "train.mask has keys of its own, got adamw"),
        ("start: 5", "start must be keys with values or null, got 5$"),
        ("start: {size: x}", "start.size must be a whole number, got x$"),
        ("train: {mask_schedule: x}", "train.mask_schedule must be keys with values or null, got x$"),
        ("sigma: -1", "sigma must be positive"),
        ("share: 1.0", "share must lie strictly between"),
        ("certify: {alpha: 0}", "alpha must lie between 1e-100 and 0.5"),
        ("certify: {n_estimate: 1}", "n_estimate=1 cannot certify anything at alpha=0.05 .* use at least 5 draws"),
        ("certify: {alpha: 1e-99, n_estimate: 300}", "n_estimate=300 cannot certify .* use at least 329 draws"),
        ("certify: {bound: classes, n_estimate: 4}", "use at least 5 draws"),
        ("certify: {n_select: 0}", "n_select must be a whole number of at least 1, got 0"),
        ("certify: {n_select: 214748364801}", "n_select must be at most 214748364800, got 214748364801"),
        (f"certify: {{n_estimate: {10**21}}}", f"n_estimate must be at most 214748364800, got {10**21}"),
        ("certify: {mode: curve, radii: [0.01], bound: classes}", "mode='curve' bounds one class only: use bound="),
        ("share: learnt", "share must be learned or a number, got learnt; did you mean learned[?]"),
        ("method: cohen\ntrain: {mask_prior: {weight: 1}}", "train.mask_prior needs a method with a mask"),
        ("train: {consistency: {weight: 1}}", "set train.draws to 2 or more"),
        ("train: {classifier: {lr: 0}}", "lr must be positive"),
        ("train: {mask: {weight_decay: -1}}", "weight_decay must be at least 0"),
        ("train: {classifier: {momentum: 1}}", "momentum must be at least 0 and below 1"),
        ("train: {checkpoint_minutes: -1}", "checkpoint_minutes must be at least 0"),
        ("seed: -1", "seed must be a whole number of at least 0, got -1"),
        ("certify: {seed: -2}", "certify.seed must be a whole number of at least 0, got -2"),
        ("seed: 4294967296", ": seed must be at most 4294967295, got 4294967296"),
        ("seed: 99999999999999999999", ": seed must be at most 4294967295, got 99999999999999999999"),
        ("certify: {seed: 4294967296}", "certify.seed must be at most 4294967295, got 4294967296"),
        ("certify: {norm: l2}", "method adaptive masks, which certifies linf only"),
        ("method: unicr\nbeta: 1.5\ncertify: {norm: l2}", "unicr certifies l2 for beta 2 only, got beta 1.5"),
        ("method: unicr\ncertify: {norm: l2}", "unicr certifies l2 for beta 2 only, got beta null"),
        ("method: unicr\nbeta: 7", "at most 5, got 7"),
        ("beta: broad", "beta must be a number or null, got broad$"),
        ("data: {kind: imagenet, size: big}", "data.size must be a whole number or null, got big$"),
        ("certify: {tolerance: some}", "certify.tolerance must be a number or null, got some$"),
        ("start: {size: 0}", "start needs size and epochs of at least 1, got 0 and 16"),
        ("train: {epochs: }", "train.epochs is empty; give it a value or leave it out$"),
        ("train: {mask: {lr: }}", "train.mask.lr is empty; give it a value or leave it out$"),
        ("start: {through: }", "start.through is empty; give it a value or leave it out$"),
        ("data: {kind: }", "data.kind is empty; give it a value or leave it out$"),
        ("trian: {}", "there is no key trian; did you mean train[?] 'ars train --keys' lists what there is$"),
        ("train: {epoch: {}}", "there is no key train.epoch; did you mean train.epochs[?]"),
        ("start: {sizes: {}}", "there is no key start.sizes; did you mean start.size[?]"),
        ("1: 2", "1 is no key, which is a word$"),
        ("a: &a [*a]", "holds a value that contains itself; mend it$"),
        ("train: &a {train: *a}", "holds a value that contains itself; mend it$"),
        ("sigma: " + 3000 * "[" + 3000 * "]", "is nested too deeply for a recipe; mend it$"),
    ],
)
def test_what_does_not_make_sense_is_refused_by_name(tmp_path, content, sentence):
    path = tmp_path / "recipe.yaml"
    path.write_text(content)
    with pytest.raises(RecipeError, match=sentence) as caught:
        read_recipe(path)
    assert "\n" not in str(caught.value)
    assert str(path) in str(caught.value)


@pytest.mark.parametrize(
    ("option", "sentence"),
    [
        ("--method=cohn", "method must be one of adaptive, .*, got cohn; did you mean cohen[?]"),
        ("--train.epochs=abc", "train.epochs must be a whole number, got abc"),
        ("--sigma=nan", "sigma must be a number, got nan"),
        ("--sigma=-1", "sigma must be positive, got -1.0"),
        ("--data.kind=foldr", "data.kind must be one of digits, .*, got foldr; did you mean folder[?]"),
    ],
)
def test_an_option_that_is_wrong_is_not_laid_to_the_file(option, sentence):
    with pytest.raises(RecipeError) as caught:
        read_recipe(RECIPES / "digits.yaml", [option])
    assert re.fullmatch(sentence, str(caught.value))


@pytest.mark.parametrize(("beta", "norm"), [("2", "l2"), ("1.5", "linf"), ("null", "linf")])
def test_unicr_takes_the_norms_that_its_noise_is_certified_for(beta, norm):
    assert read_recipe(None, ["--method", "unicr", "--beta", beta, "--certify.norm", norm]).certify.norm == norm


def test_a_share_is_a_number_or_learned(tmp_path):
    assert read_recipe(None, ["--share", "0.3"]).share == 0.3
    learned = read_recipe(None, ["--share", "learned"])
    assert learned.share == "learned"
    (tmp_path / "recipe.yaml").write_text(learned.to_yaml())
    assert read_recipe(tmp_path / "recipe.yaml") == learned


def test_the_certified_norm_decides_the_weights_where_there_is_an_attack():
    linf, l2 = (["--method", "cohen", "--certify.norm", norm] for norm in ("linf", "l2"))
    assert read_recipe(None, linf).identity == read_recipe(None, l2).identity
    attack = ["--train.smoothadv.epsilon", "0.1"]
    assert read_recipe(None, linf + attack).identity != read_recipe(None, l2 + attack).identity


def test_a_missing_recipe_is_refused(tmp_path):
    with pytest.raises(RecipeError, match="there is no recipe at"):
        read_recipe(tmp_path / "none.yaml")
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(RecipeError, match="pipe is no file; save the recipe to one"):
        read_recipe(tmp_path / "pipe")


def test_what_may_be_null_may_be_empty(tmp_path):
    path = tmp_path / "recipe.yaml"
    path.write_text("beta:\nstart:\ndata: {size: , root: }\ncertify: {tolerance: }\n")
    assert read_recipe(path) == Recipe()


def test_the_identity_is_that_of_the_weights():
    import dataclasses

    recipe = Recipe()
    assert dataclasses.replace(recipe, sigma=0.6).identity != recipe.identity
    certify = dataclasses.replace(recipe.certify, n_estimate=7)
    assert dataclasses.replace(recipe, certify=certify).identity == recipe.identity
    often = TrainSettings(checkpoint_minutes=0.1)
    assert dataclasses.replace(recipe, train=often).identity == recipe.identity


def test_the_help_explains_every_key():
    text = recipe_parser().format_help()
    for key in ("--sigma", "--train.mask.lr", "--certify.n_estimate", "--data.kind"):
        assert key in text
    assert "noise budget" in text


def test_nothing_of_a_recipe_is_left_in_the_next(tmp_path):
    first = tmp_path / "first.yaml"
    first.write_text("method: unicr\nsigma: 0.9\nbeta: 2.5\ndata: {kind: cifar_backgrounds, size: 96}\nshare: 0.4\n")
    before = read_recipe(first, ["--train.epochs", "3", "--start.size", "32"])
    assert (before.method, before.sigma, before.train.epochs) == ("unicr", 0.9, 3)
    assert read_recipe() == Recipe()
    with pytest.raises(RecipeError):
        read_recipe(first, ["--sigma", "much"])
    assert read_recipe() == Recipe()
    assert read_recipe(first, ["--train.epochs", "3", "--start.size", "32"]) == before
