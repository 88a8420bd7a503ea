import re
from dataclasses import replace

import pytest

from ars.data.settings import KEYS, Data
from ars.recipes.read import read_recipe


def test_what_resolves_to_the_same_is_equal():
    assert Data("cifar_backgrounds") == Data("cifar_backgrounds", size=32) != Data("cifar_backgrounds", size=64)
    assert len({Data(), Data(passes=8), Data(passes=9)}) == 2
    assert Data("imagenet") != Data("celeba")


def test_every_kind_has_its_defaults():
    for kind, keys in KEYS.items():
        data = Data(kind, root="x" if kind == "folder" else None)
        assert data.options == {"seed": 0, **keys, **({"root": "x"} if kind == "folder" else {})}


def test_a_kind_that_is_not_known_is_refused():
    data = Data("folder", root="x")
    object.__setattr__(data, "kind", "unknown")
    with pytest.raises(ValueError, match=r"data\.kind .* unknown"):
        data.__post_init__()


@pytest.mark.parametrize("kind", KEYS)
def test_keys_of_other_kinds_are_refused_by_name(kind):
    values = {"passes": 2, "size": 64, "root": "x", "backgrounds": "y", "pasted": 16, "attribute": "Bald",
              "feature": "eyes", "skip_unreadable": True, "workers": 1}  # fmt: skip
    for name in values.keys() - KEYS[kind].keys():
        with pytest.raises(ValueError, match=rf"data\.kind {kind} has no key '{name}'"):
            Data(kind, **{"root": "x", name: values[name]} if kind == "folder" else {name: values[name]})


@pytest.mark.parametrize(
    ("options", "named"),
    [
        ({"kind": "folder"}, "data.root"),
        ({"kind": "folder", "root": "x", "pasted": 8}, "data.backgrounds"),
        ({"kind": "folder", "root": "x", "backgrounds": "y"}, "data.pasted"),
        ({"kind": "folder", "root": ""}, "data.root is empty"),
        ({"kind": "cifar_backgrounds", "backgrounds": ""}, "data.backgrounds is empty"),
        ({"kind": "imagenet", "size": 0}, "data.size"),
        ({"kind": "cifar_backgrounds", "size": 48, "padding": 4}, "data.padding"),
        ({"kind": "celeba", "workers": -1}, "data.workers"),
        ({"seed": -1}, "data.seed"),
    ],
)
def test_what_makes_no_sense_is_refused(options, named):
    with pytest.raises(ValueError, match=re.escape(named)):
        Data(**options)


def test_recipes_name_benchmarks_and_keep_what_decides_them(tmp_path):
    path = tmp_path / "recipe.yaml"
    path.write_text("data: {kind: folder, root: photos, size: 96}\n")
    recipe = read_recipe(path)
    assert recipe.data == Data("folder", root="photos", size=96)
    path.write_text(recipe.to_yaml())
    assert read_recipe(path) == recipe
    assert read_recipe(path).identity == recipe.identity
    assert "attribute" not in recipe.to_yaml()
    assert replace(recipe, data=replace(recipe.data, workers=3)).identity == recipe.identity
    assert replace(recipe, data=replace(recipe.data, size=64)).identity != recipe.identity
