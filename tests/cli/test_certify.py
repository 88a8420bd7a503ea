"""ars certify as its users start it: under torchrun, with Ctrl-C, on a full disk, with a model of their own."""

import dataclasses
import errno
import json
import os
import shlex
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from PIL import Image

import ars
from ars.certification.shards import merge
from ars.cli import main
from ars.cli.live import describe, duration, live_view
from ars.data.images import read_image
from ars.experiments.certifying.progress import Progress

CERTIFY = ["--examples=8", "--shard-size=2", "--n-select=20", "--n-estimate=60", "--precision=float32", "--device=cpu"]
MODEL = """
import torch
from torch import nn
from ars import cohen
torch.manual_seed(0)
network = nn.Sequential(nn.Flatten(), nn.Linear(3 * 24 * 24, 10))
smoothed = cohen(network, sigma=0.5)
"""


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    folder = tmp_path_factory.mktemp("certify") / "run"
    tiny = ["--data.passes=1", "--classifier.width=4", "--mask.width=2", "--train.batch_size=256", "--train.epochs=1"]
    assert main(["train", "--out", str(folder), *tiny, "--train.precision=float32", "--device=cpu"]) == 0
    return folder


@pytest.fixture
def run(trained, tmp_path):
    return shutil.copytree(trained, tmp_path / "run")


def content(folder, name="test"):
    return [dataclasses.replace(record, seconds=0.0) for record in merge(folder / "certify" / name).records]


def alone(*arguments, **options):
    """The command in a process of its own."""
    command = [sys.executable, "-m", "ars.cli", *map(str, arguments)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, **options)


def test_ranks_by_their_variables_make_the_records_of_one_process(run, monkeypatch, capsys):
    assert main(["certify", str(run), *CERTIFY, "--name", "one"]) == 0
    capsys.readouterr()
    monkeypatch.setenv("WORLD_SIZE", "2")
    monkeypatch.setenv("RANK", "0")
    assert main(["certify", str(run), *CERTIFY]) == 0
    output = capsys.readouterr()
    assert output.out == ""
    assert "4 of 4 images" in output.err
    assert "this part is done; " in output.err
    assert "has 4 of 8 images, missing are 2 to 3, 6 to 7" in output.err
    monkeypatch.setenv("RANK", "1")
    assert main(["certify", str(run), *CERTIFY]) == 0
    output = capsys.readouterr()
    assert output.out == ""
    assert "(rank 1 of 2): 4 of 4 images" in output.err
    assert content(run) == content(run, "one")
    monkeypatch.setenv("RANK", "0")
    assert main(["certify", str(run), *CERTIFY, "--json"]) == 0
    json.loads(capsys.readouterr().out)


def test_every_rank_says_what_went_wrong_with_it(run, monkeypatch, capsys):
    monkeypatch.setenv("SLURM_ARRAY_TASK_ID", "1")
    monkeypatch.setenv("SLURM_ARRAY_TASK_COUNT", "3")
    assert main(["certify", str(run), *CERTIFY, "--alpha", "2"]) == 2
    assert capsys.readouterr().err.startswith("ars (rank 1 of 3): alpha must lie")
    monkeypatch.setenv("SLURM_ARRAY_TASK_COUNT", "x")
    assert main(["certify", str(run), *CERTIFY]) == 2
    assert capsys.readouterr().err == "ars: SLURM_ARRAY_TASK_COUNT must be a whole number, got 'x'\n"


@pytest.mark.slow
def test_two_processes_of_torchrun_make_the_records_of_one(run):
    assert main(["certify", str(run), *CERTIFY, "--name", "one"]) == 0
    launcher = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]
    command = [*launcher, "-m", "ars.cli", "certify", str(run), *CERTIFY]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert content(run) == content(run, "one")
    assert "(rank 1 of 2): 4 of 4 images" in done.stderr


