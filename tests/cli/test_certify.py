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
from .conftest import FEW, FOLDER, QUICK, command, fill, interrupt, wait_for

CERTIFY = ["--examples=8", "--shard-size=2", *QUICK]


@pytest.mark.slow
def test_ranks_by_their_variables_make_the_records_of_one_process(run, ranks, printed):
    assert main(["certify", str(run), *CERTIFY, "--name", "one"]) == 0
    for rank, told in ((0, "4 of 4 images"), (1, "(rank 1 of 2): 4 of 4 images")):
        ranks(WORLD_SIZE=2, RANK=rank)
        output = printed(["certify", str(run), *CERTIFY])
        assert output.out == ""
        assert told in output.err
        assert rank or "4 of 8 images" in output.err
    assert records_of(run) == records_of(run, "one")
    ranks(RANK=0)
    json.loads(printed(["certify", str(run), *CERTIFY, "--json"]).out)


@pytest.mark.slow
def test_two_processes_of_torchrun_make_the_records_of_one(run):
    assert main(["certify", str(run), *CERTIFY, "--name", "one"]) == 0
    launcher = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]
    line = [*launcher, "-m", "ars", "certify", str(run), *CERTIFY]
    done = subprocess.run(line, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert records_of(run) == records_of(run, "one")
    assert "(rank 1 of 2): 4 of 4 images" in done.stderr
    assert "done" not in done.stderr  # the first rank waits for the second
    assert done.stdout.count("of 300 test images") == 2  # one table under each bound


def test_a_plan_times_the_first_images_and_writes_nothing(run, printed, refused, monkeypatch):
    monkeypatch.setattr("ars.workflows.forecast.CERTIFY_SECONDS", 0.0)
    before = contents(run)
    output = printed(["certify", str(run), *CERTIFY, "--plan", "--on", "1", "4", "--price", "2"]).out
    assert "8 of 8 images are left, 640 draws" in output  # of 20 and 60 draws each
    assert [line.split()[0] for line in output.splitlines()[-2:]] == ["1", "4"]
    assert contents(run) == before
    assert "--plan" in refused(["certify", str(run), *CERTIFY, "--price", "2"])
    assert main(["certify", str(run), *CERTIFY]) == 0
    grown = [*CERTIFY, "--examples=11", "--plan"]
    assert "3 of 11 images are left, 240 draws" in printed(["certify", str(run), *grown]).out
    assert "0 of 8 images are left" in printed(["certify", str(run), *CERTIFY, "--plan"]).out
    assert "alpha" in refused(["certify", str(run), *grown, "--alpha=0.2"])


def test_every_rank_says_what_went_wrong_with_it(run, ranks, refused):
    ranks(SLURM_ARRAY_TASK_ID=1, SLURM_ARRAY_TASK_COUNT=3)
    assert refused(["certify", str(run), *CERTIFY, "--alpha", "2"]).startswith("ars (rank 1 of 3): alpha")
    ranks(SLURM_ARRAY_TASK_COUNT="x")
    assert refused(["certify", str(run), *CERTIFY]).startswith("ars: SLURM_ARRAY_TASK_COUNT")


def test_the_device_that_was_asked_for_is_a_ranks_own_and_rays(run, ranks, monkeypatch, refused):
    told = []

    def choose(*what):
        told.append(what)
        raise ValueError("none")

    def certify_with_ray(request, *, device_name, **how):
        told.append((request.folder, request.settings.n_estimate, request.name, request.shard_size, device_name))
        told.append((how["gpus_per_worker"], how["over"](), how["stop"]()))
        raise ValueError("no workers")

    with monkeypatch.context() as patch:
        patch.setattr("ars.workflows.ray.certify_with_ray", certify_with_ray)
        assert "no workers" in refused(
            ["certify", str(run), *CERTIFY, "--engine=ray", "--name=far", "--gpus-per-worker=0.5"]
        )
    monkeypatch.setattr("ars.workflows.hardware.choose_device", choose)
    ranks(WORLD_SIZE=4, RANK=3, LOCAL_RANK=1)
    assert main(["certify", str(run), *CERTIFY[:-1], "--device=cuda"]) == 2
    assert told == [(run, 60, "far", 2, "cpu"), (0.5, False, False), ("cuda", 1)]


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


def test_something_is_shown_before_the_first_shard_is_done(run, monkeypatch, capsys, printed):
    with monkeypatch.context() as patch:
        patch.setattr("ars.workflows.certify.Job.certify_shard", interrupt)
        assert main(["certify", str(run), *CERTIFY]) == 130
    about, first, *_ = capsys.readouterr().err.splitlines()
    assert about.startswith("digits on photographs: certifying 8 of 300 test images, 5 of 10 classes, at 24x24")
    assert first.startswith(f"{run}: 0 of 8 images")
    assert "ARS" in printed(["certify", str(run), *CERTIFY, "--stages=2"]).out
    with np.load(run / "certify" / "test" / "stages.npz") as stages:
        assert stages["index"].tolist() == [0, 1]
    assert printed(["certify", str(run), *CERTIFY]).err == ""  # nothing was left


def test_a_certification_continues_with_its_own_settings_whatever_its_name(run, refused):
    assert main(["certify", str(run), *FEW]) == 0
    assert main(["certify", str(run), *FEW, "--alpha=0.01", "--every=2", "--name=strict"]) == 0
    assert main(["certify", str(run), "--device=cpu", "--examples=6", "--name=strict"]) == 0
    records = merge(run / "certify" / "strict").records
    assert [record.certificate.index for record in records] == list(range(0, 12, 2))
    assert {record.certificate.alpha for record in records} == {0.01}
    for option, words in (("--alpha=0.05", "alpha=0.01"), ("--mode=radius", "mode=fixed")):
        assert words in refused(["certify", str(run), "--device=cpu", option, "--name=strict"])


def test_a_grid_of_radii_is_decided_from_the_command_line(run, printed):
    grid = ["--mode", "curve", "--radii", "0", "1/255", "2/255"]
    [block] = json.loads(printed(["certify", str(run), *FEW, *grid, "--name", "curve", "--json"]).out)
    assert [part["radius"] for part in block["rows"][0]["certified_accuracy"]] == pytest.approx([1, 2])
    assert main(["certify", str(run), *FEW, "--mode", "radius", "--tolerance", "0.1", "--name", "planned"]) == 0


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--alpha", "0"], "alpha"),
        (["--examples", "100000"], "--examples"),
        (["--shard-size", "0"], "--shard-size must be at least 1, got 0"),
        (["--stages", "-1"], "--stages must be at least 0, got -1"),
        (["--mode", "curve"], "--radii"),
        (["--radii", "0.1"], "--mode curve"),
    ],
)
def test_bad_settings_get_one_sentence_and_write_no_record(trained, options, words, refused):
    assert words in refused(["certify", str(trained), *FEW, "--name", "bad", *options])
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
        (["--model", "json:magic", "--data", "digits", "--out", "x"], "'magic'"),
        (["--model", "torch.nn:Identity", "--data", "magic", "--sigma=1", "--out", "x"], "kind"),
        (["--model", "torch.nn:Identity", "--data", "digits", "--sigma=1", "--out", "x"], "logits"),
        (["--model", "torch.nn:Identity", "--classifier", "a:b"], "--classifier"),
        (["--model", "json:dumps", "--data", "digits", "--out", "../notes.txt"], "notes.txt is a file"),
    ],
)
def test_a_request_that_makes_no_sense_gets_one_sentence_and_leaves_nothing(arguments, words, refused, desk):
    notes = desk.parent / "notes.txt"
    notes.write_text("mine")
    assert words in refused(["certify", *arguments])
    assert list(desk.iterdir()) == []
    assert notes.read_text() == "mine"


