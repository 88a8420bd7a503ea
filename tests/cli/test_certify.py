"""ars certify as its users start it: under torchrun, with Ctrl-C, with a model and photos of their own."""

import json
import shlex
import signal
import subprocess
import sys

import numpy as np
import pytest

from ars.cli.main import main
from ars.data.benchmark import part_of
from ars.runs.shards import merge

from ..conftest import contents, records_of
from .conftest import FEW, QUICK, command, fill, interrupt, wait_for

CERTIFY = ["--examples=8", "--shard-size=2", *QUICK]
MODEL = """
import torch
from torch import nn
from ars import cohen

def linear(side, classes):
    torch.manual_seed(0)
    return nn.Sequential(nn.Flatten(), nn.Linear(3 * side**2, classes))

network, eight = linear(24, 10), linear(8, 8)
smoothed = cohen(network, sigma=0.5)
"""


@pytest.fixture
def own(desk):
    """The user's model in the current folder."""
    (desk / "own_model.py").write_text(MODEL)
    return desk


@pytest.mark.slow
def test_ranks_by_their_variables_make_the_records_of_one_process(run, ranks, capsys):
    assert main(["certify", str(run), *CERTIFY, "--name", "one"]) == 0
    capsys.readouterr()
    for rank, told in ((0, "4 of 4 images"), (1, "(rank 1 of 2): 4 of 4 images")):
        ranks(WORLD_SIZE=2, RANK=rank)
        assert main(["certify", str(run), *CERTIFY]) == 0
        output = capsys.readouterr()
        assert output.out == ""
        assert told in output.err
        assert rank or "4 of 8 images" in output.err
    assert records_of(run) == records_of(run, "one")
    ranks(RANK=0)
    assert main(["certify", str(run), *CERTIFY, "--json"]) == 0
    json.loads(capsys.readouterr().out)