@pytest.mark.slow
def test_a_command_that_is_killed_again_and_again_ends_with_the_same_records(run):
    arguments = ["certify", run, *CERTIFY, "--examples=40", "--n-estimate=2000"]
    undisturbed = shutil.copytree(run, run.with_name("undisturbed"))
    assert main(["certify", str(undisturbed), *map(str, arguments[2:])]) == 0
    for wanted in range(1, 4):
        process = alone(*arguments)
        deadline = time.monotonic() + 120
        while len(list(run.glob("certify/test/shard-*"))) < wanted:
            assert time.monotonic() < deadline
            time.sleep(0.01 * wanted)
        process.kill()
        process.communicate()
    assert main(["certify", *map(str, arguments[1:])]) == 0
    assert content(run) == content(undisturbed)


def test_ctrl_c_keeps_whole_shards_and_gives_the_command_to_go_on(run):
    arguments = ["certify", run, *CERTIFY, "--examples=300", "--n-estimate=3000"]
    process = alone(*arguments)
    deadline = time.monotonic() + 120
    while not list(run.glob("certify/test/shard-*")):
        assert time.monotonic() < deadline
        assert process.poll() is None, process.communicate()
        time.sleep(0.05)
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate(timeout=120)
    assert process.returncode == 130
    assert "ending after the shard in flight; Ctrl-C again ends at once" in errors
    assert f"run the same command again to go on from here: ars certify {run} " in errors
    assert "Traceback" not in errors
    there = merge(run / "certify" / "test", partial=True)
    assert 0 < len(there.records) < 300
    assert len(there.records) % 2 == 0
    assert not list(run.glob("certify/test/.*"))


def test_something_is_shown_before_the_first_shard_is_done(run, monkeypatch, capsys):
    def none(job, number):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr("ars.experiments.certifying.job.Job.certify_shard", none)
        assert main(["certify", str(run), *CERTIFY]) == 130
    assert capsys.readouterr().err.startswith(
        "digits on photographs: certifying 8 of 300 test images, 5 of 10 classes, at 24x24\n"
        f"{run}: 0 of 8 images, the first shard is under way\n"
    )
    assert main(["certify", str(run), *CERTIFY]) == 0
    capsys.readouterr()
    assert main(["certify", str(run), *CERTIFY]) == 0
    assert capsys.readouterr().err == ""  # nothing was left


def test_a_certification_goes_on_with_what_it_was_begun_with(run, capsys):
    assert main(["certify", str(run), *CERTIFY, "--alpha=0.01", "--every=2"]) == 0
    assert main(["certify", str(run), "--device=cpu", "--examples=10"]) == 0
    records = merge(run / "certify" / "test").records
    assert [record.certificate.index for record in records] == list(range(0, 20, 2))
    assert {record.certificate.alpha for record in records} == {0.01}
    capsys.readouterr()
    assert main(["certify", str(run), "--device=cpu", "--alpha=0.05"]) == 2
    assert "records with alpha=0.01, asked for is 0.05; certify under another --name" in capsys.readouterr().err


def test_a_certification_under_another_name_goes_on_with_its_own(run):
    assert main(["certify", str(run), *CERTIFY]) == 0
    assert main(["certify", str(run), *CERTIFY, "--alpha=0.01", "--name=strict"]) == 0
    assert main(["certify", str(run), "--device=cpu", "--examples=10", "--name=strict"]) == 0
    records = merge(run / "certify" / "strict").records
    assert (len(records), {record.certificate.alpha for record in records}) == (10, {0.01})


def test_a_rank_takes_the_device_that_was_asked_for_by_its_number_on_the_machine(run, monkeypatch, capsys):
    asked = []

    def choose(*what):
        asked.append(what)
        raise ValueError("none")

    monkeypatch.setattr("ars.experiments.device.choose_device", choose)
    for name, value in (("WORLD_SIZE", "4"), ("RANK", "3"), ("LOCAL_RANK", "1")):
        monkeypatch.setenv(name, value)
    assert main(["certify", str(run), *CERTIFY[:-1], "--device=cuda"]) == 2
    assert asked == [("cuda", 1)]


def test_ray_is_told_the_request_and_the_device(run, monkeypatch, capsys):
    told = []

    def certify_with_ray(request, *, device_name, **how):
        told.append((request.folder, request.settings.n_estimate, request.name, request.shard_size, device_name))
        raise ValueError("no workers")

    monkeypatch.setattr("ars.experiments.certifying.ray_engine.certify_with_ray", certify_with_ray)
    assert main(["certify", str(run), *CERTIFY, "--engine=ray", "--name=far"]) == 2
    assert "no workers" in capsys.readouterr().err
    assert told == [(run, 60, "far", 2, "cpu")]


