import math
import warnings

import pytest
import torch

from ars.smoothing.images import as_batch


def test_an_image_becomes_a_batch_of_one_and_a_batch_stays():
    image = torch.rand(3, 4, 5)
    assert torch.equal(as_batch(image), image[None])
    assert torch.equal(as_batch(image[None]), image[None])


@pytest.mark.parametrize("dtype", [torch.float64, torch.float16, torch.bfloat16])
def test_any_floating_point_image_is_carried_to_float32(dtype):
    assert as_batch(torch.ones(3, 4, 4, dtype=dtype)).dtype == torch.float32


def test_an_image_that_wants_a_gradient_is_one_without_a_warning():
    image = torch.rand(3, 4, 4, requires_grad=True)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        batch = as_batch(image)
    assert torch.equal(batch[0], image)
    assert not batch.requires_grad
    assert image.requires_grad


def test_black_and_white_are_images():
    assert as_batch(torch.tensor([0.0, 1.0]).view(1, 1, 2)).shape == (1, 1, 1, 2)


@pytest.mark.parametrize("bad", [-1e-6, 1.0001, math.nan, math.inf, -math.inf, 255.0])
def test_one_value_outside_zero_one_is_refused(bad):
    image = torch.rand(3, 4, 4)
    image[1, 2, 3] = bad
    with pytest.raises(ValueError, match=r"images must lie in \[0, 1\]"):
        as_batch(image)


@pytest.mark.parametrize("dtype", [torch.uint8, torch.int64, torch.bool])
def test_integer_images_are_refused_with_what_to_do(dtype):
    with pytest.raises(ValueError, match="divide 8-bit images by 255"):
        as_batch(torch.ones(3, 4, 4).to(dtype))


@pytest.mark.parametrize("shape", [(4, 4), (4,), (1, 1, 3, 4, 4)])
def test_a_shape_that_is_no_image_is_refused(shape):
    with pytest.raises(ValueError, match="expected an image"):
        as_batch(torch.zeros(shape))


@pytest.mark.parametrize("shape", [(0, 3, 4, 4), (3, 0, 4)])
def test_no_image_at_all_is_refused(shape):
    with pytest.raises(ValueError, match="empty"):
        as_batch(torch.zeros(shape))
