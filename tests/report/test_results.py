import json

import pytest

from ars.certification.schedule import Schedule
from ars.report.errors import ReportError
from ars.report.groups import make_sections
from ars.report.rendering import to_json, to_markdown
from ars.report.results import load_runs
from ars.report.table import make_table


def load(*paths, **options):
    return load_runs(paths, **options)


def test_shards_are_merged_in_the_order_of_index(make_run, make_record):
    shards = [[make_record(1, 0, 0, 0.1), make_record(0, 0, 0, 0.1)], [make_record(2, 0, 0, 0.1)]]
    (run,) = load(make_run("a", shards=shards))
    assert [record.certificate.index for record in run.records] == [0, 1, 2]
    assert (run.settings.schedule.n_max, run.settings.alpha, run.settings.sigmas) == (100, 0.05, (0.5,))
    assert run.bounds == ("cohen", "classes")


def test_an_incomplete_certification_is_refused_unless_asked_for(make_run):
    path = make_run("a", examples=7)
    sentence = r"has 4 of 7 images, missing are 4 to 6; run the same `ars certify` again to go on, or .* --partial"
    with pytest.raises(ReportError, match=sentence):
        load(path)
    (run,) = load(path, partial=True)
    assert (len(run.records), run.missing) == (4, 3)
    table = make_table(make_sections([run]))
    assert "| 4* |" in to_markdown(table)
    assert "still to be certified" in to_markdown(table)
    assert json.loads(to_json(table))[0]["rows"][0]["missing"] == [3]


def test_a_complete_certification_has_no_mark(make_run):
    markdown = to_markdown(make_table(make_sections(load(make_run("a"), partial=True))))
    assert "*" not in markdown


def test_a_record_that_was_cut_off_is_missing(make_run, make_record):
    path = make_run("a", examples=5)
    with (path / "certify/test/shard-00000.jsonl").open("a") as file:
        file.write(make_record(9, 0, 0, 0.1).to_json()[:50])
    with pytest.raises(ReportError, match="missing are 4;"):
        load(path)


def test_a_cut_line_in_the_middle_is_refused(make_run, make_record):
    path = make_run("a")
    with (path / "certify/test/shard-00000.jsonl").open("a") as file:
        file.write(make_record(9, 0, 0, 0.1).to_json()[:50] + "\n")
    with pytest.raises(ReportError, match="line 5"):
        load(path)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("alpha", 0.001),
        ("norm", "l2"),
        ("sigmas", (0.7, 0.7)),
        ("seed", 8),
        ("bound", "classes"),
        ("precision", "bfloat16"),
        ("subset", "validation"),
        ("schedule", Schedule("radius", 100, tolerance=0.05)),
        ("dim", 12),
    ],
)
def test_records_that_disagree_are_refused(make_run, make_record, name, value):
    shards = [[make_record(0, 0, 0, 0.1)], [make_record(1, 0, 0, 0.1, **{name: value})]]
    with pytest.raises(ReportError, match=name):
        load(make_run("a", shards=shards))


def test_a_run_that_was_stopped_by_its_votes_has_its_own_bound_only(make_run, make_decided):
    (run,) = load(make_run("a", shards=[[make_decided(0, 0, 0, 2)]]))
    assert run.bounds == ("cohen",)


def test_an_image_in_two_shards_is_refused(make_run, make_record):
    shards = [[make_record(0, 0, 0, 0.1)], [make_record(0, 0, 0, 0.1)]]
    with pytest.raises(ReportError, match=r"holds images \[0\], expected each of \[1\] once"):
        load(make_run("a", shards=shards))


@pytest.mark.parametrize("shards", [[], [[]]])
def test_no_records_say_what_to_do(make_run, shards):
    with pytest.raises(ReportError, match=r"run `ars certify .*a` first"):
        load(make_run("a", shards=shards))


def test_another_certification_can_be_reported(make_run):
    path = make_run("a", name="quick")
    assert load(path, name="quick")[0].records
    with pytest.raises(ReportError, match="first"):
        load(path)