@pytest.mark.slow
def test_two_processes_of_torchrun_make_the_records_of_one(run):
    assert main(["certify", str(run), *CERTIFY, "--name", "one"]) == 0
    launcher = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]
    line = [*launcher, "-m", "ars.cli", "certify", str(run), *CERTIFY]
    done = subprocess.run(line, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert records_of(run) == records_of(run, "one")
    assert "(rank 1 of 2): 4 of 4 images" in done.stderr


def test_every_rank_says_what_went_wrong_with_it(run, ranks, sentence):
    ranks(SLURM_ARRAY_TASK_ID=1, SLURM_ARRAY_TASK_COUNT=3)
    assert main(["certify", str(run), *CERTIFY, "--alpha", "2"]) == 2
    assert sentence().startswith("ars (rank 1 of 3): alpha")
    ranks(SLURM_ARRAY_TASK_COUNT="x")
    assert main(["certify", str(run), *CERTIFY]) == 2
    assert sentence().startswith("ars: SLURM_ARRAY_TASK_COUNT")


def test_the_device_that_was_asked_for_is_a_ranks_own_and_rays(run, ranks, monkeypatch, sentence):
    told = []

    def choose(*what):
        told.append(what)
        raise ValueError("none")

    def certify_with_ray(request, *, device_name, **how):
        told.append((request.folder, request.settings.n_estimate, request.name, request.shard_size, device_name))
        raise ValueError("no workers")

    with monkeypatch.context() as patch:
        patch.setattr("ars.workflows.ray.certify_with_ray", certify_with_ray)
        assert main(["certify", str(run), *CERTIFY, "--engine=ray", "--name=far"]) == 2
        assert "no workers" in sentence()
    monkeypatch.setattr("ars.workflows.hardware.choose_device", choose)
    ranks(WORLD_SIZE=4, RANK=3, LOCAL_RANK=1)
    assert main(["certify", str(run), *CERTIFY[:-1], "--device=cuda"]) == 2
    assert told == [(run, 60, "far", 2, "cpu"), ("cuda", 1)]


def test_ctrl_c_keeps_whole_shards_and_names_the_command_to_continue(run):
    process = command("certify", run, *CERTIFY, "--examples=300", "--n-estimate=3000")
    wait_for(process, "certify/test/shard-*", under=run)
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate(timeout=120)
    assert process.returncode == 130
    assert "Ctrl-C again" in errors
    assert f"run the same command again to resume: ars certify {run} " in errors
    assert "Traceback" not in errors
    there = merge(run / "certify" / "test", partial=True)
    assert 0 < len(there.records) < 300
    assert len(there.records) % 2 == 0
    assert not list(run.glob("certify/test/.*"))


def test_something_is_shown_before_the_first_shard_is_done(run, monkeypatch, capsys):
    with monkeypatch.context() as patch:
        patch.setattr("ars.workflows.certify.Job.certify_shard", interrupt)
        assert main(["certify", str(run), *CERTIFY]) == 130
    about, first, *_ = capsys.readouterr().err.splitlines()
    assert about.startswith("digits on photographs: certifying 8 of 300 test images, 5 of 10 classes, at 24x24")
    assert first.startswith(f"{run}: 0 of 8 images")
    assert main(["certify", str(run), *CERTIFY, "--stages=2"]) == 0
    with np.load(run / "certify" / "test" / "stages.npz") as stages:
        assert stages["index"].tolist() == [0, 1]
    output = capsys.readouterr()
    assert "ARS" in output.out
    assert main(["certify", str(run), *CERTIFY]) == 0
    assert capsys.readouterr().err == ""  # nothing was left


def test_a_certification_continues_with_its_own_settings_whatever_its_name(run, sentence):
    assert main(["certify", str(run), *FEW]) == 0
    assert main(["certify", str(run), *FEW, "--alpha=0.01", "--every=2", "--name=strict"]) == 0
    assert main(["certify", str(run), "--device=cpu", "--examples=6", "--name=strict"]) == 0
    records = merge(run / "certify" / "strict").records
    assert [record.certificate.index for record in records] == list(range(0, 12, 2))
    assert {record.certificate.alpha for record in records} == {0.01}
    for option, words in (("--alpha=0.05", "alpha=0.01"), ("--mode=radius", "mode=fixed")):
        assert main(["certify", str(run), "--device=cpu", option, "--name=strict"]) == 2
        assert words in sentence()


def test_a_grid_of_radii_is_decided_from_the_command_line(run, capsys):
    grid = ["--mode", "curve", "--radii", "0", "1/255", "2/255"]
    assert main(["certify", str(run), *FEW, *grid, "--name", "curve", "--json"]) == 0
    [block] = json.loads(capsys.readouterr().out)
    assert [part["radius"] for part in block["rows"][0]["certified_accuracy"]] == pytest.approx([1, 2])
    assert main(["certify", str(run), *FEW, "--mode", "radius", "--tolerance", "0.1", "--name", "planned"]) == 0


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--alpha", "0"], "alpha"),
        (["--n-estimate", "4"], "n_estimate=4"),
        (["--norm", "l2"], "'linf'"),
        (["--examples", "100000"], "--examples"),
        (["--seed", "-1"], "seed"),
        (["--shard-size", "0"], "--shard-size must be at least 1, got 0"),
        (["--stages", "-1"], "--stages must be at least 0, got -1"),
        (["--mode", "curve"], "--radii"),
        (["--radii", "0.1"], "--mode curve"),
        (["--mode", "curve", "--radii", "0.2", "0.1"], "increas"),
    ],
)
def test_bad_settings_get_one_sentence_and_write_no_record(trained, options, words, sentence):
    assert main(["certify", str(trained), *FEW, "--name", "bad", *options]) == 2
    assert words in sentence()
    assert not list((trained / "certify").glob("bad/*"))


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ([], "--model PACKAGE:NAME"),
        (["--data", "digits"], "--data belongs to a model"),
        (["x", "--data.seed=3"], "--data.seed belongs to a model"),
        (["x", "--model", "a:b"], "(x)"),
        (["--model", "a:b", "--out", "x"], "--data KIND[:ROOT] --out RUN"),
        (["--model", "a:b", "--data", "digits"], "--data KIND[:ROOT] --out RUN"),
        (["--model", "ab", "--data", "digits", "--out", "x"], "package.module:attribute"),
        (["--model", "no_such:b", "--data", "digits", "--out", "x"], "no_such"),
        (["--model", "json:magic", "--data", "digits", "--out", "x"], "'magic'"),
        (["--model", "json:__name__", "--data", "digits", "--out", "x"], "got str"),
        (["--model", "json:dumps", "--data", "digits", "--out", "x"], "json:dumps"),
        (["--model", "torch.nn:Identity", "--data", "magic", "--sigma=1", "--out", "x"], "kind"),
        (["--model", "torch.nn:Identity", "--data", "digits", "--sigma=1", "--out", "x"], "logits"),
        (["--model", "torch.nn:Identity", "--classifier", "a:b"], "--classifier"),
        (["--model", "json:dumps", "--data", "digits", "--out", "../notes.txt"], "notes.txt is a file"),
    ],
)
def test_a_request_that_makes_no_sense_gets_one_sentence_and_leaves_nothing(arguments, words, sentence, desk):
    notes = desk.parent / "notes.txt"
    notes.write_text("mine")
    assert main(["certify", *arguments]) == 2
    assert words in sentence()
    assert list(desk.iterdir()) == []
    assert notes.read_text() == "mine"


