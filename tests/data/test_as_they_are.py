"""Grey and oblong images of a folder, and what training shows of them."""

import dataclasses

import numpy as np
import pytest
import torch
from PIL import Image
from scipy.stats import norm

import ars
from ars.cli.main import main
from ars.data.benchmark import open_benchmark
from ars.data.folder import folder
from ars.data.settings import LATER, Data
from ars.recipes.recipe import Recipe, Start
from ars.report.grouping import same_training
from ars.runs.run import Inputs, load_runs


@pytest.fixture
def scans(tmp_path):
    """Grey images [10, 14] of two classes, for testing only and for all parts."""
    random = np.random.default_rng(0)
    for number in range(30):
        for name in ("a", "b"):
            path = tmp_path / "scans" / name / f"{number}.png"
            path.parent.mkdir(parents=True, exist_ok=True)
            light = random.normal(90 if name == "a" else 160, 40, (10, 14)).clip(0, 255)
            Image.fromarray(light.astype(np.uint8)).save(path)
    return tmp_path / "scans"


def of_files(benchmark, part, root):
    names = [name.decode() for name in benchmark._pictures.names[part].tolist()]
    return torch.stack([torch.from_numpy(np.array(Image.open(root / name))) for name in names])[:, None]


def test_grey_and_oblong_images_of_the_size_are_left_as_they_are(scans):
    benchmark = folder(root=str(scans), size=10, width=14, channels=1, workers=0)
    assert benchmark.shape == (1, 10, 14)
    images, _ = benchmark.examples("test", range(benchmark.size("test")))
    assert torch.equal((255 * images).round().byte(), of_files(benchmark, "test", scans))


def test_larger_images_cover_the_input_and_keep_their_proportions(scans):
    benchmark = folder(root=str(scans), size=5, width=6, channels=1, workers=0)
    images, _ = benchmark.examples("test", [0])
    whole = Image.fromarray(of_files(benchmark, "test", scans)[0, 0].numpy())
    expected = np.array(whole.resize((6, 5), Image.Resampling.BILINEAR, box=(1, 0, 13, 10)))
    assert np.array_equal((255 * images[0, 0]).round().byte().numpy(), expected)


@pytest.mark.parametrize(("augment", "kinds"), [("none", 1), ("flip", 2), ("crop", 15)])
def test_training_shows_what_augment_says(scans, augment, kinds):
    """The probability that none of 20 views of an image is mirrored, or all are, is 2^-19."""
    benchmark = folder(root=str(scans), size=10, width=14, channels=1, augment=augment, workers=0)
    [original] = of_files(benchmark, "train", scans)[:1]
    views = [benchmark._pictures.view("train", 0, (0, epoch, 0)) for epoch in range(20)]
    found = len({view.tobytes() for view in views})
    assert found >= kinds if augment == "crop" else found == kinds
    own = {original.numpy().tobytes(), np.ascontiguousarray(original.flip(2).numpy()).tobytes()}
    if augment != "crop":
        assert {view.tobytes() for view in views} <= own
    batch, _ = next(benchmark.train_batches(0, seed=0, batch_size=4))
    assert batch.shape == (4, 1, 10, 14)


def test_later_keys_count_and_are_written_only_where_they_differ():
    plain = Recipe(data=Data("folder", root="photos"))
    assert not LATER.keys() & plain.resolved()["data"].keys()
    given = dataclasses.replace(plain, data=Data("folder", root="photos", **{**LATER, "width": None}))
    assert (given.identity, given.to_yaml()) == (plain.identity, plain.to_yaml())
    assert plain.identity == "ee964a8713e13aff"  # of the version before them
    others = [dataclasses.replace(plain, data=dataclasses.replace(plain.data, **change))
              for change in ({"channels": 1}, {"width": 32}, {"augment": "none"})]  # fmt: skip
    assert len({recipe.identity for recipe in [plain, *others]}) == 4
    for other in others:
        assert not same_training(plain.resolved(), other.resolved())
    inputs = [Inputs(recipe.resolved()["data"]) for recipe in (plain, *others)]
    assert [inputs[0].same(other) for other in inputs] == [True, False, False, True]  # augment changes no test image


def test_a_start_on_squares_does_not_go_with_oblong_images():
    with pytest.raises(ValueError, match="square"):
        Recipe(data=Data("folder", root="photos", size=64, width=96), start=Start(size=32))


@pytest.mark.parametrize("key", [{"channels": 1}, {"width": 9}, {"augment": "none"}])
def test_images_on_backgrounds_have_none_of_these_keys(key):
    with pytest.raises(ValueError, match=f"data.{next(iter(key))}"):
        Data("folder", root="a", backgrounds="b", pasted=8, **key)
    with pytest.raises(ValueError, match="has no key"):
        Data("digits", **key)


NETWORK = """
import torch

class Bright(torch.nn.Module):
    def forward(self, x):
        assert x.shape[1:] == (1, 10, 14), x.shape
        light = 10 * (x.mean((1, 2, 3)) - 0.5)
        return torch.stack([-light, light], 1)

bright = Bright()
"""


def test_a_grey_l2_certificate_of_the_command_line_is_that_of_python(scans, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    (tmp_path / "bright_grey.py").write_text(NETWORK)
    keys = ["--data.size=10", "--data.width=14", "--data.channels=1"]
    how = ["--norm=l2", "--n-estimate=200", "--n-select=20", "--seed=5", "--precision=float32", "--device=cpu"]
    model = ["--model=bright_grey:bright", "--sigma=0.5", "--data=folder:scans"]
    assert main(["certify", *model, *keys, *how, "--out=runs/grey"]) == 0
    [run] = load_runs([tmp_path / "runs" / "grey"])
    import bright_grey

    model = ars.cohen(bright_grey.bright, sigma=0.5)
    data = Data("folder", root="scans", size=10, width=14, channels=1, workers=0)
    images, labels = open_benchmark(data).examples("test", range(len(run.records)))
    alone = ars.certify(model, images, norm="l2", n_select=20, n_estimate=200, seed=5)
    pairs = [((255 * image[0]).round().byte().numpy(), label) for image, label in zip(images, labels, strict=True)]
    same = ars.evaluate(model, pairs, norm="l2", n_select=20, n_estimate=200, seed=5, precision="float32", device="cpu")
    for record, one, other in zip(run.records, alone, same.records, strict=True):
        assert record.certificate == one == other.certificate
        assert one.dim == 140
        assert one.radius == pytest.approx(max(0.0, 0.5 * norm.ppf(one.p_lower)), rel=1e-9)
    capsys.readouterr()
    image = next((tmp_path / "scans" / "b").glob("*.png"))
    assert main(["predict", "runs/grey", "--model=bright_grey:bright", str(image), "--norm=l2", "--json"]) == 0
    assert '"seen": [10, 14]' in capsys.readouterr().out


@pytest.mark.slow
def test_a_method_with_a_mask_is_trained_on_grey_images(scans, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    keys = ["--data.root=scans", "--data.size=10", "--data.width=14", "--data.channels=1", "--data.augment=none"]
    tiny = ["--train.epochs=1", "--train.batch_size=16", "--mask.width=2", "--classifier.name=small_cnn",
             "--classifier.width=4", "--data.workers=0",
            "--certify.n_estimate=50", "--certify.n_select=10"]  # fmt: skip
    assert main(["train", "folder", *keys, *tiny, "--device=cpu", "--out=runs/grey"]) == 0
    assert main(["certify", "runs/grey", "--examples=2", "--device=cpu"]) == 0
    assert load_runs([tmp_path / "runs" / "grey"])[0].shape == (1, 10, 14)