def test_a_folder_that_is_no_run_is_refused(tmp_path):
    with pytest.raises(ReportError, match="not a run folder"):
        load(tmp_path / "missing")
    with pytest.raises(ReportError, match=r"recipe\.yaml"):
        load(tmp_path)
    with pytest.raises(ReportError, match="at least one run"):
        load()


@pytest.mark.parametrize("content", ["method: [", "- a", "method: cohen"])
def test_a_garbled_recipe_is_refused(make_run, content):
    path = make_run("a")
    (path / "recipe.yaml").write_text(content)
    with pytest.raises(ReportError, match="recipe"):
        load(path)


@pytest.mark.parametrize(
    ("name", "content", "words"),
    [
        ("benchmark.json", '{"title": "x", "shape": [3, 6, 6]}', "benchmark.json lacks 'class_names'; put a copy"),
        ("benchmark.json", '{"title": "x", "class_names": [], "shape": 3}', r"benchmark.json garbles .*; put a copy"),
        ("benchmark.json", "{", r"benchmark.json cannot be parsed: .*; put a copy"),
        ("recipe.yaml", "method: cohen", "recipe.yaml lacks 'sigma'; put a copy"),
    ],
)
def test_a_file_that_is_wrong_is_named_with_advice(make_run, name, content, words):
    path = make_run("a")
    (path / name).write_text(content)
    with pytest.raises(ReportError, match=words):
        load(path)


@pytest.mark.parametrize("content", ["", "{", "[]"])
def test_an_unreadable_environment_is_as_good_as_none(make_run, content):
    path = make_run("a")
    (path / "environment.json").write_text(content)
    assert load(path)[0].environment == {}


def test_classes_that_the_benchmark_does_not_name_are_refused(make_run):
    path = make_run("a")
    (path / "benchmark.json").write_text(json.dumps({"title": "x", "class_names": ["only"], "shape": [3, 6, 6]}))
    with pytest.raises(ReportError, match="names 1 classes"):
        load(path)


@pytest.mark.parametrize("truth", [3, -1])
def test_a_true_class_that_the_benchmark_does_not_name_is_refused(make_run, make_record, truth):
    with pytest.raises(ReportError, match=f"names 3 classes, but image 0 has 3 counts and true class {truth}"):
        load_runs([make_run("a", shards=[[make_record(0, truth, 0, 0.1)]])])


def test_a_radius_that_its_bound_does_not_give_is_refused(make_run, make_record):
    with pytest.raises(ReportError, match="under its bound"):
        load(make_run("a", shards=[[make_record(0, 0, 0, 0.1, radius=0.2)]]))


def test_run_names_grow_until_they_differ(make_run):
    runs = load(make_run("ars/0"), make_run("cohen/0"))
    assert [run.name for run in runs] == ["ars-0", "cohen-0"]


def test_a_run_given_twice_is_refused(make_run):
    path = make_run("a")
    with pytest.raises(ReportError, match="more than once"):
        load(path, path / ".." / "a")


def test_seeds_form_groups_and_methods_sections(make_run):
    runs = load(
        make_run("a1", method="adaptive", seed=1),
        make_run("a0", method="adaptive", seed=0),
        make_run("c0", method="cohen"),
        make_run("x0", method="mine"),
        make_run("low", method="cohen", sigma=0.25),
    )
    low, high = make_sections(runs)
    assert [group.label for group in low.groups] == ["Cohen et al."]
    assert [[run.name for run in group.runs] for group in high.groups] == [["c0"], ["a0", "a1"], ["x0"]]
    assert high.heading == "digits on photographs, 6×6, σ = 0.5, ℓ∞"


def test_trainings_of_one_method_that_differ_stand_side_by_side(make_run):
    """Never averaged: another learning rate is no seed."""
    runs = load(
        make_run("usual", method="adaptive", train={"epochs": 7, "lr": 0.1}),
        make_run("longer", method="adaptive", train={"epochs": 9, "lr": 0.1}),
        make_run("again", method="adaptive", seed=1, train={"epochs": 7, "lr": 0.1}),
        make_run("plain"),
    )
    [section] = make_sections(runs)
    found = [(group.label, [run.name for run in group.runs]) for group in section.groups]
    assert found == [("Cohen et al.", ["plain"]), ("ARS (usual)", ["usual", "again"]), ("ARS (longer)", ["longer"])]