def test_a_damaged_model_is_refused(run, sentence):
    model = run / "model.safetensors"
    model.write_bytes(model.read_bytes()[:-7])
    assert main(["certify", str(run), *FEW]) == 2
    assert "damaged" in sentence()


def test_the_users_own_model_is_certified_and_other_commands_name_how_to_continue(own, capsys, sentence):
    smoothed = ["--model", "own_model:smoothed", "--data", "digits", "--out", "runs/own"]
    assert main(["certify", *smoothed, *CERTIFY, "--json", "--stages=2"]) == 0
    table = json.loads(capsys.readouterr().out)
    assert table[0]["rows"][0]["method"] == "own_model:smoothed"
    assert table[0]["sigma"] == pytest.approx(0.5)
    plain = ["--model", "own_model:network", "--sigma", "0.5", "--data", "digits", "--out", "my runs"]
    assert main(["certify", *plain, *CERTIFY]) == 0
    assert records_of(own / "my runs") == records_of(own / "runs/own")
    assert main(["certify", *plain[:-1], "seeded", "--data.passes=2", "--data.seed", "3", *CERTIFY]) == 0
    commands = {
        "runs/own": shlex.join(smoothed),
        "my runs": shlex.join(plain),
        "seeded": shlex.join([*plain[:-2], "--data.seed", "3", "--data.passes", "2", "--out", "seeded"]),
    }
    capsys.readouterr()
    for folder, options in commands.items():
        for arguments in (["certify", folder], ["predict", folder, "a.png"], ["vote", folder]):
            assert main(arguments) == 2
            assert f"ars certify {options} " in sentence()
        assert main(["certify", *shlex.split(options), "--device=cpu"]) == 0  # nothing is left
        capsys.readouterr()


def test_of_a_small_folder_all_test_images_are_certified_and_a_line_says_which(own, capsys, sentence):
    fill(own / "photos", names=[f"class{label}" for label in range(8)], images=10, side=8)
    photos = ["--model", "own_model:eight", "--sigma=0.5", "--data.size=8"]
    assert main(["certify", *photos, "--data", "folder:photos", "--out", "runs/some", *QUICK, "--json"]) == 0
    output = capsys.readouterr()
    [images] = json.loads(output.out)[0]["rows"][0]["images"]
    assert output.err.startswith(f"photos: certifying {images} of {images} test images, ")
    assert "at 8x8; the test images are about a tenth of all 80" in output.err
    assert main(["certify", *photos, "--data", "folder:photos", "--out", "runs/some", *QUICK]) == 0
    assert capsys.readouterr().err == ""  # nothing was left
    more = ["--examples", str(images + 1), "--name=more"]
    assert main(["certify", *photos, "--data", "folder:photos", "--out", "runs/some", *QUICK, *more]) == 2
    assert f"photos has {images} test images" in sentence()
    # without images to validate with, only a training is refused
    for path in (own / "photos").rglob("*.png"):
        if part_of(f"{path.parent.name}/{path.name}", validation=0.1, test=0.1) == "validation":
            path.unlink()
    assert main(["certify", *photos, "--data", "folder:photos", "--out", "runs/other", *QUICK]) == 0
    capsys.readouterr()
    folder = ["--data.kind=folder", "--data.root=photos", "--data.size=8", "--train.batch_size=4", "--device=cpu"]
    assert main(["train", *folder, "--out", "runs/trained"]) == 2
    assert "validation" in sentence()
    assert not (own / "runs" / "trained").exists()


