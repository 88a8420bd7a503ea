"""ars train: short options, the usual folder, classifiers of one's own, and what is refused before the first step."""

import dataclasses
import sys
from contextlib import nullcontext

import pytest
import torch
import yaml
from PIL import Image
from safetensors.torch import save_file

from ars.cli import main
from ars.cli.train import doubts
from ars.experiments.recipe_file import read_recipe

TINY = ["--data.passes=1", "--classifier.width=4", "--mask.width=2", "--train.batch_size=256",
        "--train.precision=float32", "--train.max_steps=1", "--device=cpu"]  # fmt: skip
FEW = ["--examples=2", "--n-select=10", "--n-estimate=20", "--precision=float32", "--device=cpu"]
OWN = """
from torch import nn

def make():
    return nn.Sequential(nn.Conv2d(3, 2, 3), nn.BatchNorm2d(2), nn.Flatten(), nn.Linear(2 * 22 * 22, 10))
"""


@pytest.fixture
def here(tmp_path, monkeypatch):
    """An empty current folder with a recipe and a module beside it, and no data."""
    monkeypatch.delenv("ARS_DATA", raising=False)
    desk = tmp_path / "desk"
    desk.mkdir()
    monkeypatch.chdir(desk)
    (tmp_path / "plain.yaml").write_text("sigma: 0.3\n")
    (tmp_path / "my_classifiers.py").write_text(OWN)
    monkeypatch.syspath_prepend(tmp_path)
    yield tmp_path
    sys.modules.pop("my_classifiers", None)


def sentence(capsys):
    lines = capsys.readouterr().err.strip().splitlines()
    assert len(lines) == 1
    assert lines[0].startswith("ars: ")
    return lines[0]


def test_without_out_the_run_goes_to_a_folder_named_after_its_cell(here, capsys):
    assert main(["train", str(here / "plain.yaml"), "--method=cohen", "--seed=2", *TINY]) == 0
    first, last = capsys.readouterr().out.splitlines()
    assert "the run goes to runs/plain-cohen-s0.3-seed2" in first
    model, command = "runs/plain-cohen-s0.3-seed2/model.safetensors", "ars certify runs/plain-cohen-s0.3-seed2"
    assert last == f"the model is in {model}; what comes next: {command}"
    assert (here / "desk/runs/plain-cohen-s0.3-seed2/model.safetensors").is_file()


@pytest.mark.parametrize("trained", [True, False])
def test_a_certification_that_is_given_anew_is_kept(here, capsys, monkeypatch, trained):
    command = ["train", str(here / "plain.yaml"), "--out=run", "--method=cohen", *TINY]
    with monkeypatch.context() as patch:
        if not trained:
            patch.setattr(
                "ars.experiments.training.save_tensors", lambda *_: (_ for _ in ()).throw(OSError("lost power"))
            )
        assert main(command) == (0 if trained else 2)
    before = read_recipe(here / "desk/run/recipe.yaml")
    capsys.readouterr()
    assert main([*command, "--certify.n_estimate=500"]) == 0
    assert "run: certify.n_estimate is 500 from now on, was 1000; a certification" in capsys.readouterr().err
    after = read_recipe(here / "desk/run/recipe.yaml")
    assert after == dataclasses.replace(before, certify=dataclasses.replace(before.certify, n_estimate=500))
    assert main([*command, "--certify.n_estimate=600", "--sigma=0.4"]) == 2
    assert f"holds a run of another recipe (sigma is {before.sigma} there, 0.4 here); choose" in sentence(capsys)
    assert read_recipe(here / "desk/run/recipe.yaml") == after


@pytest.mark.parametrize(
    ("keys", "told"),
    [
        (["--certify.examples=301"], "300 test images at every=1, so 301 are too many; set certify.examples to 300 or "
         "fewer (--examples of ars certify)\n"),
        (["--certify.every=200"], "2 test images at every=200, so 100 are too many; set certify.examples to 2 or "
         "fewer (--examples of ars certify), or certify.every to 3 or less (--every)\n"),
    ],
)  # fmt: skip
def test_more_images_to_certify_than_there_are_are_refused_before_training(here, capsys, keys, told):
    command = ["train", str(here / "plain.yaml"), "--out=run", "--method=cohen", *TINY]
    assert main([*command, *keys]) == 2
    assert capsys.readouterr().err == f"ars: digits on photographs has {told}"
    assert not (here / "desk/run").exists()
    assert main([*command, "--certify.every=3"]) == 0
    before = (here / "desk/run/recipe.yaml").read_bytes()
    capsys.readouterr()
    assert main([*command, *keys]) == 2
    assert capsys.readouterr().err == f"ars: digits on photographs has {told}"
    assert (here / "desk/run/recipe.yaml").read_bytes() == before