def test_the_users_own_model_is_certified_and_other_commands_name_how_to_continue(own, printed, refused):
    smoothed = ["--model", "own_model:smoothed", "--data", "digits", "--out", "runs/own"]
    table = json.loads(printed(["certify", *smoothed, *CERTIFY, "--json", "--stages=2"]).out)
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
    for folder, options in commands.items():
        for arguments in (["certify", folder], ["predict", folder, "a.png"], ["vote", folder]):
            assert f"ars certify {options} " in refused(arguments)
        assert main(["certify", *shlex.split(options), "--device=cpu"]) == 0  # nothing is left


def test_of_a_small_folder_all_test_images_are_certified_and_a_line_says_which(own, printed, refused):
    fill(own / "photos", names=[f"class{label}" for label in range(8)], images=10, side=8)
    photos = ["certify", "--model=own_model:eight", "--sigma=0.5", "--data=folder:photos", "--data.size=8", *QUICK]
    output = printed([*photos, "--out=runs/some", "--json"])
    [images] = json.loads(output.out)[0]["rows"][0]["images"]
    assert output.err.startswith(f"photos: certifying {images} of {images} test images, ")
    assert "at 8x8; the test images are about a tenth of all 80" in output.err
    assert printed([*photos, "--out=runs/some"]).err == ""  # nothing was left
    more = [f"--examples={images + 1}", "--name=more"]
    assert f"photos has {images} test images" in refused([*photos, "--out=runs/some", *more])
    # without images to validate with, only a training is refused
    for path in (own / "photos").rglob("*.png"):
        if part_of(f"{path.parent.name}/{path.name}", validation=0.1, test=0.1) == "validation":
            path.unlink()
    assert main([*photos, "--out=runs/other"]) == 0
    assert "validation" in refused(["train", *FOLDER, "--data.root=photos", "--data.size=8", "--out=runs/trained"])
    assert not (own / "runs" / "trained").exists()


