"""Pictures of the masks on fixed validation images, drawn while a model is trained."""

from pathlib import Path

import torch

from ars.certification.writing import whole
from ars.data.benchmark import Benchmark
from ars.experiments.taking_apart import take_apart
from ars.smoothing import SmoothedClassifier

IMAGES = 8
SEED = 0  # the same noise in every picture, so that only the weights differ


def draw_epoch(folder: Path, model: SmoothedClassifier, benchmark: Benchmark, *, epoch: int, heading: str) -> None:
    """Write masks/epoch-010.png into a run folder: one draw of the first validation images, taken apart.

    A model whose steps have no mask has nothing to show. Touches no randomness but its own.
    """
    indices = range(min(IMAGES, benchmark.size("validation")))
    x, labels = (part.to(next(model.parameters()).device) for part in benchmark.examples("validation", indices))
    arrays = take_apart(model, x, seed=SEED)
    if all((array == 1).all() for name, array in arrays.items() if name.startswith("weight_")):
        return
    from ars.report.masks import draw_masks

    with torch.no_grad():
        answers = model.classifier(torch.as_tensor(arrays["average"], device=x.device)).argmax(dim=1)
    names = benchmark.class_names
    picture = draw_masks(
        arrays,
        truth=[names[label] for label in labels.tolist()],
        answers=[names[answer] for answer in answers.tolist()],
        heading=heading,
    )
    with whole(folder / "masks" / f"epoch-{epoch:03d}.png") as temporary:
        temporary.write_bytes(picture)
