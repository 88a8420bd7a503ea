"""Test images that were changed look otherwise; those that another decoder has made do not."""

import pytest
import torch
from torch.nn import functional

from ars.certification.seen_images import difference
from ars.data.digits import DigitsOnPhotographs
from ars.experiments.looking import how_they_look, look_at


def blurred(images):
    return functional.avg_pool2d(images, 5, stride=1, padding=2, count_include_pad=False)


def flattened(images):
    """Each quarter in its mean colour: all halves are as bright as before."""
    return functional.interpolate(functional.avg_pool2d(images, 12), scale_factor=12)


@pytest.mark.parametrize(
    "change",
    [
        lambda images: images.flip(-1),
        lambda images: images.flip(-2),
        lambda images: images.transpose(-1, -2),
        lambda images: images.roll(1, 0),
        lambda images: (images + 0.02).clamp(0, 1),
        blurred,
        flattened,
        lambda images: (images + 0.2 * torch.randn(images.shape, generator=torch.Generator())).clamp(0, 1),
    ],
    ids=["mirrored", "upside down", "turned", "in another order", "brighter", "blurred", "flattened", "noisy"],
)
def test_changed_images_look_otherwise(change):
    digits = DigitsOnPhotographs()
    images = look_at(digits)
    assert (
        difference(how_they_look(digits, images), how_they_look(digits, change(images))) == "of 300 some have changed"
    )


def test_the_roundings_of_another_decoder_are_passed_over():
    digits = DigitsOnPhotographs()
    images = look_at(digits)
    other = (images + torch.randint(-1, 2, images.shape, generator=torch.Generator()) / 255).clamp(0, 1)
    assert difference(how_they_look(digits, images), how_they_look(digits, other)) is None


def test_an_image_of_one_pixel_looks_like_itself():
    look = how_they_look(DigitsOnPhotographs(), torch.rand(3, 3, 1, 1))
    assert difference(look, look) is None
