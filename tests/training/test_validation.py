import pytest
import torch

from ars.experiments.build import build_model
from ars.training.validation import IMAGES, validate

from .conftest import RECIPE


@pytest.mark.parametrize("batch_size", [64, 10_000])
def test_every_validation_image_counts_alike_and_is_answered_as_certification_will(digits, batch_size):
    """In eval mode; against the answers and the masks of all images, one after another."""
    model, size = build_model(RECIPE, digits, torch.device("cpu")).train(), digits.size("validation")
    assert size <= IMAGES
    assert size % 64
    seen = validate(model, digits, torch.Generator().manual_seed(3), batch_size=batch_size, precision="float32")
    images, labels = digits.examples("validation", range(size))
    generator, right, squares = torch.Generator().manual_seed(3), [], []
    with torch.no_grad():
        for some, answers in zip(images.split(batch_size), labels.split(batch_size), strict=True):
            releases, average = model.eval().stages(some, generator)
            right += (model.classifier(average).argmax(dim=1) == answers).tolist()
            squares += releases[-1].weight.square().mean(dim=(1, 2, 3)).tolist()
    assert seen == (sum(right) / size, pytest.approx(sum(squares) / size, rel=1e-5))
