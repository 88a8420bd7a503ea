"""ars train: short options, the default folder, the user's own classifier, refusals before the first step."""

import dataclasses
import signal
import subprocess
import sys
import time
from contextlib import nullcontext

import pytest
import torch
import yaml
from safetensors.torch import save_file

from ars.cli.main import main
from ars.cli.train import recipe_warnings
from ars.recipes.read import read_recipe
from ars.tensors import load_tensors, under

from ..conftest import contents
from .conftest import FEW, FOLDER, ONE_STEP, TINY_OPTIONS, fill, interrupt, picture

OWN = """
from torch import nn

def make():
    return nn.Sequential(nn.Conv2d(3, 2, 3), nn.BatchNorm2d(2), nn.Flatten(), nn.Linear(2 * 22 * 22, 10))

five = nn.Sequential(nn.Flatten(), nn.Linear(3 * 24 * 24, 5))
"""


@pytest.fixture
def plain(desk):
    """A recipe beside the current folder."""
    path = desk.parent / "plain.yaml"
    path.write_text("sigma: 0.3\n")
    return str(path)


@pytest.fixture
def own(desk):
    """The user's classifier: the options that name it."""
    (desk.parent / "my_classifiers.py").write_text(OWN)
    sys.path.insert(0, str(desk.parent))
    yield ["--classifier", "my_classifiers:make"]
    sys.modules.pop("my_classifiers", None)


def test_without_out_the_run_goes_to_a_folder_named_after_its_cell(desk, plain, printed):
    first, last = printed(["train", "--method", "cohen", plain, "--seed=2", *ONE_STEP]).out.splitlines()
    assert "runs/plain-cohen-s0.3-seed2" in first
    assert last.endswith("ars certify runs/plain-cohen-s0.3-seed2")
    assert (desk / "runs/plain-cohen-s0.3-seed2/model.safetensors").is_file()


@pytest.mark.parametrize("trained", [True, False])
def test_changed_certification_settings_are_kept(desk, plain, refused, monkeypatch, trained, printed):
    line = ["train", plain, "--out=run", "--method=cohen", *ONE_STEP]
    with monkeypatch.context() as patch:
        if not trained:
            patch.setattr("ars.workflows.train.save_tensors", interrupt)
        assert main(line) == (0 if trained else 130)
    before = read_recipe(desk / "run/recipe.yaml")
    assert "certify.n_estimate is now 500, was 1000" in printed([*line, "--certify.n_estimate=500"]).err
    after = read_recipe(desk / "run/recipe.yaml")
    assert after == dataclasses.replace(before, certify=dataclasses.replace(before.certify, n_estimate=500))
    assert "(sigma is 0.3 there, 0.4 here)" in refused([*line, "--certify.n_estimate=600", "--sigma=0.4"])
    assert read_recipe(desk / "run/recipe.yaml") == after


def test_more_images_to_certify_than_there_are_are_refused_before_training(desk, plain, refused):
    line = ["train", plain, "--out=run", "--method=cohen", *ONE_STEP]
    few, sparse = [*line, "--certify.examples=301"], [*line, "--certify.every=200"]
    said = [refused(few), refused(sparse)]
    assert all(words in said[0] for words in ("300 test images", "301", "certify.examples to 300 "))
    assert all(words in said[1] for words in ("2 test images", "certify.examples to 2 ", "certify.every to 3 "))
    assert not (desk / "run").exists()
    assert main([*line, "--certify.every=3"]) == 0
    before = contents(desk / "run")
    assert [refused(few), refused(sparse)] == said
    assert contents(desk / "run") == before


def test_k_is_short_for_the_size_and_part_of_the_default_name(desk, plain):
    photos = fill(desk.parent / "photos", side=20)
    small = [*FOLDER, f"--data.root={photos}"]
    assert main(["train", plain, *small, "--k", "24", "--sigma", "0.5"]) == 0
    recipe = yaml.safe_load((desk / "runs" / "plain-adaptive-k24-s0.5-seed0" / "recipe.yaml").read_text())
    assert recipe["data"]["size"] == 24
    assert main(["train", plain, "--out=x", *small, "--k", "20"]) == 0  # no multiple of the U-Net's 8
    assert yaml.safe_load((desk / "x" / "recipe.yaml").read_text())["data"]["size"] == 20


