"""How a model does on held-out images after an epoch."""

import math
from collections.abc import Sequence
from itertools import islice

import torch

from ars.certification.sampling import Precision, autocast
from ars.data.benchmark import Benchmark
from ars.smoothing import SmoothedClassifier
from ars.smoothing.masked import masks_checked_at_the_end
from ars.smoothing.mechanism import Release

IMAGES = 1000


@torch.no_grad()
def validate(
    model: SmoothedClassifier,
    benchmark: Benchmark,
    generator: torch.Generator,
    *,
    batch_size: int,
    precision: Precision,
) -> tuple[float, float]:
    """Accuracy and mean squared mask on held-out images, one draw each, on the generator's device.

    Both are NaN where the mask is: the last update is in no loss yet. Whatever else is wrong with a mask is raised.
    """
    model, device = model.eval(), generator.device
    indices = iter(range(min(IMAGES, benchmark.size("validation"))))
    correct, openness, seen = 0.0, 0.0, 0
    while batch := list(islice(indices, batch_size)):
        images, labels = (part.to(device) for part in benchmark.examples("validation", batch))
        releases: Sequence[Release] = ()
        with autocast(device, precision):
            try:
                with masks_checked_at_the_end():  # so that they are there to look at
                    releases = model.mechanism.release(images, generator)
            except ValueError:
                if any(bool(release.weight.isnan().any()) for release in releases):
                    return math.nan, math.nan
                raise
            logits = model.classifier(model.combine(releases))
        correct += float((logits.argmax(dim=1) == labels).sum())
        openness += float(releases[-1].weight.square().mean()) * len(batch)
        seen += len(batch)
    return correct / seen, openness / seen
