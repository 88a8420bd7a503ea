import os

import pytest

from ars.recipes.read import SHIPPED, read_recipe
from ars.recipes.recipe import Recipe, RecipeError

DIGITS = SHIPPED / "digits.yaml"


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"", "empty"),
        (b"# nothing yet", "empty"),
        (b"words", "a str"),
        (b"\xfd\x00", "not a text file"),
        (b"method: cohen\nsigma: 1.0\nmethod: adaptive", "method .*twice, on lines 1 and 3"),
        (b"train:\n  mask: {lr: 0.1, lr: 0.2}", r"lr .*twice, on line 2"),
        (b"sigma: [", "YAML"),
    ],
)
def test_a_file_that_is_not_a_recipe_is_refused(tmp_path, content, words):
    (tmp_path / "r.yaml").write_bytes(content)
    with pytest.raises(RecipeError, match=f"r.yaml.* {words}"):
        read_recipe(tmp_path / "r.yaml")


def test_dotted_overrides_change_single_values():
    recipe = read_recipe(DIGITS, ["--train.mask.lr", "0.5", "--method=cohen"])
    assert recipe.train.mask.lr == 0.5
    assert recipe.method == "cohen"
    assert recipe.train.classifier == Recipe().train.classifier


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ("sigmaa: 1.0", "key sigmaa; did you mean sigma[?]"),
        ("train: {epoch: 3}", r"key train\.epoch; did you mean train\.epochs[?]"),
        ("trian: {epochs: 3}", r"key trian\.epochs; did you mean train\.epochs[?]"),
        ("trian: 3", "key trian; did you mean train[?]"),
        ("start: {sizes: 3}", r"key start\.sizes; did you mean start\.size[?]"),
        ("zzzz: 1", "key zzzz; '"),
        ("method: magic", "magic"),
        ("method: cohn", "cohn; did you mean cohen[?]"),
        ("train: {epochs: abc}", "train.epochs must be a whole number, got abc$"),
        ("train: {mask: {lr: x}}", "train.mask.lr must be a number, got x$"),
        ("sigma: .nan", "sigma .*nan$"),
        ("classifier: {freeze: 7}", "classifier.freeze must be true or false, got 7$"),
        ("certify: {radii: 3}", "certify.radii must be a list in brackets, got 3$"),
        ("share: learnt", "learnt; did you mean learned[?]"),
        ("beta: broad", "beta must be a number or null, got broad$"),
        ("data: {kind: imagenet, size: big}", "data.size must be a whole number or null, got big$"),
        ("train: 3", "train .*got 3"),
        ("train:\n  # epochs: 3", "train .*nothing"),
        ("train: {mask: adamw}", "train.mask .*adamw"),
        ("start: 5", "start must be keys with values or null, got 5$"),
        ("train: {mask_schedule: x}", "train.mask_schedule must be keys with values or null, got x$"),
        ("train: {epochs: }", "train.epochs is empty"),
        ("start: {through: }", "start.through is empty"),
        ("1: 2", "key 1"),
        ("a: &a [*a]", "aliases"),
        ("sigma: " + 3000 * "[" + 3000 * "]", "nested too deeply"),
        # what the parts of a recipe refuse
        ("sigma: -1", "sigma .*-1"),
        ("share: 1.0", r"share .*1\.0"),
        ("method: unicr\nbeta: 7", "beta .*got 7|got 7"),
        ("seed: -1", "seed .*got -1"),
        ("seed: 4294967296", "seed .*got 4294967296"),
        ("certify: {seed: -2}", "certify.seed .*got -2"),
        ("certify: {alpha: 0}", "alpha"),
        ("certify: {n_estimate: 1}", "n_estimate=1 .*5 draws"),
        ("certify: {norm: l2}", "adaptive .*linf"),
        ("method: unicr\nbeta: 1.5\ncertify: {norm: l2}", r"unicr .*beta 1\.5"),
        ("method: unicr\ncertify: {norm: l2}", "unicr .*beta null"),
        ("method: cohen\ntrain: {mask_prior: {weight: 1}}", "train.mask_prior"),
        ("start: {size: 0}", "start .*got 0 and 16"),
        ("start: {through: [48, 16]}", r"start\.through .* 32, got 48, 16"),
        ("start: {through: [32]}", r"start\.through .* 32, got 32"),
        ("start: {size: 16}", r"data\.kind digits"),
        ("classifier: {freeze: true}", r"classifier\.freeze needs"),
        ("classifier: {weights: x}", r"classifier\.factory"),
        ("classifier: {factory: 'a:b', weights: x, from_run: y}", "both"),
        ("method: cohen\nclassifier: {from_run: x, freeze: true}", "nothing to train"),
        ("method: unicr\ntrain: {mask_only_epochs: 1}", "unicr has no mask"),
        (
            "classifier: {from_run: x, freeze: true}\ntrain: {mask_only_epochs: 1}",
            "every epoch is mask-only",
        ),
    ],
)
def test_a_mistake_is_named_in_one_sentence(tmp_path, content, words):
    path = tmp_path / "recipe.yaml"
    path.write_text(content)
    with pytest.raises(RecipeError, match=words) as caught:
        read_recipe(path)
    assert "\n" not in str(caught.value)
    assert str(path) in str(caught.value)


@pytest.mark.parametrize(
    ("option", "words"),
    [
        ("--method=cohn", "cohn; did you mean cohen[?]"),
        ("--train.epochs=abc", "train.epochs must be a whole number, got abc"),
        ("--sigma=nan", "sigma .*nan"),
        ("--sigma=-1", r"sigma .*-1\.0"),
        ("--data.kind=foldr", "data.kind .*got foldr; did you mean folder[?]"),
    ],
)
def test_the_file_is_not_blamed_for_a_wrong_option(option, words):
    with pytest.raises(RecipeError, match=words) as caught:
        read_recipe(DIGITS, [option])
    assert str(DIGITS) not in str(caught.value)


@pytest.mark.parametrize("share", [0.3, "learned"])
def test_a_share_is_a_number_or_learned(tmp_path, share):
    recipe = read_recipe(None, [f"--share={share}"])
    assert recipe.share == share
    (tmp_path / "recipe.yaml").write_text(recipe.to_yaml())
    assert read_recipe(tmp_path / "recipe.yaml") == recipe


def test_a_recipe_that_is_not_a_file_is_refused(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    for name in ("none.yaml", "pipe"):
        with pytest.raises(RecipeError, match=name):
            read_recipe(tmp_path / name)


def test_what_may_be_null_may_be_empty(tmp_path):
    path = tmp_path / "recipe.yaml"
    path.write_text("beta:\nstart:\ndata: {size: , root: }\ncertify: {tolerance: }\n")
    assert read_recipe(path) == Recipe()
