"""The one reader of a run folder: which runs belong together, and what no honest report can be made of."""

import gzip
import json

import pytest

from ars.certification.settings import Schedule
from ars.runs.records import ReportError
from ars.runs.run import Inputs, load_runs, train_seconds, write_train_seconds
from ars.runs.shards import Layout, Manifest

from .conftest import DRAWS

SEEN = (300, 0.5, 0.25)


MANIFEST = Manifest(Layout(4), {}, "model").to_json()


def load(*paths, **options):
    return load_runs(paths, **options)


def test_shards_are_merged_in_the_order_of_index(make_run, make_record):
    shards = [[make_record(1, 0, 0, 0.1), make_record(0, 0, 0, 0.1)], [make_record(2, 0, 0, 0.1)]]
    (run,) = load(make_run("a", shards=shards))
    assert [record.certificate.index for record in run.records] == [0, 1, 2]
    assert (run.settings.schedule.n_max, run.settings.alpha, run.settings.sigmas) == (DRAWS, 0.05, (0.5,))
    assert run.bounds == ("cohen", "classes")


def test_an_incomplete_certification_is_refused_unless_it_is_asked_for(make_run):
    path = make_run("a", examples=7)
    with pytest.raises(ReportError, match=r"4 of 7 images, .*4 to 6; .* --partial"):
        load(path)
    (run,) = load(path, partial=True)
    assert (len(run.records), run.missing) == (4, 3)


def test_a_record_that_was_cut_off_at_the_end_is_missing_and_in_the_middle_refused(make_run, make_record):
    cut, path = make_record(9, 0, 0, 0.1).to_json()[:50], make_run("a", examples=5)
    shard = path / "certify/test/shard-00000.jsonl"
    shard.write_text(shard.read_text() + cut)
    with pytest.raises(ReportError, match="4 of 5 images"):
        load(path)
    shard.write_text(shard.read_text() + "\n")
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
        ("schedule", Schedule("radius", DRAWS, tolerance=0.05)),
        ("dim", 12),
        ("select_counts", (980, 10, 10)),
    ],
)
def test_records_that_were_made_differently_are_not_mixed(make_run, make_record, name, value):
    shards = [[make_record(0, 0, 0, 0.1)], [make_record(1, 0, 0, 0.1, **{name: value})]]
    with pytest.raises(ReportError, match={"select_counts": "n_select"}.get(name, name)):
        load(make_run("a", shards=shards))


@pytest.mark.parametrize(
    ("name", "value"),
    [("norm", "l2"), ("alpha", 0.001), ("seed", 0), ("n_estimate", 1000), ("n_select", 7), ("precision", "bfloat16")],
)
def test_records_that_were_made_otherwise_than_the_settings_say_are_refused(make_run, name, value):
    run = make_run("copied")
    path = run / "certify" / "test" / "settings.json"
    manifest = json.loads(path.read_text())
    path.write_text(json.dumps({**manifest, "settings": {name: value}}))
    with pytest.raises(ReportError, match=f"{name}=.*{value}"):
        load(run)


def test_records_of_other_noise_than_the_recipe_says_are_refused(make_run, make_record):
    half = make_record(0, 0, 0, 0.01, sigmas=(0.5**0.5, 0.5**0.5))
    assert load(make_run("same", method="adaptive", shards=[[half]]))
    with pytest.raises(ReportError, match=r"noise 0\.5, .*0\.25"):
        load(make_run("other", method="adaptive", sigma=0.25, shards=[[half]]))
    with pytest.raises(ReportError, match="2 noisy looks"):
        load(make_run("rival", shards=[[half]]))
    assert load(make_run("unknown", method="a_new_one", shards=[[half]]))
    own = make_run(
        "own",
        method="sukenik",
        sigma=0.25,
        shards=[[make_record(0, 0, 0, 0.01, classes_radius=0.0099, sigmas=(0.26,))]],
    )
    assert load(own)[0].settings.sigmas == ()  # each image has its own


