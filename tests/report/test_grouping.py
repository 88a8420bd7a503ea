import json

import pytest

from ars.methods.registry import methods
from ars.report.grouping import make_sections
from ars.report.measures import method_name, method_rank
from ars.report.rendering import to_json
from ars.report.table import comparable_pairs
from ars.runs.records import ReportError
from ars.runs.run import load_runs

from .conftest import table_of


def test_methods_are_called_and_ordered_as_the_registry_says_and_others_come_last():
    assert [method_name(method) for method in methods()] == [method.title for method in methods().values()]
    assert sorted(["mine:b", *reversed(methods()), "mine:a"], key=method_rank) == [*methods(), "mine:a", "mine:b"]
    assert method_name("mine:a") == "mine:a"


def test_noise_that_differs_in_the_last_digits_is_the_same_noise(make_run):
    own = make_run("own", method="own_model:masked", sigma=0.5000000000000009)
    table = table_of(own, make_run("plain", method="own_model:plain"))
    assert len(table.blocks[0].rows) == 2
    assert {block["sigma"] for block in json.loads(to_json(table))} == {0.5}


def test_norms_noise_levels_bounds_and_grids_are_not_compared(make_run, make_record, make_decided):
    paths = [
        make_run("a"),
        make_run("b", shards=[[make_record(0, 0, 0, 0.6, norm="l2")]]),
        make_run("c", method="unicr", sigma=0.25),
        make_run("d", method="static_mask", shards=[[make_record(0, 0, 0, 0.1, bound="classes")]]),
        make_run("e", shards=[[make_decided(0, 1, 1, 1)]]),
        make_run("f", method="adaptive", shards=[[make_decided(0, 1, 1, 1, grid=(1 / 255,))]]),
    ]
    assert [len(section.groups) for section in make_sections(load_runs(paths))] == [1] * 6


def test_two_checkpoints_of_a_model_of_ones_own_stand_side_by_side(make_run):
    runs = [make_run("before", method="mine:net", given="0" * 16), make_run("after", method="mine:net", given="1" * 16)]
    [section] = make_sections(load_runs(runs))
    assert [group.label for group in section.groups] == ["mine:net (before)", "mine:net (after)"]
    with pytest.raises(ReportError, match="are both seed 0 of mine:net"):
        make_sections(load_runs([runs[0], make_run("again", method="mine:net", given="0" * 16)]))


def test_seeds_form_groups_and_methods_sections(make_run):
    runs = load_runs([
        make_run("a1", method="adaptive", seed=1),
        make_run("a0", method="adaptive", seed=0),
        make_run("c0", method="cohen"),
        make_run("x0", method="mine:plain"),
        make_run("w0", method="mine:masked"),
        make_run("low", method="cohen", sigma=0.25),
    ])  # fmt: skip
    low, high = make_sections(runs)
    assert [group.label for group in low.groups] == ["Cohen et al."]
    assert [[run.name for run in group.runs] for group in high.groups] == [["c0"], ["a0", "a1"], ["x0"], ["w0"]]
    assert high.heading == "digits on photographs, 6×6, σ = 0.5, ℓ∞"


def test_different_trainings_of_one_method_stand_side_by_side(make_run):
    """They are never averaged: another learning rate is not another seed."""
    runs = load_runs([
        make_run("usual", method="adaptive", train={"epochs": 7, "lr": 0.1}),
        make_run("longer", method="adaptive", train={"epochs": 9, "lr": 0.1}),
        make_run("again", method="adaptive", seed=1, train={"epochs": 7, "lr": 0.1}),
        make_run("plain"),
    ])  # fmt: skip
    [section] = make_sections(runs)
    found = [(group.label, [run.name for run in group.runs]) for group in section.groups]
    assert found == [("Cohen et al.", ["plain"]), ("ARS (usual)", ["usual", "again"]), ("ARS (longer)", ["longer"])]


def test_seeds_are_averaged_only_if_they_were_certified_alike_and_once_each(make_run, make_record):
    with pytest.raises(ReportError, match="both seed 0"):
        make_sections(load_runs([make_run("a"), make_run("b")]))
    other = [[make_record(0, 0, 0, 0.1, alpha=0.001)]]
    with pytest.raises(ReportError, match=r"alpha \(0\.05 and 0\.001\)"):
        make_sections(load_runs([make_run("c"), make_run("d", seed=1, shards=other)]))
    draws = [[make_record(0, 0, 0, 0.1, seed=8)]]
    (section,) = make_sections(load_runs([make_run("e"), make_run("f", seed=1, shards=draws)]))
    assert not section.same_images


def test_seeds_that_learned_splits_of_their_own_are_averaged(make_run, make_record):
    halves, other = (0.5 * 2**0.5,) * 2, (0.5 * 5**0.5, 0.5 * 1.25**0.5)  # both are sigma = .5 together
    shards = [[[make_record(0, 0, 0, 0.1, sigmas=sigmas)]] for sigmas in (halves, other)]
    runs = [make_run(str(seed), method="adaptive", seed=seed, shards=shards[seed]) for seed in (0, 1)]
    with pytest.raises(ReportError, match="sigmas"):
        make_sections(load_runs(runs))
    for run in runs:
        (run / "recipe.yaml").write_text((run / "recipe.yaml").read_text() + "share: learned\n")
    [section] = make_sections(load_runs(runs))
    assert len(section.groups[0].runs) == 2


def test_exact_and_default_mode_stand_side_by_side_and_are_not_compared(make_run, make_record):
    exact = make_run("exact", method="adaptive", shards=[[make_record(0, 0, 0, 0.1, exact=True)]])
    path = exact / "certify" / "test" / "settings.json"
    content = json.loads(path.read_text())
    with pytest.raises(ReportError, match="exact=True"):
        load_runs([exact])
    path.write_text(json.dumps({**content, "settings": {**content["settings"], "exact": True}}))
    [block, *_] = table_of(exact, make_run("default", shards=[[make_record(0, 0, 0, 0.1)]])).blocks
    assert "exact and default mode" in block.caption
    assert comparable_pairs(block) == []
    [alone, *_] = table_of(exact).blocks
    assert alone.caption.endswith("exact mode")


def test_no_run_folder_is_no_report():
    with pytest.raises(ReportError, match="at least one run folder"):
        load_runs([])
