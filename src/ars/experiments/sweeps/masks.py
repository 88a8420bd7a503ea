"""What the masks make of a few test images: masks alone, to keep beside the records, and whole draws taken apart."""

import io
from pathlib import Path

import numpy as np
import torch

from ars.certification.run_folder import MASK_DRAWS, MASKS, PIPELINE
from ars.certification.shards import Layout
from ars.certification.writing import write_whole
from ars.experiments.certifying.request import Request
from ars.experiments.recipe import CertifySettings
from ars.experiments.run import load_run
from ars.experiments.stages import save_stages

IMAGES = 8


@torch.inference_mode()
def save_average_masks(folder: Path, settings: CertifySettings, *, device: torch.device) -> None:
    """Save masks.npz of a run: for the first certified images, the last step's mask averaged over draws.

    masks [n, k, k] are bytes, 255 for the largest weight of each, which largest [n] has; indices [n] are those of the
    test images, box [n, 4] the top, left, height and width of the object, where the benchmark knows. No pixel of the
    images themselves is in it.
    """
    _, benchmark, model = load_run(folder, device)
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


def draw_pipeline_of(request: Request, *, device: torch.device) -> None:
    """Write pipeline.svg of a run: one draw of the first certified images, taken apart, with what was certified."""
    save_stages(request, device=device, images=IMAGES)
    from ars.report.pipeline import draw_pipeline, load_stages
    from ars.report.results import load_runs

    [run] = load_runs([request.folder], name=request.name, partial=True)
    write_whole(request.folder / PIPELINE, draw_pipeline(run, load_stages(run)).svg)
