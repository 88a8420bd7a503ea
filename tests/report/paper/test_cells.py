import gzip
import json
import math

import pytest
import yaml

from ars.report.paper.cells import load_cells
from ars.report.paper.entries import make_lineups
from ars.report.paper.masks import load_masks
from ars.report.paper.results import draw_all, write_results
from ars.runs.records import ReportError

from .conftest import build_cell, entries_of, lines_of


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


def test_labels_of_a_sweep_are_recipes_of_their_own(tmp_path):
    for seed in (0, 1):
        path = build_cell(tmp_path / "fast", seed=seed)
        path.rename(path.with_name(f"{path.name}-long"))
        build_cell(tmp_path / "fast", seed=seed)
    entries = entries_of(tmp_path)
    assert [(entry.first.sweep, len(entry.cells)) for entry in entries] == [("fast", 2), ("fast+long", 2)]


def test_other_norms_are_refused(tmp_path):
    cell = build_cell(tmp_path / "fast", method="cohen")
    records = lines_of(cell)
    for record in records:
        radii = {bound: radius * math.sqrt(record["dim"]) for bound, radius in record["radii"].items()}
        record |= {"norm": "l2", "radii": radii, "radius": radii["cohen"]}
    text = "".join(json.dumps(record) + "\n" for record in records)
    (cell / "certify/test/records.jsonl.gz").write_bytes(gzip.compress(text.encode()))
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
    lineups = make_lineups(entries)
    assert len(lineups) == 3
    assert "accuracy-by-k-fast-cifar_backgrounds-s0.5.svg" in [drawn.name for drawn in draw_all(lineups)]
    assert tmp_path / "headline/sweep.yaml" in entries[0].sources + entries[3].sources


def edit(path, name, **changes):
    """Change some keys of a JSON or YAML file of a cell."""
    content = yaml.safe_load((path / name).read_text()) | changes
    (path / name).write_text(json.dumps(content))


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
        edit(build_cell(tmp_path / sweep, seed=seed), "recipe.yaml", **more)
        name_sweep(tmp_path / sweep, "fast")
    if alike:
        assert len(entries_of(tmp_path)) == 1
        return
    with pytest.raises(ReportError, match="trained differently"):
        entries_of(tmp_path)


def test_all_seeds_are_compared_and_not_only_neighbours(tmp_path):
    """The one in the middle is of a version that did not have the key yet."""
    for seed, more in enumerate(({"train": {"epochs": 40}}, {}, {"train": {"epochs": 34}})):
        edit(build_cell(tmp_path / "fast", seed=seed), "recipe.yaml", **more)
    with pytest.raises(ReportError, match=r"seed0 and .*seed2 .* trained differently"):
        entries_of(tmp_path)


@pytest.mark.parametrize(
    ("one", "other", "vote", "words"),
    [
        ({}, {"seed": 0}, {}, r"headline/.* and seeds/.* the same seed"),
        ({}, {}, {"model": "1" * 16}, "vote of other weights"),
        # as where one seed was certified on more images later
        ({"images": 5}, {"images": 60}, {}, "seed0 and .*seed1 .* different test images, 5 and 60"),
        ({"seen": (10_000, 0.5, 0.25)}, {"seen": (10_000, 0.5, 0.75)}, {}, "different test images, 40 and 40"),
        ({"certified": False}, {"certified": False}, {"images": 9_000}, "voted on 10000 and 9000"),
    ],
)
def test_cells_that_cannot_be_averaged_are_named(tmp_path, one, other, vote, words):
    build_cell(tmp_path / "headline", **one)
    edit(build_cell(tmp_path / "seeds", **{"seed": 1, **other}), "vote.json", **vote)
    for sweep in ("headline", "seeds"):
        name_sweep(tmp_path / sweep, "fast")
    with pytest.raises(ReportError, match=words):
        entries_of(tmp_path)
