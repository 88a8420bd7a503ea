"""The stages of one draw as arrays, and masks as arrays or greyscale pictures; pictures.py draws the figures."""

import io
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from jaxtyping import Float
from numpy.typing import NDArray
from PIL import Image
from torch import Tensor

from ars.atomic import whole, write_whole
from ars.certification.settings import CertifySettings
from ars.data.benchmark import Opener, open_benchmark
from ars.data.image_files import write_picture
from ars.runs.paths import MASK_DRAWS, MASKS, STAGES
from ars.runs.shards import Layout
from ars.smoothing import SmoothedClassifier
from ars.workflows.load import load_run
from ars.workflows.request import Request

IMAGES = 8
PICTURE_DRAWS = 100


def take_apart(model: SmoothedClassifier, x: Float[Tensor, "b c h w"], *, seed: int) -> dict[str, NDArray[Any]]:
    """The stages of one draw per image: input, every step's release and mask, and the image the classifier sees."""
    releases, average = model.stages(x, torch.Generator(x.device).manual_seed(seed))
    tensors = {"input": x, "average": average}
    for number, release in enumerate(releases, start=1):
        weight = release.weight.expand(len(x), -1, *x.shape[2:])
        tensors |= {f"value_{number}": release.value, f"weight_{number}": weight, f"masked_{number}": weight * x}
    return {name: tensor.cpu().numpy() for name, tensor in tensors.items()}


def save_stages(request: Request, *, device: torch.device, images: int) -> Path:
    """Save one draw of the pipeline for the first images of the subset, beside their records."""
    benchmark, model = request.load(device)
    settings = request.settings_for(benchmark.size("test"))
    indices = list(Layout(settings.examples, settings.every).indices[:images])
    x, labels = (part.to(device) for part in benchmark.examples("test", indices))
    arrays = {"index": np.array(indices), "truth": labels.cpu().numpy(), **take_apart(model, x, seed=settings.seed)}
    path = request.records / STAGES
    with whole(path) as temporary, temporary.open("wb") as file:  # given a path, numpy would append .npz
        np.savez_compressed(file, allow_pickle=False, **arrays)
    return path


def average_masks(model: SmoothedClassifier, image: Float[Tensor, "c h w"], *, seed: int) -> list[Float[Tensor, "h w"]]:
    """The mask of every masked step, averaged over draws and channels; empty if the model has no mask."""
    batch = image.expand(PICTURE_DRAWS, *image.shape)
    releases, _ = model.stages(batch, torch.Generator(image.device).manual_seed(seed))
    weights = [release.weight for release in releases if release.weight.shape[-2:] == image.shape[-2:]]
    return [weight.float().mean(dim=(0, 1)).cpu() for weight in weights]


def save_masks(masks: Sequence[Float[Tensor, "h w"]], paths: Sequence[Path]) -> None:
    """Save masks as greyscale pictures: black hides a pixel (0), white keeps it (1)."""
    for mask, path in zip(masks, paths, strict=True):
        write_picture(Image.fromarray((255 * mask).round().to(torch.uint8).numpy()), path)


@torch.inference_mode()
def save_average_masks(
    folder: Path, settings: CertifySettings, *, device: torch.device, open_data: Opener = open_benchmark
) -> None:
    """Save masks.npz of a run: for the first certified images, the last step's mask averaged over draws.

    masks [n, k, k] are bytes, scaled so that 255 is the largest weight of each mask; largest [n] holds these weights.
    indices [n] are those of the test images. box [n, 4] is the top, left, height and width of the object, if the
    benchmark knows it. No pixel of the images themselves is saved.
    """
    _, benchmark, model = load_run(folder, device, open_data=open_data)
    indices = list(Layout(settings.examples, settings.every).indices[:IMAGES])
    images = benchmark.examples("test", indices)[0].to(device).repeat_interleave(MASK_DRAWS, dim=0)
    releases, _ = model.stages(images, torch.Generator(device).manual_seed(settings.seed))
    weight = releases[-1].weight.float().expand(len(images), -1, *images.shape[2:])
    masks = weight.mean(dim=1).view(len(indices), MASK_DRAWS, *images.shape[2:]).mean(dim=1)
    largest = masks.amax(dim=(1, 2))
    stretched = masks / largest.clamp_min(torch.finfo(masks.dtype).tiny).view(-1, 1, 1)
    arrays = {
        "masks": (255 * stretched).round().to(torch.uint8).cpu().numpy(),
        "largest": largest.cpu().numpy(),
        "indices": np.array(indices),
    }
    boxes = benchmark.boxes("test", indices)
    if boxes is not None:
        arrays["box"] = boxes.cpu().numpy()
    content = io.BytesIO()
    np.savez_compressed(content, allow_pickle=False, **arrays)
    write_whole(folder / MASKS, content.getvalue())