def test_another_mode_than_was_begun_is_refused_by_name(run, capsys):
    assert main(["certify", str(run), *CERTIFY, "--mode=curve", "--radii", "0", "1/255"]) == 0
    capsys.readouterr()
    assert main(["certify", str(run), "--device=cpu", "--mode=fixed"]) == 2
    assert "holds records with mode=curve, asked for is fixed" in capsys.readouterr().err


def test_a_file_in_the_place_of_a_run_is_named(tmp_path, capsys):
    (tmp_path / "notes.txt").write_text("mine")
    own = ["--model", "own_model:smoothed", "--data", "digits", "--out", str(tmp_path / "notes.txt")]
    assert main(["certify", *own, "--device=cpu"]) == 2
    assert "notes.txt is a file; choose a folder with --out" in capsys.readouterr().err
    assert (tmp_path / "notes.txt").read_text() == "mine"


@pytest.mark.parametrize("call", ["fsync", "replace"])
def test_a_full_disk_is_one_sentence_and_loses_nothing(run, call, monkeypatch, capsys):
    real, allowed = getattr(os, call), iter(range(3 if call == "replace" else 8))  # the manifest is linked

    def failing(*arguments):
        if next(allowed, None) is None:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return real(*arguments)

    with monkeypatch.context() as patch:
        patch.setattr(os, call, failing)
        assert main(["certify", str(run), *CERTIFY]) == 2
    *_, last = capsys.readouterr().err.strip().splitlines()
    assert last.startswith("ars: cannot write ")
    assert "No space left on device; all that was written before is kept" in last
    assert len(merge(run / "certify" / "test", partial=True).records) == 4
    assert not list(run.glob("certify/test/.*"))
    assert main(["certify", str(run), *CERTIFY]) == 0
    assert len(content(run)) == 8


