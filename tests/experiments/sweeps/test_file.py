"""What a sweep file means, and what is said of one that means nothing."""

import os
from functools import lru_cache
from pathlib import Path

import pytest

from ars.experiments.sweeps.file import SweepError, read_sweep
from ars.methods.unicr import paper_beta

SWEEPS = Path(__file__).parents[3] / "recipes" / "sweeps"
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


def test_cells_come_in_order_with_their_recipes(written):
    sweep = read_sweep(
        written(
            """
recipe: base.yaml
override:
  cohen: {train.epochs: 3, classifier.name: cifar_resnet}
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


ONE = "recipe: base.yaml\ngroups: [{methods: [cohen], sigma: [1]}]"


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (
            "recipe: base.yaml\ngroups:\n  - methods: [cohen]\n    sigma: [1]\n    sigma: [2]",
            "groups.sigma stands twice, on lines 4 and 5; keep one of them; docs/sweep.md",
        ),
        ("recipe: base.yaml\ngrups: []", "there is no key grups; docs/sweep.md"),
        (
            "recipe: base.yaml\ngroups: [{methods: [cohen], sigma: [1], colour: red}]",
            "there is no key groups.colour; docs",
        ),
        ("recipe: base.yaml\ngroups: [{sigma: [1]}]", "required: methods"),
        ("recipe: base.yaml\ngroups: [{methods: [], sigma: [1]}]", "methods must name at least one"),
        ("recipe: base.yaml\ngroups: []", "at least one group"),
        ("groups: [{methods: [cohen], sigma: [1]}]", "required: recipe"),
        ("recipe: other.yaml\ngroups: [{methods: [cohen], sigma: [1]}]", "there is no recipe at"),
        ("recipe: /etc/other.yaml\ngroups: [{methods: [cohen], sigma: [1]}]", "relative to the sweep file"),
        ("recipe: base.yaml\ngroups: [{methods: [magic], sigma: [1]}]", "magic"),
        ("recipe: base.yaml\ngroups: [{methods: [cohen], sigma: [-1]}]", "sigma must be positive"),
        ("recipe: base.yaml\ngroups: [{methods: [cohen], sigma: [1, 1]}]", "2 cells are cohen-s1-seed0"),
        (
            "recipe: base.yaml\ngroups: [{methods: [cohen], sigma: [1], label: ../x}]",
            "label is part of a folder's name",
        ),
        (
            "recipe: base.yaml\ngroups: [{methods: [cohen], sigma: [1], override: {seed: 3}}]",
            "given to groups as seeds",
        ),
        ("recipe: base.yaml\ngroups: [{methods: [cohen], sigma: [1], override: {train.epoch: 3}}]", "train.epoch"),
        ("recipe: base.yaml\noverride: {magic: {}}\ngroups: [{methods: [cohen], sigma: [1]}]", "magic"),
        (
            "recipe: base.yaml\nrecipe_name: a/b\ngroups: [{methods: [cohen], sigma: [1]}]",
            "recipe_name is part of files' names",
        ),
        ("recipe: base.yaml\ngroups: [{methods: [cohen], sigma: [1], k: [0]}]", "at least 1, got 0"),
        (
            "recipe: base.yaml\ngroups: [{methods: [cohen], sigma: [1]}]\nrough: [{methods: [cohen], epoch: -1}]",
            "rough epoch is in seconds and at least 0, got -1",
        ),
        (
            "recipe: base.yaml\ngroups: [{methods: [cohen], sigma: [1]}]\nrough: [{methods: [cohen], k: many}]",
            "rough.k must be a whole number or null, got many; docs",
        ),
        ("- 1", "Unexpected config"),
        (f"{ONE}\nrough:", "rough is empty; give it a value or leave it out; docs/sweep.md"),
        (f"{ONE}\nweights:", "weights is empty; give it a value"),
        (f"{ONE}\nrough: [{{methods: [cohen], epoch: .inf}}]", "rough epoch is in seconds and at least 0, got inf"),
        (f"{ONE}\nrough: [{{methods: [cohen], epoch: .nan}}]", "rough epoch is in seconds and at least 0, got nan"),
        ("recipe: base.yaml\ngroups: [null]", "groups[0] is empty; give it a value"),
        ("recipe: base.yaml\ngroups: [{methods: [cohen], sigma: [1], k: }]", "groups[0].k is empty; give it a value"),
        ("recipe: base.yaml\ngroups: [{methods: [cohen], sigma: [1], overide: {}}]", "no key groups[0].overide; docs"),
        ("recipe: base.yaml\ngroups: [{methods: [cohen], sigma: [1], override: {1: 2}}]", "override.1 is no key"),
        (f"{ONE}\nother: &a [*a]", "contains itself; mend it"),
        (f"{ONE}\nother: &a {{b: *a}}", "contains itself; mend it"),
        (f"{ONE}\nother: " + 3000 * "[" + 3000 * "]", "nested too deeply"),
        (f"{ONE}\noverride: {{cohen: }}", "override.cohen is empty"),
        ("recipe: base.yaml\ngroups: [3]", "groups[0] has keys of its own, got 3; docs"),
    ],
)
def test_a_bad_sweep_file_gets_one_sentence(written, text, words):
    with pytest.raises(SweepError) as caught:
        read_sweep(written(text))
    assert words in str(caught.value)
    assert "\n" not in str(caught.value)
    assert "class_path" not in str(caught.value)


@pytest.mark.parametrize(
    ("keys", "told"),
    [
        ("data.kind: folder, data.root: /photos", "data.root {}, got /photos"),
        (
            "data.kind: folder, data.root: photos, data.backgrounds: /scenes, data.pasted: 32",
            "data.backgrounds {}, got /scenes",
        ),
        ("classifier.from_run: /runs/cohen", "classifier.from_run {}, got /runs/cohen"),
        ("data.kind: folder, data.root: photos", None),
        ("data.root: /cifar", None),  # looked for where ARS_DATA says, once it is packed
    ],
)
def test_what_could_never_be_packed_is_refused_before_it_is_run(written, keys, told):
    path = written(f"recipe: base.yaml\ngroups: [{{methods: [cohen], sigma: [1], override: {{{keys}}}}}]")
    if told is None:
        assert len(read_sweep(path).cells) == 1
        return
    with pytest.raises(SweepError) as caught:
        read_sweep(path)
    why = "of a run that is packed must be a relative path, seen from the current folder"
    assert str(caught.value) == f"{path}, cohen-s1-seed0: {told.format(why)}"


@pytest.mark.parametrize("path", sorted(SWEEPS.glob("*.yaml")), ids=lambda path: path.stem)
def test_every_sweep_that_is_shipped_can_be_read_and_has_figures_for_all_its_cells(path):
    from ars.experiments.sweeps.plan import make_plan

    sweep = shipped(path)
    plan = make_plan(sweep, Path("nowhere"))
    assert plan.left == len(sweep.cells) > 0
    assert plan.seconds is not None
    assert plan.seconds < 3 * 3600


def test_table_1_is_whole():
    """headline, cross, rivals and table1 together are the paper's Table 1, each cell once, but UniCR at beta = 2."""
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


def test_a_pipe_is_no_sweep_file(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(SweepError, match="pipe is no file; save the sweep to one"):
        read_sweep(tmp_path / "pipe")


def test_an_override_may_be_null(written):
    sweep = read_sweep(written(f"{ONE}\noverride: {{cohen: {{beta: }}}}"))
    assert sweep.cells[0].recipe.beta is None


@pytest.mark.parametrize("name", ["s\udce9.yaml", "x$a^_{b$.yaml", "two\nlines.yaml"])
def test_a_sweep_whose_name_could_not_name_figures_is_refused(tmp_path, name):
    (tmp_path / name).touch()
    with pytest.raises(SweepError, match=r"a name of plain text without \$; rename it"):
        read_sweep(tmp_path / name)


def test_a_sweep_may_be_called_by_several_words(written, tmp_path):
    path = written("recipe: base.yaml\ngroups: [{methods: [cohen], k: [64], sigma: [0.5]}]")
    assert read_sweep(path.rename(tmp_path / "two words (1).yaml")).name == "two words (1)"
