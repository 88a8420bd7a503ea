"""From a model and a dataset of any kind to records, a table and a curve."""

import numpy as np
import pytest
import torch
from PIL import Image
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

import ars
from ars.adapters import Adapted
from ars.cli.main import main
from ars.data.settings import DataError
from ars.recipes.recipe import RecipeError
from ars.runs.run import load_runs

FEW = {"n_select": 20, "n_estimate": 100, "device": "cpu", "precision": "float32", "seed": 3}


class Bright(nn.Module):
    """Class 1 where an image of any number of channels is bright."""

    def forward(self, x):
        score = 10 * (x.mean(dim=(1, 2, 3)) - 0.5)
        return torch.stack([-score, score], dim=1)


@pytest.fixture
def model():
    return ars.cohen(Bright(), sigma=0.5)


def pixels(channels=3, count=6):
    """Images of bytes [n, h, w, c], dark and bright ones in turn, and their labels."""
    random = np.random.default_rng(0)
    labels = np.arange(count) % 2
    light = np.where(labels, 170, 80)[:, None, None, None]
    return (light + random.integers(-60, 60, (count, 8, 8, channels))).astype(np.uint8), labels


class Pictures:
    """A dataset that yields pictures of Pillow."""

    classes = ("dark", "bright")

    def __init__(self, grey=False):
        self.images, self.labels = pixels(1 if grey else 3)

    def __len__(self):
        return len(self.labels)

    def __getitem__(self, index):
        return Image.fromarray(self.images[index].squeeze()), int(self.labels[index])


class Names:
    names = ("dark", "bright")


class Rows(Pictures):
    """One that yields dictionaries, as those of Hugging Face do."""

    features = {"img": None, "label": Names}  # noqa: RUF012
    classes = None

    def __getitem__(self, index):
        image, label = super().__getitem__(index)
        return {"img": image, "label": label}


def floats():
    images, labels = pixels()
    return torch.from_numpy(images).permute(0, 3, 1, 2).float() * (1 / 255), torch.from_numpy(labels)


def kinds():
    images, labels = pixels()
    tensors, shares = TensorDataset(*floats()), np.moveaxis(images, -1, 1) / np.float32(255)
    return {
        "pictures": Pictures(),
        "dictionaries": Rows(),
        "tensors": tensors,
        "a loader": DataLoader(tensors, batch_size=4, shuffle=True),
        "arrays of bytes": list(zip(images, labels, strict=True)),
        "arrays of floats": list(zip(shares, labels, strict=True)),
        "tensors of bytes": TensorDataset(torch.from_numpy(images).permute(0, 3, 1, 2), torch.from_numpy(labels)),
    }  # fmt: skip


@pytest.mark.parametrize("kind", kinds())
def test_every_kind_of_dataset_gives_the_certificates_of_its_tensors(model, kind):
    found = ars.evaluate(model, kinds()[kind], norm="l2", **FEW)
    images, labels = floats()
    alone = ars.certify(model, images, norm="l2", n_select=20, n_estimate=100, seed=3)
    assert [record.certificate.counts for record in found.records] == [one.counts for one in alone]
    assert [record.certificate.radius for record in found.records] == [one.radius for one in alone]
    assert [record.truth for record in found.records] == labels.tolist()
    names = ("dark", "bright") if kind in ("pictures", "dictionaries") else ("0", "1")
    assert found.run.class_names == names


def test_the_table_and_the_curve_are_those_of_the_records(model, tmp_path):
    found = ars.evaluate(model, Pictures(), norm="l2", name="mine", title="toys", **FEW)
    radii, accuracy = found.curve()
    sure = [record.certificate.radius if record.correct else -1.0 for record in found.records]
    assert accuracy.tolist() == [np.mean([own >= radius for own in sure]) for radius in radii]
    assert radii[0] == 0
    assert found.curve([100.0])[1].tolist() == [0.0]
    assert "toys, 8×8, σ = 0.5, ℓ2" in str(found)
    assert "| mine |" in str(found)
    found.draw(tmp_path / "curve.svg")
    assert (tmp_path / "curve.svg").read_bytes().lstrip().startswith(b"<?xml")