def test_a_report_on_a_part_must_be_asked_for(run, capsys, tmp_path, monkeypatch):
    monkeypatch.setenv("WORLD_SIZE", "2")
    monkeypatch.setenv("RANK", "1")
    assert main(["certify", str(run), *CERTIFY]) == 0
    monkeypatch.delenv("RANK")
    monkeypatch.delenv("WORLD_SIZE")
    capsys.readouterr()
    assert main(["report", str(run), "--out", str(tmp_path / "report")]) == 2
    assert "has 4 of 8 images, missing are 0 to 1, 4 to 5; run the same" in capsys.readouterr().err
    assert not (tmp_path / "report").exists()
    assert main(["report", str(run), "--out", str(tmp_path / "report"), "--partial", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)[0]["rows"][0]["missing"] == [4]
    assert "still to be certified" in (tmp_path / "report" / "index.html").read_text()


def test_a_report_is_of_the_records_that_are_named(run, capsys, tmp_path):
    assert main(["certify", str(run), *CERTIFY]) == 0
    assert main(["certify", str(run), *CERTIFY, "--examples=3", "--name=few"]) == 0
    capsys.readouterr()
    assert main(["report", str(run), "--out", str(tmp_path / "report"), "--name=few", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)[0]["rows"][0]["images"] == [3]
    assert len((tmp_path / "report" / "images-run.csv").read_text().splitlines()) == 1 + 3


def test_a_model_of_ones_own_is_certified_and_reported(tmp_path, monkeypatch, capsys):
    (tmp_path / "own_model.py").write_text(MODEL)
    monkeypatch.chdir(tmp_path)
    own = ["--model", "own_model:smoothed", "--data", "digits", "--out", "runs/own"]
    assert main(["certify", *own, *CERTIFY, "--json", "--stages=2"]) == 0
    table = json.loads(capsys.readouterr().out)
    assert table[0]["rows"][0]["method"] == "own_model:smoothed"
    assert table[0]["sigma"] == pytest.approx(0.5)
    plain = ["--model", "own_model:network", "--sigma", "0.5", "--data", "digits", "--out", "runs/plain"]
    assert main(["certify", *plain, "--data.seed=0", *CERTIFY]) == 0
    capsys.readouterr()
    strip = [dataclasses.replace(one, seconds=0.0) for one in merge(tmp_path / "runs/own/certify/test").records]
    assert content(tmp_path / "runs/plain") == strip
    assert main(["report", "runs/own", "--out", "report"]) == 0
    go_on = "ars certify --model own_model:smoothed --data digits --out runs/own"
    for command, words in (
        (["certify", "runs/own"], f"records alone; {go_on} goes on"),
        (["predict", "runs/own", "a.png"], f"ars predict wants its --model again, and {go_on} goes on"),
        (["vote", "runs/own"], f"ars vote cannot load it, and {go_on} goes on with them\n"),
        (["certify", "runs/plain"], "ars certify --model own_model:network --sigma 0.5 --data digits --out runs/plain"),
    ):
        assert main(command) == 2
        assert words in capsys.readouterr().err
    assert main([*go_on.split()[1:], "--device=cpu"]) == 0
    sys.modules.pop("own_model")


@pytest.fixture
def photos(tmp_path, monkeypatch):
    """Two class folders of ten images each, in the current folder, and a model for them."""
    for number, name in enumerate(("cat", "dog")):
        (tmp_path / "photos" / name).mkdir(parents=True)
        for index in range(10):
            Image.new("RGB", (8, 8), (255 * number, 20 * index, 9 * index)).save(
                tmp_path / "photos" / name / f"{index}.png"
            )
    (tmp_path / "pets_model.py").write_text(
        "from torch import nn\nnet = nn.Sequential(nn.Flatten(), nn.Linear(3 * 8 * 8, 2))\n"
    )
    monkeypatch.chdir(tmp_path)
    yield ["--model", "pets_model:net", "--sigma=0.5", "--data", "folder:photos", "--data.size=8", "--out", "runs/pets"]
    sys.modules.pop("pets_model")


FEW = ["--n-select=20", "--n-estimate=60", "--device=cpu"]


def test_of_a_small_folder_all_test_images_are_certified_and_a_line_says_which(photos, tmp_path, capsys):
    assert main(["certify", *photos, *FEW, "--stages=6", "--json"]) == 0
    output = capsys.readouterr()
    assert json.loads(output.out)[0]["rows"][0]["images"] == [2]
    assert output.err.splitlines()[0] == (
        "photos: certifying 2 of 2 test images, 1 of 2 classes, at 8x8; the test images are about a tenth of all 20, "
        "chosen by their names (to choose them, give it train/ and test/, or test/ alone); classes: 0 cat, 1 dog"
    )
    assert main(["certify", *photos, *FEW]) == 0
    assert capsys.readouterr().err == ""  # nothing was left
    assert main(["certify", *photos, *FEW, "--examples=3", "--name=more"]) == 2
    assert "photos has 2 test images at every=1, so 3 are too many; set certify.examples" in capsys.readouterr().err
    (tmp_path / "all").mkdir()
    (tmp_path / "photos").rename(tmp_path / "all" / "test")
    photos[4:] = ["folder:all", "--data.size=8", "--out", "runs/all", "--every=3"]
    assert main(["certify", *photos, *FEW]) == 0
    assert capsys.readouterr().err.startswith(
        "all: certifying 7 of 20 test images, 2 of 2 classes, at 8x8; the test images are those below test/; classes: "
    )


@pytest.fixture
def eight(tmp_path, monkeypatch):
    """A folder of eight classes with ten test images each, and a model for them."""
    for label in range(8):
        (tmp_path / "eight" / "test" / f"class{label}").mkdir(parents=True)
        for number in range(10):
            path = tmp_path / "eight" / "test" / f"class{label}" / f"{number}.png"
            Image.new("RGB", (8, 8), (30 * label, 20 * number, 9 * number)).save(path)
    (tmp_path / "eight_model.py").write_text(
        "from torch import nn\nnet = nn.Sequential(nn.Flatten(), nn.Linear(3 * 8 * 8, 8))\n"
    )
    monkeypatch.chdir(tmp_path)
    own = ["--model", "eight_model:net", "--sigma=0.5", "--data", "folder:eight", "--data.size=8"]
    yield ["certify", *own, "--out", "runs/eight", *FEW]
    sys.modules.pop("eight_model")


def test_the_first_images_of_a_folder_are_of_all_classes_and_more_may_follow(eight, tmp_path, capsys):
    records = tmp_path / "runs" / "eight" / "certify" / "test"
    assert main([*eight, "--examples=16", "--shard-size=8"]) == 0
    output = capsys.readouterr()
    assert output.err.startswith("eight: certifying 16 of 80 test images, 8 of 8 classes, at 8x8; the test images are ")
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
    assert (tmp_path / "report" / "table.md").read_text().count("; 24 of 80 test images, 8 of 8 classes\n") == 2
    assert "; 24 of 80 test images, 8 of 8 classes.</p>" in (tmp_path / "report" / "index.html").read_text()
    files = json.loads((records / "files.json").read_text())[:24]
    assert {Path(name).name for name in files} - {"0.png", "1.png", "2.png"}  # nor the first of a class by name
    capsys.readouterr()
    assert main([*eight, "--every=8", "--name=every", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)[0]["rows"][0]["judged"][0]["classes"] >= 5


def test_records_of_a_folder_by_name_are_not_gone_on_with(eight, tmp_path, monkeypatch, capsys):
    with monkeypatch.context() as earlier:
        earlier.setattr("ars.data.folder.classes_in_turn", lambda names, labels: list(range(len(names))))
        earlier.setattr("ars.data.folder.IN_TURN", "")
        assert main([*eight, "--examples=16"]) == 0
        assert "certifying 16 of 80 test images, 2 of 8 classes" in capsys.readouterr().err
    records = tmp_path / "runs" / "eight" / "certify" / "test"
    manifest = json.loads((records / "settings.json").read_text())
    assert "order" not in manifest
    told = "holds records of the test images in another order, as an earlier version took the files of a folder by name"
    for examples in ("--examples=16", "--examples=24"):
        assert main([*eight, examples]) == 2
        assert f"{told}; certify under another --name" in capsys.readouterr().err
    (records / "files.json").unlink()  # versions before those kept less
    (records / "settings.json").write_text(json.dumps({**manifest, "images": [], "files": ""}))
    before = {path: path.read_bytes() for path in records.iterdir()}
    for examples in ("--examples=16", "--examples=24"):
        assert main([*eight, examples]) == 2
        assert f"{told}; certify under another --name" in capsys.readouterr().err
    assert {path: path.read_bytes() for path in records.iterdir()} == before
    assert main([*eight, "--examples=16", "--name=anew"]) == 0


def test_a_report_names_the_file_of_each_image_and_renamed_ones_are_noticed(photos, tmp_path, capsys):
    assert main(["certify", *photos, *FEW]) == 0
    assert main(["report", "runs/pets", "--out", "report"]) == 0
    lines = (tmp_path / "report" / "images-pets.csv").read_text().splitlines()
    assert [line.split(",")[:3] for line in lines[1:]] == [["0", "dog/5.png", "dog"], ["1", "dog/8.png", "dog"]]
    kept = (tmp_path / "runs" / "pets" / "certify" / "test" / "files.json").read_text()
    (tmp_path / "runs" / "pets" / "certify" / "test" / "files.json").write_text(kept.replace("dog/5", "dog/6"))
    capsys.readouterr()
    assert main(["certify", *photos, *FEW]) == 2
    assert "of other images: dog/6.png was where dog/5.png is now; certify under another" in capsys.readouterr().err


def test_a_photo_is_predicted_by_the_model_that_a_folder_was_made_with(photos, tmp_path, capsys):
    assert main(["certify", *photos, *FEW, "--alpha=0.01"]) == 0
    kept = {path: path.read_bytes() for path in (tmp_path / "runs").rglob("*") if path.is_file()}
    capsys.readouterr()
    Image.new("RGB", (9, 12), (200, 0, 0)).save(tmp_path / "photo.png")
    predict = ["predict", "runs/pets", "photo.png", "--device=cpu", "--resize", "--json", "--model"]
    assert main([*predict, "pets_model:net"]) == 0
    answer = json.loads(capsys.readouterr().out)
    assert (answer["file"], answer["alpha"]) == ("photo.png", 0.01)  # as its records were made
    assert sum(answer["votes"].values()) == 60
    assert set(answer["votes"]) <= {"cat", "dog"}
    assert main([*predict, "pets_model:other"]) == 2
    assert "runs/pets is of the model pets_model:net, got pets_model:other; name that one" in capsys.readouterr().err
    bias = sys.modules["pets_model"].net[-1].bias
    bias.data.add_(1)  # trained on, say
    assert main([*predict, "pets_model:net"]) == 2
    assert "runs/pets holds records of a model with other weights or noise; certify this" in capsys.readouterr().err
    bias.data.sub_(1)
    assert main([*predict, "pets_model:net", "--classifier", "pets_model:net"]) == 2
    assert "--classifier belongs to a run that was trained here" in capsys.readouterr().err
    assert {path: path.read_bytes() for path in (tmp_path / "runs").rglob("*") if path.is_file()} == kept
    (tmp_path / "runs" / "pets" / "recipe.yaml").write_text("method: cohen")
    assert main([*predict, "pets_model:net"]) == 2
    assert "runs/pets was not made by ars certify --model; leave --model out" in capsys.readouterr().err


def test_a_prediction_tells_what_its_certificate_rests_on(photos, capsys):
    """With it, the library gives the very same certificate; the next call has noise of its own."""
    assert main(["certify", *photos, *FEW]) == 0
    files = [f"photos/{name}/{number}.png" for name in ("cat", "dog") for number in range(3)]
    predict = ["predict", "runs/pets", *files, "--model=pets_model:net", "--n-estimate=2000", "--device=cpu", "--json"]
    capsys.readouterr()
    calls = []
    for _ in range(2):
        assert main(predict) == 0
        calls.append([json.loads(line) for line in capsys.readouterr().out.splitlines()])
    assert [answer["votes"] for answer in calls[0]] != [answer["votes"] for answer in calls[1]]
    model = ars.cohen(sys.modules["pets_model"].net, sigma=0.5)
    for answer in calls[0]:
        certificate = ars.certify(
            model, read_image(Path(answer["file"])), norm=answer["norm"], n_select=20, n_estimate=answer["draws"],
            alpha=answer["alpha"], seed=answer["seed"], indices=[answer["index"]], precision=answer["precision"],
        )  # fmt: skip
        votes = dict(zip(("cat", "dog"), certificate.counts, strict=True))
        assert answer["votes"] == {name: count for name, count in votes.items() if count}
        assert answer["radius"] == certificate.radius


def test_images_to_validate_with_are_needed_where_something_is_trained(photos, tmp_path, capsys):
    for name in ("cat/3.png", "dog/2.png"):  # the tenth for validation
        (tmp_path / "photos" / name).unlink()
    assert main(["certify", *photos, *FEW]) == 0
    capsys.readouterr()
    folder = ["--data.kind=folder", "--data.root=photos", "--data.size=8", "--train.batch_size=4"]
    assert main(["train", *folder, "--out", "runs/trained", "--device=cpu"]) == 2
    assert "photos: the validation part should hold images, found none; add some" in capsys.readouterr().err
    assert not (tmp_path / "runs" / "trained").exists()


def test_the_command_that_goes_on_with_a_model_of_ones_own_has_all_of_its_data(tmp_path, monkeypatch, capsys):
    (tmp_path / "own_model.py").write_text(MODEL)
    monkeypatch.chdir(tmp_path)
    own = [
        "--model",
        "own_model:network",
        "--data",
        "digits",
        "--data.passes=2",
        "--data.seed",
        "3",
        "--out",
        "my runs",
    ]
    assert main(["certify", *own, "--sigma=0.5", *CERTIFY]) == 0
    capsys.readouterr()
    assert main(["certify", "my runs"]) == 2
    told = capsys.readouterr().err.split("; ")[1]
    command = shlex.split(told.partition(" goes on")[0])[1:]
    assert command == [
        "certify", "--model", "own_model:network", "--sigma", "0.5", "--data", "digits", "--data.seed", "3",
        "--data.passes", "2", "--out", "my runs",
    ]  # fmt: skip
    assert main([*command, "--device=cpu"]) == 0
    sys.modules.pop("own_model")


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ([], "say what to certify"),
        (["--data", "digits"], "--data belongs to a model"),
        (["x", "--data.seed=3"], "--data.seed belongs to a model"),
        (["x", "--model", "a:b"], "give a run folder (x) or --model, not both"),
        (["--model", "a:b", "--out", "x"], "--data KIND[:ROOT] --out RUN"),
        (["--model", "a:b", "--data", "digits"], "--data KIND[:ROOT] --out RUN"),
        (["--model", "ab", "--data", "digits", "--out", "x"], "must look like package.module:attribute"),
        (["--model", "no_such:b", "--data", "digits", "--out", "x"], "cannot import no_such"),
        (["--model", "json:magic", "--data", "digits", "--out", "x"], "json has no attribute 'magic'"),
        (["--model", "json:__name__", "--data", "digits", "--out", "x"], "got str"),
        (["--model", "json:dumps", "--data", "digits", "--out", "x"], "called without arguments and failed"),
        (["--model", "torch.nn:Identity", "--data", "magic", "--sigma=1", "--out", "x"], "kind"),
        (["--model", "torch.nn:Identity", "--data", "digits", "--sigma=1", "--out", "x"], "gives logits of shape"),
    ],
)
def test_a_request_that_makes_no_sense_gets_one_sentence_and_leaves_nothing(
    arguments, words, capsys, tmp_path, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    assert main(["certify", *arguments]) == 2
    (line,) = capsys.readouterr().err.strip().splitlines()
    assert words in line
    assert list(tmp_path.iterdir()) == []


def test_the_live_view_says_all_that_is_wanted(capsys):
    at = Progress(total=200, done=40, fresh=20, draws=50_000, seconds=2.0, right=30, radii=40 * 1.501 / 255)
    assert describe(at, "linf") == "certified 75%, average radius 1.50/255, 25,000 draws/s, 16 s left"
    assert "average radius 0.0058," in describe(at, "l2")
    assert describe(at, None) == "certified 75%, 25,000 draws/s, 16 s left"
    with live_view("run", norm="linf") as show:
        show(at)
        show(dataclasses.replace(at, done=60, fresh=40))  # too soon for another line
        show(dataclasses.replace(at, done=200))
    lines = capsys.readouterr().err.splitlines()
    assert [line.split(",")[0] for line in lines] == ["run: 40 of 200 images", "run: 200 of 200 images"]
    assert describe(Progress(total=8), "linf") == "the first shard is under way"
    assert describe(Progress(total=8, done=4, right=2), "linf").startswith(
        "certified 50%, average radius 0.00/255, the"
    )
    first = Progress(total=8, drawn=1_200, at_most=10_200)
    assert describe(first, "linf") == "1,200 of up to 10,200 draws of this shard"
    later = dataclasses.replace(at, drawn=500, at_most=1_000)
    assert describe(later, "linf").endswith("25,000 draws/s, 500 of up to 1,000 draws of this shard, 16 s left")
    assert duration(3599.5) == "1 h 0 min"


def test_a_grid_of_radii_is_decided_from_the_command_line(trained, capsys):
    few = ["--examples=4", "--n-select=20", "--n-estimate=400", "--precision=float32", "--device=cpu"]
    grid = ["--mode", "curve", "--radii", "0", "1/255", "2/255"]
    assert main(["certify", str(trained), *few, *grid, "--name", "curve", "--json"]) == 0
    [block] = json.loads(capsys.readouterr().out)
    assert [part["radius"] for part in block["rows"][0]["certified_accuracy"]] == pytest.approx([1, 2])
    assert main(["certify", str(trained), *few, "--mode", "radius", "--tolerance", "0.1", "--name", "planned"]) == 0
    capsys.readouterr()
    for wrong, words in (
        (["--mode", "curve"], "--mode curve needs the radii that it decides, such as --radii 1/255"),
        (["--radii", "0.1"], "--radii are for --mode curve; give both"),
        (["--mode", "curve", "--radii", "0.2", "0.1"], "radii must be at least 0 and increase strictly"),
    ):
        assert main(["certify", str(trained), *few, *wrong, "--name", "wrong"]) == 2
        assert words in capsys.readouterr().err
    assert not (trained / "certify" / "wrong").exists()
