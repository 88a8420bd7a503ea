import gzip
import json
import re

import numpy as np
import pytest
import yaml

from ars.report.paper.cells import load_cells
from ars.report.paper.entries import make_lineups
from ars.report.paper.masks import load_masks
from ars.report.paper.results import write_results
from ars.runs.records import ReportError

from .conftest import build_cell, entries_of


def test_what_a_cell_does_not_have_is_none(tmp_path):
    build_cell(tmp_path / "fast", method="cohen", certified=False, voted=False)
    build_cell(tmp_path / "fast", method="adaptive", masks=2)
    full, empty = load_cells(tmp_path)
    assert (full.method, full.k, full.sigma, full.seed, full.sweep) == ("adaptive", 64, 0.5, 0, "fast")
    assert (len(full.runs["test"].records), full.vote.images, len(load_masks(full).masks)) == (40, 10_000, 2)
    assert (empty.runs, empty.vote, empty.masks) == ({}, None, None)


def test_a_cell_that_has_only_its_recipe_is_not_begun(tmp_path):
    build_cell(tmp_path / "fast")
    (build_cell(tmp_path / "fast", seed=1) / "benchmark.json").unlink()
    assert [cell.seed for cell in load_cells(tmp_path)] == [0]


@pytest.mark.parametrize(
    ("file", "content"),
    [
        ("vote.json", "{}"),
        ("vote.json", "["),
        ("timing.json", '{"train_seconds": "soon"}'),
        ("recipe.yaml", "method: cohen"),
        ("benchmark.json", '{"title": "x", "class_names": [], "shape": []}'),
    ],
)
def test_a_garbled_file_is_named(tmp_path, file, content):
    path = build_cell(tmp_path / "fast")
    (path / file).write_text(content)
    with pytest.raises(ReportError, match=path.name):
        load_cells(tmp_path)


def test_masks_of_another_size_are_refused(tmp_path):
    path = build_cell(tmp_path / "fast", masks=2)
    np.savez(path / "masks.npz", masks=np.zeros((2, 8, 8), np.uint8), indices=np.arange(2), box=np.zeros((2, 4)))
    with pytest.raises(ReportError, match="does not hold masks"):
        load_masks(load_cells(tmp_path)[0])


def test_labels_of_a_sweep_are_recipes_of_their_own(tmp_path):
    for seed in (0, 1):
        path = build_cell(tmp_path / "fast", seed=seed)
        path.rename(path.with_name(f"{path.name}-long"))
        build_cell(tmp_path / "fast", seed=seed)
    entries = entries_of(tmp_path)
    assert [(entry.first.sweep, len(entry.cells)) for entry in entries] == [("fast", 2), ("fast+long", 2)]
    write_results(tmp_path, tmp_path)
    links = re.findall(r'href="(fast[^"]+)"', (tmp_path / "index.html").read_text(encoding="utf-8"))
    assert all((tmp_path / link).exists() for link in links)


def test_other_norms_are_refused(tmp_path):
    path = build_cell(tmp_path / "fast") / "certify/test/records.jsonl.gz"
    text = gzip.decompress(path.read_bytes()).replace(b'"linf"', b'"l2"')
    path.write_bytes(gzip.compress(text))
    with pytest.raises(ReportError, match="certified for l2"):
        load_cells(tmp_path)


def test_recipes_are_never_averaged(results):
    entries = entries_of(results)
    at = [e for e in entries if (e.first.kind, e.first.k, e.first.sigma) == ("cifar_backgrounds", 64, 0.5)]
    assert [(entry.first.sweep, entry.label, len(entry.cells)) for entry in at] == [
        ("fast", "Cohen et al.", 2), ("fast", "static mask", 1), ("fast", "ARS", 2), ("paper", "Cohen et al.", 1),
    ]  # fmt: skip
    assert len(make_lineups(entries)) == 5


def test_backgrounds_are_said_to_be_others(tmp_path):
    build_cell(tmp_path / "fast", k=32)
    build_cell(tmp_path / "fast", k=48)
    assert [cell.inputs for cell in load_cells(tmp_path)] == [
        "CIFAR-10",
        "CIFAR-10 on scene backgrounds, k = 48 (not BG-20k)",
    ]


def test_seeds_that_are_not_certified_yet_are_counted(tmp_path):
    build_cell(tmp_path / "fast")
    build_cell(tmp_path / "fast", seed=1, certified=False)
    [entry] = entries_of(tmp_path)
    assert entry.seeds == "1 of 2"
    assert len(entry.certified("cohen", 0.0).values) == 1
    assert json.loads((entry.cells[1].path / "timing.json").read_text())["train_seconds"] == pytest.approx(
        60 * entry.train_minutes.values[1]
    )


def name_sweep(folder, recipe_name):
    (folder / "sweep.yaml").write_text(f"recipe: ../base.yaml\nrecipe_name: {recipe_name}\n")


def test_what_is_to_be_known_of_a_recipe_stands_below_its_numbers_once(tmp_path):
    note = "Chosen with ARS <here>."
    for sweep, name in (("headline", "fast"), ("seeds", "fast"), ("best", "best")):
        (tmp_path / sweep).mkdir()
        more = f"recipe_note: {note}\n" if name == "fast" else ""
        (tmp_path / sweep / "sweep.yaml").write_text(f"recipe: base.yaml\nrecipe_name: {name}\n{more}")
    build_cell(tmp_path / "headline", seed=0)
    build_cell(tmp_path / "seeds", seed=1)
    build_cell(tmp_path / "best", k=32)
    write_results(tmp_path, tmp_path)
    for name in ("measures", "table-1", "vote-cifar-backgrounds"):
        table = (tmp_path / "tables" / f"{name}.md").read_text(encoding="utf-8")
        assert table.count(f"**Recipe fast.** {note}") == 1, name
    page = (tmp_path / "index.html").read_text(encoding="utf-8")
    assert page.count("Recipe fast. Chosen with ARS &lt;here&gt;.") == 1
    assert "Recipe best." not in page