def test_k_is_short_for_the_size_and_is_part_of_the_usual_name(here, capsys):
    for number in range(40):
        for name in ("cat", "dog"):
            path = here / "photos" / name / f"{number}.png"
            path.parent.mkdir(parents=True, exist_ok=True)
            Image.new("RGB", (20, 20), (6 * number, 5 * number, 4 * number)).save(path)
    photos = ["--data.kind=folder", f"--data.root={here / 'photos'}", "--data.workers=0", "--train.batch_size=8"]
    small = [it for it in TINY if "passes" not in it and "batch" not in it]
    assert main(["train", str(here / "plain.yaml"), "--k", "16", "--sigma", "0.5", *photos, *small]) == 0
    folder = here / "desk" / "runs" / "plain-adaptive-k16-s0.5-seed0"
    assert yaml.safe_load((folder / "recipe.yaml").read_text())["data"]["size"] == 16
    capsys.readouterr()
    assert main(["train", str(here / "plain.yaml"), "--out=x", "--k", "20", *photos, *small]) == 2
    said = sentence(capsys)
    assert "cannot take the photos images of shape [3, 20, 20]" in said
    assert "divisible by 8 and at least 16" in said
    assert not (here / "desk" / "x").exists()


@pytest.mark.parametrize(
    ("content", "options", "words"),
    [
        ("sigmaa: 1.0", [], "sigmaa"),
        ("train: {mask_shedule: null}", [], "mask_shedule"),
        ("", ["--share", "0"], "share must lie strictly between 0 and 1"),
        ("", ["--share", "1.2"], "share must lie strictly between 0 and 1"),
        ("", ["--k", "64"], "data.kind digits has no key 'size'; it has seed, passes; its inputs have one size"),
        ("data: {kind: cifar_backgrounds}", ["--k", "16"], "need k >= 32, got k = 16"),
        ("data: {kind: cifar_backgrounds, padding: 4}", ["--k", "64"], "images have random places already"),
        ("data: {kind: cifar_backgrounds}", [], "the CIFAR-10 batches were looked for"),
        ("data: {kind: celeba, root: nowhere}", [], "/desk/nowhere, where nothing is"),
        ("", ["--classifier", "my_classifiers:make", "--weights", "no.safetensors"], "no.safetensors, where no file"),
        ("", ["--classifier", "no_such_package:make", "--freeze"], "cannot import no_such_package"),
        ("", ["--classifier", "my_classifiers"], "--classifier must look like package.module:attribute"),
        ("", ["--classifier", "my_classifiers:make", "--freeze", "--method", "cohen"], "there is nothing to train"),
        ("", ["--freeze"], "classifier.freeze needs a classifier that is trained already"),
        ("", ["--classifier.from_run", "nowhere", "--freeze"], "classifier.from_run names nowhere"),
        ("", ["--train.mask_only_epochs", "1", "--method", "cohen"], "has no mask to train alone"),
        ("", ["--train.batch_size", "100000"], "is above the"),
    ],
)  # fmt: skip
def test_what_cannot_be_trained_is_refused_before_the_first_step(here, content, options, words, capsys):
    path = here / "recipe.yaml"
    path.write_text(content or "sigma: 0.5")
    assert main(["train", str(path), "--out=run", "--device=cpu", *options]) == 2
    assert words in sentence(capsys)
    assert list((here / "desk").iterdir()) == []