@pytest.fixture
def eight(own):
    """A folder of eight classes with ten test images each: the command that certifies a model for them."""
    fill(own / "eight" / "test", names=[f"class{label}" for label in range(8)], images=10, side=8)
    data = ["--data", "folder:eight", "--data.size=8", "--out", "runs/eight"]
    return ["certify", "--model", "own_model:eight", "--sigma=0.5", *data, *QUICK]


def test_the_first_images_of_a_folder_are_of_all_classes_and_more_may_follow(eight, own, printed):
    records = own / "runs" / "eight" / "certify" / "test"
    output = printed([*eight, "--examples=16", "--shard-size=8"])
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
    every = json.loads(printed([*eight, "--every=8", "--name=every", "--json"]).out)
    assert every[0]["rows"][0]["judged"][0]["classes"] >= 5


def test_records_of_the_files_of_a_folder_by_name_are_not_continued(eight, own, monkeypatch, printed, refused):
    """As an earlier version made them."""
    with monkeypatch.context() as earlier:
        earlier.setattr("ars.data.folder.classes_in_turn", lambda names, labels: list(range(len(names))))
        earlier.setattr("ars.data.folder.IN_TURN", "")
        assert "certifying 16 of 80 test images, 2 of 8 classes" in printed([*eight, "--examples=16"]).err
    records = own / "runs" / "eight" / "certify" / "test"
    manifest = json.loads((records / "settings.json").read_text())
    assert "order" not in manifest
    for kept in ("all", "less"):  # versions before that kept less
        if kept == "less":
            (records / "files.json").unlink()
            (records / "settings.json").write_text(json.dumps({**manifest, "images": [], "files": ""}))
        before = contents(records)
        for examples in ("--examples=16", "--examples=24"):
            assert "another order" in refused([*eight, examples])
        assert contents(records) == before
    assert main([*eight, "--examples=16", "--name=anew"]) == 0