@pytest.mark.parametrize(
    ("content", "options", "words"),
    [
        ("", ["--k", "64"], "'size'"),
        ("data: {kind: cifar_backgrounds}", ["--k", "16"], "32"),
        ("data: {kind: cifar_backgrounds}", [], "CIFAR-10"),
        ("data: {kind: celeba, root: nowhere}", [], "/desk/nowhere"),
        ("", ["--classifier", "my_classifiers:make", "--weights", "no.safetensors"], "no.safetensors"),
        ("", ["--classifier", "no_such_package:make", "--freeze"], "no_such_package"),
        ("", ["--classifier", "my_classifiers"], "package.module:attribute"),
        ("", ["--freeze"], "classifier.freeze"),
        ("", ["--classifier.from_run", "nowhere", "--freeze"], "classifier.from_run names nowhere"),
        ("", ["--train.batch_size", "100000"], "batch_size"),
        ("", ["--device", "abacus"], "abacus"),
        (None, [], "nowhere.yaml"),
    ],
)
def test_what_cannot_be_trained_is_refused_before_the_first_step(desk, own, content, options, words, refused):
    path = desk.parent / ("nowhere.yaml" if content is None else "recipe.yaml")
    if content is not None:
        path.write_text(content or "sigma: 0.5")
    assert words in refused(["train", str(path), "--out=run", "--device=cpu", *options])
    assert list(desk.iterdir()) == []


def test_without_a_recipe_the_run_folder_is_named(desk, refused):
    assert "--out RUN" in refused(["train"])


def test_a_mask_around_the_users_own_classifier_is_trained_and_certified(desk, own, capsys, refused, printed):
    import my_classifiers

    weights = {name: tensor.clone() for name, tensor in my_classifiers.make().state_dict().items()}
    save_file(weights, desk.parent / "my.safetensors")
    frozen = [*own, "--freeze", "--weights", str(desk.parent / "my.safetensors")]
    assert f"ars certify run {' '.join(own)}\n" in printed(["train", "--out=run", *ONE_STEP, *frozen]).out
    kept = under(load_tensors(desk / "run" / "model.safetensors")[0], "classifier.")
    assert all(torch.equal(kept[name], tensor) for name, tensor in weights.items())
    image = picture(desk.parent / "a.png")
    lines = (["certify", "run", *FEW], ["predict", "run", str(image), *FEW[1:]], ["vote", "run", "--device=cpu"])
    for line in lines:
        assert "--classifier my_classifiers:make" in refused(line)
        said = refused([*line, "--classifier=my_classifiers:five"])
        assert "my_classifiers:five" in said
        assert "--classifier my_classifiers:make" in said
    assert not (desk / "run" / "certify").exists()
    assert [main([*line, *own]) for line in lines] == [0, 0, 0]
    assert "of 300 test images" in capsys.readouterr().out


def test_a_folder_of_an_imported_model_is_refused(desk, own, plain, refused):
    imported = ["--model=my_classifiers:make", "--sigma=0.5", "--data=digits", "--out=own"]
    assert main(["certify", *imported, *FEW]) == 0
    before = contents(desk / "own")
    assert "my_classifiers:make" in refused(["train", plain, "--out=own", *ONE_STEP])
    assert contents(desk / "own") == before