def test_a_mask_around_a_classifier_of_ones_own_is_trained_and_certified(here, capsys):
    import my_classifiers

    weights = {name: tensor.clone() for name, tensor in my_classifiers.make().state_dict().items()}
    save_file(weights, here / "my.safetensors")
    own = ["--classifier", "my_classifiers:make"]
    assert main(["train", "--out=run", *TINY, *own, "--freeze", "--weights", str(here / "my.safetensors")]) == 0
    assert "next: ars certify run --classifier my_classifiers:make\n" in capsys.readouterr().out
    from ars.training.checkpoint import load_tensors

    kept, _ = load_tensors(here / "desk" / "run" / "model.safetensors")
    assert all(torch.equal(kept[f"classifier.{name}"], tensor) for name, tensor in weights.items())
    capsys.readouterr()
    assert main(["certify", "run", *FEW]) == 2
    assert "give --classifier my_classifiers:make again" in sentence(capsys)
    assert not (here / "desk" / "run" / "certify").exists()
    assert main(["certify", "run", *FEW, *own]) == 0
    assert "ARS" in capsys.readouterr().out
    assert main(["certify", "--model=my_classifiers:make", *own]) == 2
    assert "leave --model out" in sentence(capsys)
    Image.new("RGB", (24, 24)).save(here / "a.png")
    assert main(["predict", "run", str(here / "a.png"), *FEW[1:], *own]) == 0
    vote = ["vote", "run", "--draws=1", "--device=cpu"]
    capsys.readouterr()
    assert main(vote) == 2
    assert "give --classifier my_classifiers:make again" in sentence(capsys)
    assert main([*vote, *own]) == 0
    assert "of 300 test images" in capsys.readouterr().out


def test_another_network_than_the_run_was_trained_around_is_told_as_that(here, capsys):
    (here / "my_classifiers.py").write_text(f"{OWN}\nfive = nn.Sequential(nn.Flatten(), nn.Linear(3 * 24 * 24, 5))\n")
    assert main(["train", "--out=run", "--classifier=my_classifiers:make", *TINY]) == 0
    capsys.readouterr()
    for command in (["certify", "run", *FEW], ["vote", "run", "--device=cpu"]):
        assert main([*command, "--classifier=my_classifiers:five"]) == 2
        told = sentence(capsys)
        assert "--classifier my_classifiers:five is another network than run was trained around: " in told
        assert told.endswith("; give --classifier my_classifiers:make, its code as it was then")


def test_a_folder_of_another_model_is_told_as_that(here, capsys):
    (here / "my_classifiers.py").write_text(f"{OWN}\nplain = make()\n")
    own = ["--model=my_classifiers:plain", "--sigma=0.5", "--data=digits", "--out=own"]
    assert main(["certify", *own, *FEW]) == 0
    before = {path: path.read_bytes() for path in (here / "desk/own").rglob("*.*")}
    capsys.readouterr()
    assert main(["train", str(here / "plain.yaml"), "--out=own", *TINY]) == 2
    told = "own holds records of another model, my_classifiers:plain, which was not trained here"
    assert sentence(capsys) == f"ars: {told}; choose another folder with --out"
    assert {path: path.read_bytes() for path in (here / "desk/own").rglob("*.*")} == before


def test_a_training_that_has_not_ended_is_told_as_that(here, capsys, monkeypatch):
    command = ["train", str(here / "plain.yaml"), "--out=run", "--method=cohen", *TINY]
    with monkeypatch.context() as patch:
        patch.setattr("ars.experiments.training._keep_model", lambda *_: (_ for _ in ()).throw(KeyboardInterrupt))
        assert main(command) == 130
    capsys.readouterr()
    checkpoint = here / "desk/run/checkpoint.safetensors"
    for after in (["certify", "run", *FEW], ["vote", "run", "--device=cpu"]):
        assert main(after) == 2
        told = "the training of run has not ended: there is no model.safetensors"
        assert sentence(capsys) == f"ars: {told}; run the same ars train (or ars sweep) again"
        checkpoint.touch()  # with one or without
    checkpoint.unlink()
    assert main(command) == 0
    assert main(["certify", "run", *FEW]) == 0


def test_mask_only_epochs_around_an_untrained_classifier_are_pointed_out(here, capsys):
    few = [it for it in TINY if "steps" not in it]
    assert main(["train", "--out=run", *few, "--train.max_steps=1", "--train.mask_only_epochs=1"]) == 0
    assert "fit the mask to an untrained classifier" in capsys.readouterr().err


