"""What a sweep file means, and what is said about one that means nothing."""

import os
from functools import lru_cache
from pathlib import Path

import pytest

from ars.data.settings import Data
from ars.methods.paper_values import paper_beta
from ars.recipes.read import SWEEPS
from ars.recipes.recipe import Classifier, Recipe
from ars.workflows.sweeps.file import SweepError, portable, read_sweep
from ars.workflows.sweeps.plan import make_plan

from ...conftest import TINY

shipped = lru_cache(read_sweep)


@pytest.fixture
def written(tmp_path):
    """Writes a sweep file beside a recipe."""
    (tmp_path / "base.yaml").write_text("sigma: 0.3\ndata: {kind: cifar_backgrounds}\ntrain: {epochs: 9}\n")

    def write(text):
        path = tmp_path / "mine.yaml"
        path.write_text(text)
        return path

    return write


def group(keys=""):
    """A sweep file of one group with these keys besides methods and sigma."""
    return f"recipe: base.yaml\ngroups: [{{methods: [cohen], sigma: [1]{keys and ', '}{keys}}}]"


def test_cells_come_in_order_with_their_recipes(written):
    sweep = read_sweep(
        written(
            """
recipe: base.yaml
override:
  cohen: {train.epochs: 3, classifier.name: cifar_resnet, beta: }
groups:
  - methods: [cohen, adaptive]
    k: [48, 32]
    sigma: [0.5, 1]
    override: {certify.mode: curve, certify.radii: [0, 0.01]}
  - {methods: [adaptive], k: [48], sigma: [0.5], seeds: [1, 2], vote: 0, keep_weights: true}
  - {methods: [cohen], sigma: [0.5], label: short, override: {train.epochs: 1}}
"""
        )
    )
    assert sweep.name == "mine"
    assert [cell.name for cell in sweep.cells] == [
        "cohen-k48-s0.5-seed0",
        "adaptive-k48-s0.5-seed0",
        "cohen-k48-s1-seed0",
        "adaptive-k48-s1-seed0",
        "cohen-k32-s0.5-seed0",
        "adaptive-k32-s0.5-seed0",
        "cohen-k32-s1-seed0",
        "adaptive-k32-s1-seed0",
        "adaptive-k48-s0.5-seed1",
        "adaptive-k48-s0.5-seed2",
        "cohen-s0.5-seed0-short",
    ]
    first, second, *_, last = (cell.recipe for cell in sweep.cells)
    assert (first.method, first.data.size, first.sigma, first.train.epochs) == ("cohen", 48, 0.5, 3)
    assert first.classifier.name == "cifar_resnet"
    assert (second.train.epochs, second.certify.mode, second.certify.radii) == (9, "curve", (0.0, 0.01))
    assert last.train.epochs == 1
    seeded = sweep.cells[9]
    assert (seeded.recipe.seed, seeded.vote, seeded.keep_weights, seeded.weights) == (2, 0, True, "bf16")


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (group("colour: red"), "groups.colour"),
        ("recipe: base.yaml\ngroups: [{sigma: [1]}]", "methods"),
        ("recipe: base.yaml\ngroups: []", "at least one group"),
        ("groups: [{methods: [cohen], sigma: [1]}]", "recipe"),
        ("recipe: other.yaml\ngroups: [{methods: [cohen], sigma: [1]}]", "no recipe other.yaml"),
        (f"recipe: {'a' * 5000}\ngroups: [{{methods: [cohen], sigma: [1]}}]", "recipe cannot be opened"),
        ("recipe: /etc/other.yaml\ngroups: [{methods: [cohen], sigma: [1]}]", "relative"),
        ("recipe: base.yaml\ngroups: [{methods: [magic], sigma: [1]}]", "magic"),
        ("recipe: base.yaml\ngroups: [{methods: [cohen], sigma: [-1]}]", "sigma must be positive"),
        ("recipe: base.yaml\ngroups: [{methods: [cohen], sigma: [1, 1]}]", "cohen-s1-seed0"),
        (group("label: ../x"), "label"),
        (group("k: [0]"), "at least 1, got 0"),
        (group("k: "), "groups[0].k is empty"),
        (group("override: {seed: 3}"), "seeds"),
        (group("override: {train.epoch: 3}"), "train.epoch"),
        (f"{group()}\noverride: {{cohen: }}", "override.cohen is empty"),
        (f"{group()}\nrecipe_name: a/b", "recipe_name"),
        (f"{group()}\nrough: [{{methods: [cohen], epoch: -1}}]", "got -1"),
        (f"{group()}\nrough: [{{methods: [cohen], epoch: .inf}}]", "got inf"),
        (f"{group()}\nrough: [{{methods: [cohen], k: many}}]", "rough[0].k must be a whole number"),
        ("- 1", "holds a list"),
    ],
)
def test_a_bad_sweep_file_gets_one_sentence(written, text, words):
    with pytest.raises(SweepError) as caught:
        read_sweep(written(text))
    assert words in str(caught.value)
    assert "\n" not in str(caught.value)
    assert "class_path" not in str(caught.value)