def test_sweeps_of_one_recipe_stand_together(tmp_path):
    """Seeds of two sweeps are averaged, methods of a third stand beside them, sizes make one trend."""
    for sweep in ("headline", "seeds", "rivals", "cross"):
        (tmp_path / sweep).mkdir()
        name_sweep(tmp_path / sweep, "fast")
    build_cell(tmp_path / "headline", seed=0)
    build_cell(tmp_path / "seeds", seed=1)
    build_cell(tmp_path / "rivals", method="unicr")
    build_cell(tmp_path / "cross", k=32)
    build_cell(tmp_path / "best")
    entries = entries_of(tmp_path)
    found = [(it.first.recipe_name, it.first.k, it.first.method, [cell.seed for cell in it.cells]) for it in entries]
    assert found == [
        ("fast", 32, "adaptive", [0]),
        ("best", 64, "adaptive", [0]),
        ("fast", 64, "unicr", [0]),
        ("fast", 64, "adaptive", [0, 1]),
    ]
    assert len(make_lineups(entries)) == 3
    write_results(tmp_path, tmp_path)
    assert (tmp_path / "figures" / "accuracy-by-k-fast-cifar_backgrounds-s0.5.svg").exists()
    sources = json.loads((tmp_path / "manifest.json").read_text())
    assert "headline/sweep.yaml" in json.dumps(sources)


def test_a_seed_that_is_there_twice_is_named(tmp_path):
    for sweep in ("headline", "seeds"):
        build_cell(tmp_path / sweep)
        name_sweep(tmp_path / sweep, "fast")
    with pytest.raises(ReportError, match=r"headline/.* and seeds/.* the same seed"):
        entries_of(tmp_path)


@pytest.mark.parametrize(
    ("one", "other", "alike"),
    [
        ({"train": {"epochs": 40}}, {"train": {"epochs": 34}}, False),
        ({"start": None}, {"start": {"size": 32}}, False),
        ({"data": {"kind": "digits", "seed": 0}}, {"data": {"kind": "digits", "seed": 1}}, False),  # other test inputs
        ({"train": {"epochs": 40}}, {"train": {"epochs": 40, "later": 1}}, True),
        ({"certify": {"alpha": 0.05}, "classifier": {"sha256": "a"}}, {"classifier": {"sha256": "b"}}, True),
        ({"data": {"kind": "celeba", "workers": 2}}, {"data": {"kind": "celeba", "workers": 16}}, True),
    ],
)
def test_seeds_that_were_trained_differently_are_not_averaged(tmp_path, one, other, alike):
    for sweep, seed, more in (("headline", 0, one), ("seeds", 1, other)):
        path = build_cell(tmp_path / sweep, seed=seed)
        name_sweep(tmp_path / sweep, "fast")
        recipe = yaml.safe_load((path / "recipe.yaml").read_text())
        (path / "recipe.yaml").write_text(yaml.safe_dump({**recipe, **more}))
    if alike:
        assert len(entries_of(tmp_path)) == 1
        return
    with pytest.raises(ReportError, match="trained differently"):
        entries_of(tmp_path)


def test_all_seeds_are_compared_and_not_only_neighbours(tmp_path):
    """The one in the middle is of a version that did not have the key yet."""
    for seed, more in enumerate(({"train": {"epochs": 40}}, {}, {"train": {"epochs": 34}})):
        path = build_cell(tmp_path / "fast", seed=seed)
        recipe = yaml.safe_load((path / "recipe.yaml").read_text())
        (path / "recipe.yaml").write_text(yaml.safe_dump({**recipe, **more}))
    with pytest.raises(ReportError, match=r"seed0 and .*seed2 .* trained differently"):
        entries_of(tmp_path)


def edit_vote(path, **changes):
    vote = json.loads((path / "vote.json").read_text())
    (path / "vote.json").write_text(json.dumps(vote | changes))


def test_a_vote_of_other_weights_is_refused(tmp_path):
    edit_vote(build_cell(tmp_path / "fast"), model="1" * 16)
    with pytest.raises(ReportError, match="vote of other weights"):
        load_cells(tmp_path)


@pytest.mark.parametrize(
    ("one", "other", "counts"),
    [
        ({"images": 5}, {"images": 60}, "5 and 60"),  # as where one seed was certified on more images later
        ({"seen": (10_000, 0.5, 0.25)}, {"seen": (10_000, 0.5, 0.75)}, "40 and 40"),
    ],
)
def test_seeds_with_other_images_are_not_averaged(tmp_path, one, other, counts):
    build_cell(tmp_path / "fast", **one)
    build_cell(tmp_path / "fast", seed=1, **other)
    with pytest.raises(ReportError, match=f"seed0 and .*seed1 .* different test images, {counts}"):
        entries_of(tmp_path)


def test_votes_on_other_numbers_of_images_are_not_averaged(tmp_path):
    build_cell(tmp_path / "fast", certified=False)
    edit_vote(build_cell(tmp_path / "fast", seed=1, certified=False), images=9_000)
    with pytest.raises(ReportError, match="voted on 10000 and 9000"):
        entries_of(tmp_path)