@pytest.mark.parametrize(
    ("truth", "changes", "words"),
    [
        (0, {"dim": 192}, "192 numbers"),
        (0, {"radius": 0.2}, "under its bound"),
        (
            0,
            {"counts": (98, 2), "select_counts": (98, 2), "schedule": Schedule("fixed", 100), "planned": 100},
            "2 counts",
        ),
        (3, {}, "true class 3"),
        (-1, {}, "true class -1"),
    ],
)
def test_records_that_do_not_fit_the_benchmark_or_their_own_bound_are_refused(
    make_run, make_record, truth, changes, words
):
    with pytest.raises(ReportError, match=words):
        load(make_run("a", shards=[[make_record(0, truth, 0, 0.1, **changes)]]))


def test_a_run_that_was_stopped_by_its_votes_has_its_own_bound_only(make_run, make_decided):
    (run,) = load(make_run("a", shards=[[make_decided(0, 0, 0, 2)]]))
    assert run.bounds == ("cohen",)


def test_what_is_not_there_is_named_with_the_command_that_makes_it(make_run, tmp_path):
    for name, shards in (("none", []), ("empty", [[]])):
        with pytest.raises(ReportError, match=rf"`ars certify .*/{name}`"):
            load(make_run(name, shards=shards))
    path = make_run("a", name="quick")
    assert load(path, name="quick")[0].records
    with pytest.raises(ReportError, match=r"`ars certify .*/a --name other`"):
        load(path, name="other")
    with pytest.raises(ReportError, match="missing is not a run folder"):
        load(tmp_path / "missing")
    with pytest.raises(ReportError, match=r"recipe\.yaml"):
        load(tmp_path)


@pytest.mark.parametrize(
    ("name", "content", "words"),
    [
        ("recipe.yaml", "method: [", "recipe.yaml"),
        ("recipe.yaml", "- a", "recipe.yaml"),
        ("recipe.yaml", "method: cohen", "recipe.yaml .*'sigma'"),
        ("benchmark.json", '{"title": "x", "shape": [3, 6, 6]}', "benchmark.json .*'class_names'"),
        ("benchmark.json", '{"title": "x", "class_names": [], "shape": 3}', "benchmark.json"),
        ("benchmark.json", '{"title": "x", "class_names": ["only"], "shape": [3, 6, 6]}', "1 classes"),
        ("benchmark.json", "{", "benchmark.json"),
        ("benchmark.json", '{"title": "x", "class_names": [], "shape": [Infinity, 6, 6]}', "benchmark.json"),
        ("certify/test/settings.json", MANIFEST.replace('"images": []', '"images": [Infinity]'), "settings.json"),
        ("recipe.yaml", "{method: cohen, sigma: 1.0, seed: .inf, data: {kind: digits}}", "recipe.yaml"),
    ],
)
def test_a_damaged_file_is_named(make_run, name, content, words):
    path = make_run("a", environment=["of a damaged file"])
    assert load(path)[0].environment == {}  # which no number rests on
    (path / name).write_text(content)
    with pytest.raises(ReportError, match=words):
        load(path)


def test_run_names_grow_until_they_differ_and_no_run_is_given_twice(make_run):
    path = make_run("ars/0")
    assert [run.name for run in load(path, make_run("cohen/0"))] == ["ars-0", "cohen-0"]
    with pytest.raises(ReportError, match="more than once"):
        load(path, path / ".." / "0")


@pytest.fixture
def pack(make_run):
    """A run whose records are packed, with other text than the shard's if that is given."""

    def make(name="packed", text=None, examples=None):
        path = make_run(name, examples=examples)
        shard = path / "certify/test/shard-00000.jsonl"
        content = shard.read_text() if text is None else text
        shard.unlink()
        (path / "certify/test/records.jsonl.gz").write_bytes(gzip.compress(content.encode()))
        return path

    return make


def test_packed_records_are_those_of_the_shards(make_run, pack):
    assert load(pack())[0].records == load(make_run("shards"))[0].records
    path = pack("incomplete", examples=6)
    assert load(path, partial=True)[0].missing == 2
    with pytest.raises(ReportError, match=r"4 of 6 images"):
        load(path)