@pytest.mark.parametrize(
    ("keys", "named"),
    [
        ("data.kind: folder, data.root: /photos", "data.root"),
        ("data.kind: folder, data.root: photos, data.backgrounds: /scenes, data.pasted: 32", "data.backgrounds"),
        ("classifier.from_run: /runs/cohen", "classifier.from_run"),
        ("data.kind: folder, data.root: photos", None),
        ("data.root: /cifar", None),  # found through ARS_DATA, once it is packed
    ],
)
def test_what_could_never_be_packed_is_refused_before_it_is_run(written, keys, named):
    path = written(group(f"override: {{{keys}}}"))
    if named is None:
        assert len(read_sweep(path).cells) == 1
        return
    with pytest.raises(SweepError, match=f"{named} must be a path relative"):
        read_sweep(path)


def test_a_portable_recipe_has_no_path_of_the_machine():
    recipe = Recipe(data=Data(kind="cifar_backgrounds", size=48, root="/data/cifar", backgrounds="scenes"))
    assert portable(recipe).data == Data(kind="cifar_backgrounds", size=48, backgrounds="scenes")
    assert portable(TINY) is TINY
    with pytest.raises(ValueError, match=r"data\.root must be a path relative"):
        portable(Recipe(data=Data(kind="folder", root="C:\\photos")))
    assert portable(Recipe(classifier=Classifier(from_run="runs/cohen"))).classifier.from_run == "runs/cohen"


@pytest.mark.parametrize("path", sorted(SWEEPS.glob("*.yaml")), ids=lambda path: path.stem)
def test_every_shipped_sweep_can_be_read_and_states_the_times_of_all_its_cells(path):
    sweep = shipped(path)
    plan = make_plan(sweep, Path("nowhere"))
    assert plan.left == len(sweep.cells) > 0
    assert plan.seconds is not None
    assert plan.seconds < 3 * 3600


def test_table_1_is_whole():
    """headline, cross, rivals and table1 are the paper's Table 1, each cell once, without UniCR at beta = 2."""
    names = [
        cell.name
        for name in ("headline", "cross", "rivals", "table1")
        for cell in shipped(SWEEPS / f"{name}.yaml").cells
    ]
    wanted = {
        f"{method}-k{k}-s{sigma:g}-seed0"
        for method in ("cohen", "static_mask", "adaptive", "unicr", "sukenik")
        for k in (32, 48, 64, 96)
        for sigma in (0.25, 0.5, 1.0)
        if method != "unicr" or paper_beta(k, sigma) != 2  # the same noise as Cohen et al.'s, draw for draw
    }
    assert sorted(names) == sorted(wanted)


def test_a_pipe_is_not_a_sweep_file(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(SweepError, match="pipe"):
        read_sweep(tmp_path / "pipe")


@pytest.mark.parametrize("name", ["s\udce9.yaml", "x$a^_{b$.yaml", "two\nlines.yaml"])
def test_a_sweep_whose_name_could_not_name_figures_is_refused(tmp_path, name):
    (tmp_path / name).touch()
    with pytest.raises(SweepError, match="rename"):
        read_sweep(tmp_path / name)


def test_the_name_of_a_sweep_may_be_several_words(written, tmp_path):
    assert read_sweep(written(group()).rename(tmp_path / "two words (1).yaml")).name == "two words (1)"