@pytest.mark.parametrize(
    ("options", "warns"),
    [
        (["--data.kind=cifar_backgrounds", "--data.size=64", "--train.mask_only_epochs=1"], "untrained"),
        (["--data.kind=cifar_backgrounds", "--data.size=64", "--train.mask_only_epochs=1", "--start.epochs=1"], None),
        (["--classifier.from_run=model", "--sigma=0.25"], None),
        (["--classifier.from_run=model", "--sigma=1.5"], "sigma = 0.25"),
        (["--classifier.from_run=checkpoint", "--sigma=0.25"], "checkpoint"),
    ],
)
def test_settings_that_are_probably_not_intended_are_pointed_out(desk, options, warns):
    for name in ("checkpoint", "model"):
        (desk / name).mkdir()
        (desk / name / f"{name}.safetensors").touch()
        (desk / name / "recipe.yaml").write_text("sigma: 0.25\n")
    said = list(recipe_warnings(read_recipe(None, options)))
    assert len(said) == (warns is not None)
    assert not said or warns in said[0]


def test_a_trial_of_a_few_steps_says_what_came_of_it_and_goes_to_tensorboard(desk, monkeypatch, printed):
    written = []
    monkeypatch.setattr("ars.workflows.train.scalars", lambda folder: nullcontext(written.append))
    assert "run: epoch 1 of 7, stopped after 1 step: loss" in printed(["train", "--out=run", *ONE_STEP]).err
    assert '"validation_accuracy": ' in (desk / "run" / "train.jsonl").read_text()
    assert [(at.epoch, at.steps) for at in written] == [(1, 1)]


def test_each_rank_trains_on_its_own_part_of_the_device_that_was_asked_for(desk, ranks, monkeypatch, refused):
    def choose(*what):
        raise ValueError(f"{what}")

    monkeypatch.setattr("ars.workflows.hardware.choose_device", choose)
    assert refused(["train", "--out=run", *ONE_STEP, "--device=cuda:1"]) == "ars: ('cuda:1', None)"
    ranks(WORLD_SIZE=4, RANK=3, LOCAL_RANK=1)
    assert refused(["train", "--out=run", *ONE_STEP, "--device=cuda"]) == "ars (rank 3 of 4): ('cuda', 1)"


def test_a_full_memory_is_one_sentence_with_the_settings_that_help(desk, refused, monkeypatch):
    def full(*arguments, **options):
        raise torch.OutOfMemoryError("CUDA out of memory.\nTried to allocate 20.00 GiB")

    monkeypatch.setattr("ars.training.loop.Trainer._train_step", full)
    said = refused(["train", "--out=run", *ONE_STEP])
    assert "train.accumulate" in said
    assert "train.batch_size" in said


def test_only_the_first_of_several_processes_says_where_the_run_goes(desk, plain, ranks, monkeypatch, printed):
    monkeypatch.setattr("ars.cli.train.train_with_progress", lambda *arguments, **options: None)
    for rank in (0, 1):
        ranks(WORLD_SIZE=2, RANK=rank)
        said = printed(["train", plain, "--train.mask_only_epochs=1"])
        assert (bool(said.out), bool(said.err)) == (rank == 0, rank == 0)


TORCHRUN = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2", "-m", "ars"]


@pytest.mark.slow
def test_sigterm_to_torchrun_saves_once_and_all_ranks_leave_in_order(tmp_path, refused):
    run = tmp_path / "run"
    options = ["train", "--out", str(run), *TINY_OPTIONS, "--train.epochs=1000"]
    process = subprocess.Popen([*TORCHRUN, *options], stderr=subprocess.PIPE, text=True)
    for line in process.stderr:
        if ": step " in line:
            break
    time.sleep(0.5)  # in the middle of a step
    process.send_signal(signal.SIGTERM)
    _, errors = process.communicate(timeout=60)
    assert errors.count("interrupted; run the same command again") == 1
    assert "Traceback" not in errors.split("torch/distributed")[0]
    tensors, about = load_tensors(run / "checkpoint.safetensors")
    assert about["step"] > 0
    assert not [name for name in tensors if "module." in name]
    assert not [path.name for path in run.iterdir() if path.name.endswith(".part")]
    assert "another recipe" in refused([*options, "--train.batch_size=512"])