def test_the_command_that_is_named_makes_the_records_that_are_missing(make_run):
    path = make_run("a", name="more")
    with pytest.raises(ReportError, match=r"holds no records; run `ars certify .*/a` first"):
        load_runs([path])
    with pytest.raises(ReportError, match=r"run `ars certify .*/a --name other` first"):
        load_runs([path], name="other")
    with pytest.raises(ReportError, match="--name must be a plain folder name, got 'a/b'"):
        load_runs([path], name="a/b")


def test_one_seed_twice_is_refused(make_run):
    with pytest.raises(ReportError, match="both seed 0"):
        make_sections(load(make_run("a"), make_run("b")))


def test_seeds_certified_differently_are_not_averaged(make_run, make_record):
    other = [[make_record(0, 0, 0, 0.1, alpha=0.001)]]
    with pytest.raises(ReportError, match=r"differ in alpha \(0\.05 and 0\.001\)"):
        make_sections(load(make_run("a"), make_run("b", seed=1, shards=other)))


def test_seeds_may_be_certified_with_their_own_draws(make_run, make_record):
    other = [[make_record(0, 0, 0, 0.1, seed=8)]]
    (section,) = make_sections(load(make_run("a"), make_run("b", seed=1, shards=other)))
    assert not section.same_images


@pytest.mark.parametrize(
    ("name", "value"),
    [("norm", "l2"), ("alpha", 0.001), ("seed", 0), ("n_estimate", 1000), ("n_select", 7), ("precision", "bfloat16")],
)
def test_records_that_were_made_otherwise_than_the_settings_say_are_refused(make_run, name, value):
    run = make_run("copied")
    path = run / "certify" / "test" / "settings.json"
    manifest = json.loads(path.read_text())
    path.write_text(json.dumps({**manifest, "settings": {name: value}}))
    with pytest.raises(ReportError, match=f"records with {name}=.*, where its settings.json says {value}; they belong"):
        load_runs([run])


def test_records_of_other_noise_than_the_recipe_says_are_refused(make_run, make_record):
    half = make_record(0, 0, 0, 0.01, sigmas=(0.5**0.5, 0.5**0.5))
    assert load_runs([make_run("same", method="adaptive", shards=[[half]])])
    with pytest.raises(
        ReportError, match=r"records of noise 0\.5, where its recipe says 0\.25; they belong to another"
    ):
        load_runs([make_run("other", method="adaptive", sigma=0.25, shards=[[half]])])
    with pytest.raises(
        ReportError, match=r"records of 2 noisy looks at an image, where cohen of its recipe has 1; they"
    ):
        load_runs([make_run("rival", shards=[[half]])])
    assert load_runs([make_run("unknown", method="a_new_one", shards=[[half]])])
    own = make_run("own", method="sukenik", sigma=0.25, shards=[[make_record(0, 0, 0, 0.01, sigmas=(0.26,))]])
    assert load_runs([own])


def test_records_of_images_of_another_size_are_refused(make_run, make_record):
    shards = [[make_record(0, 0, 0, 0.01, dim=192)]]
    with pytest.raises(
        ReportError, match=r"images with 192 numbers, where its benchmark.json says 3x6x6; they belong to"
    ):
        load_runs([make_run("larger", shards=shards)])


def test_records_with_another_number_of_selection_draws_are_not_mixed(make_run, make_record):
    shards = [[make_record(0, 0, 0, 0.01)], [make_record(1, 0, 0, 0.01, select_counts=(980, 10, 10))]]
    with pytest.raises(ReportError, match=r"differ in n_select \(100 and 1000\); certify again under another name"):
        load_runs([make_run("mixed", shards=shards)])
