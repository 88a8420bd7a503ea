import dataclasses
import shutil
import zipfile

import numpy as np
import pytest
import torch

from ars.smoothing import Release
from ars.workflows import stages
from ars.workflows.load import load_run
from ars.workflows.request import Request
from ars.workflows.stages import MASK_DRAWS, average_masks, save_average_masks, save_stages

from ..conftest import CPU, TINY


@pytest.fixture
def masks(run):
    """The arrays of masks.npz for settings that differ from the usual ones."""

    def save(**changes):
        save_average_masks(run, dataclasses.replace(TINY.certify, **changes), device=CPU)
        with np.load(run / "masks.npz") as arrays:
            return dict(arrays)

    return save


def test_stages_show_the_pipeline_of_the_certified_images(trained):
    with np.load(trained / "certify" / "test" / "stages.npz", allow_pickle=False) as arrays:
        assert arrays["index"].tolist() == [0, 1, 2]
        assert arrays["input"].shape == (3, 3, 24, 24)
        mask = arrays["weight_2"]
        assert mask.shape == (3, 1, 24, 24)
        assert np.allclose(arrays["masked_2"], mask * arrays["input"])
        assert np.all(arrays["weight_1"] == 1)
        # the average is the inverse-variance weighting of both releases
        s1, s2 = TINY.sigma * 2**0.5, TINY.sigma * 2**0.5 * np.sqrt((mask**2).mean(axis=(1, 2, 3), keepdims=True))
        expected = (arrays["value_1"] / s1**2 + mask * arrays["value_2"] / s2**2) / (1 / s1**2 + mask**2 / s2**2)
        assert np.allclose(arrays["average"], expected, atol=1e-4)


def test_stages_have_the_noise_of_the_certifications_seed_and_no_more_images_than_it(trained, tmp_path):
    run = shutil.copytree(trained, tmp_path / "run")
    path = save_stages(Request(run, dataclasses.replace(TINY.certify, seed=5, every=2)), device=CPU, images=100)
    _, benchmark, model = load_run(run, CPU)
    images, _ = benchmark.examples("test", range(0, 12, 2))
    _, average = model.stages(images, torch.Generator().manual_seed(5))
    with np.load(path) as arrays:
        assert arrays["index"].tolist() == [0, 2, 4, 6, 8, 10]
        assert np.array_equal(arrays["average"], average.detach().numpy())


def test_a_model_without_a_mask_has_none():
    class Plain:
        def stages(self, images, generator):
            one = torch.ones(1, 1, 1, 1)
            return [Release(images, one, one)], images

    assert average_masks(Plain(), torch.rand(3, 24, 24), seed=0) == []


def test_masks_are_bytes_with_the_place_of_the_object(masks, run):
    arrays = masks()
    with zipfile.ZipFile(run / "masks.npz") as archive:
        assert {info.date_time for info in archive.infolist()} == {(1980, 1, 1, 0, 0, 0)}  # the same bytes each time
    assert set(arrays) == {"masks", "largest", "indices", "box"}
    assert (arrays["masks"].shape, arrays["masks"].dtype) == ((6, 24, 24), np.uint8)
    assert arrays["indices"].tolist() == list(range(6))
    assert arrays["masks"].max(axis=(1, 2)).tolist() == 6 * [255]
    assert (arrays["largest"].shape, arrays["box"].shape) == ((6,), (6, 4))
    assert np.all((arrays["largest"] > 0) & (arrays["largest"] <= 1))


def test_masks_are_of_the_certified_images_with_the_noise_of_their_seed(masks):
    assert masks(every=3)["indices"].tolist() == [0, 3, 6, 9, 12, 15]
    one, same, other = (masks(seed=seed)["largest"].tolist() for seed in (5, 5, 6))
    assert one == same != other


def test_a_mask_is_the_mean_over_its_draws_and_channels(masks, run, monkeypatch):
    recipe, benchmark, _ = load_run(run, CPU)
    drawn = []

    class Random:
        def stages(self, images, generator):
            drawn.append(torch.rand(images.shape, generator=generator))
            std = torch.ones(1, 1, 1, 1)
            return [Release(images, std, std), Release(images, drawn[0], std)], images

    monkeypatch.setattr(stages, "load_run", lambda *_, **options: (recipe, benchmark, Random()))
    arrays = masks()
    [weights] = drawn
    assert len(weights) == 6 * MASK_DRAWS
    for image in range(6):
        mean = weights[image * MASK_DRAWS : (image + 1) * MASK_DRAWS].numpy().mean(axis=(0, 1))
        assert arrays["largest"][image] == pytest.approx(mean.max(), rel=1e-5)
        assert np.abs(arrays["masks"][image] - 255 * mean / mean.max()).max() < 0.51
