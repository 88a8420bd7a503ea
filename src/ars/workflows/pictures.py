"""Pictures that commands write beside a run: its pipeline, and its masks in the course of training."""

from pathlib import Path

import torch

from ars.atomic import whole, write_whole
from ars.data.benchmark import Benchmark
from ars.report.pipeline_figure import draw_one, draw_pipeline, load_stages
from ars.runs.paths import PIPELINE
from ars.runs.run import load_runs
from ars.smoothing import SmoothedClassifier
from ars.training.progress import Progress
from ars.workflows.request import Request
from ars.workflows.stages import IMAGES, save_stages, take_apart

PICTURE_SEED = 0  # the same noise in every epoch's picture, so that only the weights differ


def draw_pipeline_of(request: Request, *, device: torch.device) -> None:
    """Write pipeline.svg of a run: the stages of one draw of the first certified images, with their certificates."""
    save_stages(request, device=device, images=IMAGES)
    [run] = load_runs([request.folder], name=request.name, partial=True)
    write_whole(request.folder / PIPELINE, draw_pipeline(run, load_stages(run)).svg)


def draw_epoch(folder: Path, model: SmoothedClassifier, benchmark: Benchmark, at: Progress) -> None:
    """Write masks/epoch-010.png into a run folder: the stages of one draw of the first validation images.

    Nothing is written for a model without a mask. No global random state is changed.
    """
    indices = range(min(IMAGES, benchmark.size("validation")))
    x, labels = (part.to(next(model.parameters()).device) for part in benchmark.examples("validation", indices))
    arrays = take_apart(model, x, seed=PICTURE_SEED)
    if all((array == 1).all() for name, array in arrays.items() if name.startswith("weight_")):
        return
    with torch.no_grad():
        answers = model.classifier(torch.as_tensor(arrays["average"], device=x.device)).argmax(dim=1)
    names = benchmark.class_names
    picture = draw_one(
        arrays,
        truth=[names[label] for label in labels.tolist()],
        answers=[names[answer] for answer in answers.tolist()],
        heading=f"{folder.name}, epoch {at.epoch} of {at.epochs}: validation accuracy {at.validation_accuracy:.1%}, "
        f"mean squared mask {at.mean_square_mask:.2f}",
    )
    with whole(folder / "masks" / f"epoch-{at.epoch:03d}.png") as temporary:
        temporary.write_bytes(picture)
