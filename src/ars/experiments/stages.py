"""One draw taken apart, for the report's pipeline figure, and masks as pictures."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import torch
from jaxtyping import Float
from PIL import Image
from torch import Tensor

from ars.certification.run_folder import STAGES
from ars.certification.shards import Layout
from ars.certification.writing import whole
from ars.data.images import write_picture
from ars.experiments.certifying.request import Request
from ars.experiments.taking_apart import take_apart
from ars.smoothing import SmoothedClassifier

MASK_DRAWS = 100


def save_stages(request: Request, *, device: torch.device, images: int) -> Path:
    """Save one draw of the pipeline for the first images of the subset, beside their records."""
    benchmark, model = request.load(device)
    settings = request.settings_for(benchmark.size("test"))
    indices = list(Layout(settings.examples, settings.every).indices[:images])
    x, labels = (part.to(device) for part in benchmark.examples("test", indices))
    arrays = {"index": np.array(indices), "truth": labels.cpu().numpy(), **take_apart(model, x, seed=settings.seed)}
    path = request.records / STAGES
    with whole(path) as temporary, temporary.open("wb") as file:  # to a path, numpy would add .npz
        np.savez_compressed(file, allow_pickle=False, **arrays)
    return path


def average_masks(model: SmoothedClassifier, image: Float[Tensor, "c h w"], *, seed: int) -> list[Float[Tensor, "h w"]]:
    """The mask of every masked step, averaged over draws and channels; none where the model has no mask."""
    batch = image.expand(MASK_DRAWS, *image.shape)
    releases, _ = model.stages(batch, torch.Generator(image.device).manual_seed(seed))
    weights = [release.weight for release in releases if release.weight.shape[-2:] == image.shape[-2:]]
    return [weight.float().mean(dim=(0, 1)).cpu() for weight in weights]


def save_masks(masks: Sequence[Float[Tensor, "h w"]], paths: Sequence[Path]) -> None:
    """Save masks as grey pictures: black hides a pixel (0), white keeps it (1)."""
    for mask, path in zip(masks, paths, strict=True):
        write_picture(Image.fromarray((255 * mask).round().to(torch.uint8).numpy()), path)