@pytest.fixture
def eight(own):
    """A folder of eight classes with ten test images each: the command that certifies a model for them."""
    fill(own / "eight" / "test", names=[f"class{label}" for label in range(8)], images=10, side=8)
    data = ["--data", "folder:eight", "--data.size=8", "--out", "runs/eight"]
    return ["certify", "--model", "own_model:eight", "--sigma=0.5", *data, *QUICK]


def test_the_first_images_of_a_folder_are_of_all_classes_and_more_may_follow(eight, own, capsys):
    records = own / "runs" / "eight" / "certify" / "test"
    assert main([*eight, "--examples=16", "--shard-size=8"]) == 0
    output = capsys.readouterr()
    assert output.err.startswith("eight: certifying 16 of 80 test images, 8 of 8 classes, at 8x8")
    assert "16 of 80 test images, 8 of 8 classes" in " ".join(output.out.split())
    judged = {"images": 16, "of_images": 80, "classes": 8, "of_classes": 8}
    assert json.loads((records / "settings.json").read_text())["judged"] == judged
    assert sorted(record.truth for record in merge(records).records) == sorted([*range(8)] * 2)
    before = {path: (path.read_bytes(), path.stat().st_mtime_ns) for path in records.glob("shard-*")}
    assert main([*eight, "--examples=24"]) == 0  # the same shards, and one more
    assert {path: (path.read_bytes(), path.stat().st_mtime_ns) for path in before} == before
    assert sorted(record.truth for record in merge(records).records) == sorted([*range(8)] * 3)
    assert json.loads((records / "settings.json").read_text())["judged"] == {**judged, "images": 24}
    assert main(["report", "runs/eight", "--out", "report"]) == 0
    for page in ("table.md", "index.html"):
        assert "24 of 80 test images, 8 of 8 classes" in (own / "report" / page).read_text()
    files = json.loads((records / "files.json").read_text())[:24]
    assert {name.rpartition("/")[2] for name in files} - {"0.png", "1.png", "2.png"}  # nor the first of a class by name
    capsys.readouterr()
    assert main([*eight, "--every=8", "--name=every", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)[0]["rows"][0]["judged"][0]["classes"] >= 5


def test_records_of_the_files_of_a_folder_by_name_are_not_continued(eight, own, monkeypatch, capsys, sentence):
    """As an earlier version made them."""
    with monkeypatch.context() as earlier:
        earlier.setattr("ars.data.folder.classes_in_turn", lambda names, labels: list(range(len(names))))
        earlier.setattr("ars.data.folder.IN_TURN", "")
        assert main([*eight, "--examples=16"]) == 0
        assert "certifying 16 of 80 test images, 2 of 8 classes" in capsys.readouterr().err
    records = own / "runs" / "eight" / "certify" / "test"
    manifest = json.loads((records / "settings.json").read_text())
    assert "order" not in manifest
    for kept in ("all", "less"):  # versions before that kept less
        if kept == "less":
            (records / "files.json").unlink()
            (records / "settings.json").write_text(json.dumps({**manifest, "images": [], "files": ""}))
        before = contents(records)
        for examples in ("--examples=16", "--examples=24"):
            assert main([*eight, examples]) == 2
            assert "another order" in sentence()
        assert contents(records) == before
    assert main([*eight, "--examples=16", "--name=anew"]) == 0