def test_mask_only_epochs_after_a_start_are_not_pointed_out():
    few = ["--data.kind=cifar_backgrounds", "--data.size=64", "--train.mask_only_epochs=1"]
    assert list(doubts(read_recipe(None, few)))
    assert not list(doubts(read_recipe(None, [*few, "--start.epochs=1"])))


def test_a_classifier_of_another_noise_is_pointed_out(here, capsys):
    assert main(["train", "--out=cohen", *TINY, "--method=cohen", "--sigma=0.25"]) == 0
    around = ["--classifier.from_run=cohen", "--freeze"]
    capsys.readouterr()
    assert main(["train", "--out=same", *TINY, *around, "--sigma=0.25"]) == 0
    assert "was trained at" not in capsys.readouterr().err
    assert main(["train", "--out=other", *TINY, *around, "--sigma=1.5"]) == 0
    assert "the classifier of cohen was trained at sigma = 0.25 and gets 1.5 here" in capsys.readouterr().err


def test_a_classifier_of_a_run_that_was_not_trained_to_the_end_is_pointed_out(here, capsys, monkeypatch):
    monkeypatch.setattr("ars.cli.train.train_with_progress", lambda *arguments: None)
    for name in ("checkpoint", "model"):
        (here / name).mkdir()
        (here / name / f"{name}.safetensors").touch()
        assert main(["train", "--out=run", f"--classifier.from_run={here / name}"]) == 0
        assert ("is that of its last checkpoint" in capsys.readouterr().err) == (name == "checkpoint")


def test_a_trial_of_a_few_steps_says_what_came_of_it(here, capsys):
    assert main(["train", "--out=run", *TINY]) == 0
    assert "run: epoch 1 of 7, ended after 1 step: loss" in capsys.readouterr().err
    assert '"validation_accuracy": ' in (here / "desk" / "run" / "train.jsonl").read_text()


def test_an_epoch_goes_to_tensorboard_where_that_is_installed(here, monkeypatch):
    written = []
    monkeypatch.setattr("ars.experiments.tensorboard.scalars", lambda folder: nullcontext(written.append))
    assert main(["train", "--out=run", *TINY]) == 0
    assert [(at.epoch, at.steps) for at in written] == [(1, 1)]


def test_the_device_that_was_asked_for_is_trained_on_by_each_rank_its_own(here, capsys, monkeypatch):
    monkeypatch.setattr("ars.experiments.device.choose_device", lambda *what: told(f"{what} was chosen"))
    assert main(["train", "--out=run", *TINY[:-1], "--device=cuda:1"]) == 2
    assert sentence(capsys) == "ars: ('cuda:1', None) was chosen"
    for name, value in (("WORLD_SIZE", "4"), ("RANK", "3"), ("LOCAL_RANK", "1")):
        monkeypatch.setenv(name, value)
    assert main(["train", "--out=run", *TINY[:-1], "--device=cuda"]) == 2
    assert capsys.readouterr().err == "ars (rank 3 of 4): ('cuda', 1) was chosen\n"


def told(words):
    raise ValueError(words)


def test_a_full_memory_is_one_sentence_with_the_settings_that_help(here, capsys, monkeypatch):
    def full(*arguments, **options):
        raise torch.OutOfMemoryError("CUDA out of memory.\nTried to allocate 20.00 GiB")

    monkeypatch.setattr("ars.training.loop.Trainer._train_step", full)
    assert main(["train", "--out=run", *TINY]) == 2
    said = sentence(capsys)
    assert "the memory of cpu is full; raise train.accumulate, which is 1, or lower train.batch_size" in said


def test_of_several_processes_only_the_first_says_where_the_run_goes(here, capsys, monkeypatch):
    monkeypatch.setattr("ars.cli.train.train_with_progress", lambda *arguments: None)
    monkeypatch.setenv("WORLD_SIZE", "2")
    for rank in ("0", "1"):
        monkeypatch.setenv("RANK", rank)
        assert main(["train", str(here / "plain.yaml"), "--train.mask_only_epochs=1"]) == 0
        said = capsys.readouterr()
        assert ("the run goes to" in said.out, "untrained" in said.err) == (rank == "0", rank == "0")
        assert ("the model is in" in said.out) == (rank == "0")