def test_packed_records_that_are_damaged_repeated_or_missing_are_refused(pack, make_record):
    line = make_record(0, 0, 0, 0.1).to_json() + "\n"
    for name, text, words in (("twice", 2 * line, "once"), ("none", "", "no records")):
        with pytest.raises(ReportError, match=words):
            load(pack(name, text, examples=2), partial=True)
    path = pack()
    file = path / "certify/test/records.jsonl.gz"
    for content in (b"no gzip", file.read_bytes()[:-9], gzip.compress(b"{}\n")):
        file.write_bytes(content)
        with pytest.raises(ReportError, match=r"records\.jsonl\.gz"):
            load(path)
    (path / "certify/test/settings.json").unlink()
    with pytest.raises(ReportError, match=r"settings\.json"):
        load(path)


@pytest.mark.parametrize("content", ["", "[]", "{}", '{"train_seconds": "long"}'])
def test_the_seconds_of_a_training_are_kept_and_damage_is_named(tmp_path, content):
    assert train_seconds(tmp_path) is None
    write_train_seconds(tmp_path, 12.34)
    assert train_seconds(tmp_path) == 12.3
    (tmp_path / "timing.json").write_text(content)
    with pytest.raises(ValueError, match=r"timing\.json"):
        train_seconds(tmp_path)


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        (Inputs({"kind": "digits", "seed": 0}), Inputs({"kind": "digits", "seed": 0}), True),
        (Inputs({"kind": "digits", "seed": 0}), Inputs({"kind": "digits", "seed": 1}), False),
        (Inputs({"kind": "digits"}), Inputs({"kind": "digits", "seed": 1}), False),  # the default is 0
        (Inputs({"seed": 0}, SEEN), Inputs({"seed": 1}, SEEN), False),
        (Inputs({"attribute": "Smiling"}), Inputs({"attribute": "Young"}), False),
        (Inputs({"passes": 8, "padding": 4, "workers": 2}), Inputs({"passes": 1, "padding": 0, "workers": 9}), True),
        (Inputs({"size": 64}), Inputs({"size": 64, "later": 1}), True),
        (Inputs({"root": "a"}), Inputs({"root": "b"}), False),
        (Inputs({"root": "a"}, SEEN), Inputs({"root": "b"}), False),
        (Inputs({"root": "a"}, SEEN), Inputs({"root": "b"}, SEEN), True),  # the same images in another place
        (Inputs({}, SEEN), Inputs({}, (300, 0.5, 0.252)), True),  # another decoder
        (Inputs({}, SEEN), Inputs({}, (300, 0.5, 0.26)), False),
        (Inputs({}, SEEN), Inputs({}, (301, 0.5, 0.25)), False),
        (Inputs({}, SEEN), Inputs({}), True),  # an earlier version did not look at the images
        (Inputs({}, SEEN, "classes in turn"), Inputs({}, SEEN, "classes in turn"), True),
        (Inputs({}, SEEN, "classes in turn"), Inputs({}, SEEN), False),  # by name
    ],
)
def test_inputs_are_the_same_unless_something_tells_them_apart(one, other, same):
    assert one.same(other) == other.same(one) == same


@pytest.mark.parametrize(
    ("other", "same"),
    [
        ({}, True),
        ({"data": {"seed": 1}}, False),
        ({"seen": (300, 0.1)}, False),
        ({"truth": 2}, False),
        ({"subset": "test[::2]"}, False),
    ],
)
def test_images_are_the_same_by_class_subset_and_inputs(make_run, make_record, other, same):
    records = [make_record(0, other.pop("truth", 0), 0, 0.1, subset=other.pop("subset", "test"))]
    paths = [make_run("a", shards=[[make_record(0, 0, 0, 0.1)]], seen=(300, 0.5))]
    one, two = load_runs([*paths, make_run("b", shards=[records], **{"seen": (300, 0.5), **other})])
    assert one.same_images(two) == same