def test_a_grey_picture_has_one_channel_and_the_radius_of_its_dimension(model, tmp_path, capsys):
    found = ars.evaluate(model, Pictures(grey=True), norm="linf", **FEW)
    assert found.run.shape == (1, 8, 8)
    [first, *_] = [record.certificate for record in found.records]
    assert first.dim == 64
    assert first.radius == model.radius(first.p_lower, 1 - first.p_lower, norm="linf", dim=64)


def test_records_in_a_folder_resume_and_are_reported(model, tmp_path, capsys):
    out, settings = tmp_path / "mine", {name: value for name, value in FEW.items() if name != "seed"}
    part = ars.evaluate(model, Pictures(), examples=2, out=out, **settings)
    whole = ars.evaluate(model, Pictures(), examples=6, out=out, **settings)
    assert whole.records[:2] == part.records  # with the seed that was drawn at first
    assert load_runs([out])[0].records == whole.records
    assert main(["report", str(out), "--out", str(tmp_path / "report")]) == 0
    assert main(["certify", str(out)]) == 2
    assert "ars.evaluate" in capsys.readouterr().err
    with pytest.raises(RecipeError, match="sigma"):
        ars.evaluate(ars.cohen(Bright(), sigma=0.25), Pictures(), out=out, **settings)


def test_a_seed_that_is_not_given_is_drawn_and_recorded(model, monkeypatch):
    monkeypatch.setattr("secrets.randbits", lambda bits: 2**bits - 5)
    settings = {**FEW, "seed": None, "examples": 1}
    assert ars.evaluate(model, Pictures(), **settings).records[0].certificate.seed == 2**32 - 5
    image = floats()[0][0]
    assert ars.certify(model, image, n_estimate=100).seed == 2**32 - 5
    assert ars.predict(model, image, n=100).seed == 2**32 - 5


def test_images_of_unequal_sizes_are_refused_with_the_way_out(model):
    data = [*Pictures(), (Image.new("RGB", (9, 8)), 0)]
    with pytest.raises(DataError, match=r"item 6 is 3x8x9.*resize"):
        ars.evaluate(model, data, **FEW)
    with pytest.raises(DataError, match=r"item 6 is 1x8x8.*convert"):
        ars.evaluate(model, [*Pictures(), (Image.new("L", (8, 8)), 0)], **FEW)


@pytest.mark.parametrize(
    ("data", "error", "says"),
    [
        ([], DataError, "empty"),
        ({"train": []}, TypeError, "one split"),
        (iter([]), TypeError, "length"),
        ([torch.rand(3, 8, 8)], DataError, "pair"),
        ([{"image": torch.rand(3, 8, 8), "class": 1}], DataError, "keys image, class"),
        ([(torch.rand(3, 8, 8) - 0.5, 0)], DataError, "item 0.*before any normalisation"),
        ([(torch.rand(3, 8, 8), torch.tensor([0.0, 1.0]))], DataError, "whole number"),
        ([(torch.rand(3, 8, 8), 2)], DataError, "item 0 has label 2"),
    ],
)
def test_what_is_no_dataset_of_images_is_refused(model, data, error, says):
    with pytest.raises(error, match=says):
        ars.evaluate(model, data, **FEW)


def test_the_model_is_not_changed(model):
    model.train()
    ars.evaluate(model, Pictures(), examples=1, **FEW)
    assert model.training
    assert model.classifier.training


def test_the_classes_of_an_adapted_model_are_those_of_the_dataset(model):
    adapted = Adapted(Bright(), mean=[0.0], std=[1.0], class_names=["bright", "dark"])
    found = ars.evaluate(ars.cohen(adapted, sigma=0.5), Pictures(grey=True), **FEW)
    usual = ars.evaluate(model, Pictures(grey=True), **FEW)
    flipped = [record.certificate.counts[::-1] for record in found.records]
    assert flipped == [record.certificate.counts for record in usual.records]
