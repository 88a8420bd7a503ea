"""Output of a training while it runs: TensorBoard curves and pictures of the masks."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import asdict
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from jaxtyping import Float
from numpy.typing import NDArray
from torch import Tensor

from ars.atomic import whole
from ars.data.benchmark import Benchmark
from ars.smoothing import SmoothedClassifier

if TYPE_CHECKING:
    from torch.utils.tensorboard.writer import SummaryWriter

    from ars.training.progress import Progress

FOLDER = "tensorboard"


@contextmanager
def scalars(folder: Path) -> "Iterator[Callable[[Progress], None]]":
    """Yield a function that writes each epoch to RUN/tensorboard; epochs that are repeated replace the old ones."""
    if find_spec("tensorboard") is None:
        yield lambda progress: None
        return
    with ExitStack() as open_files:
        writer: SummaryWriter | None = None

        def write(progress: "Progress") -> None:
            nonlocal writer
            if writer is None:
                from torch.utils.tensorboard.writer import SummaryWriter

                made = SummaryWriter(str(folder / FOLDER), purge_step=progress.epoch)
                writer = open_files.enter_context(made)
            for name, value in asdict(progress).items():
                if name not in ("epoch", "epochs", "steps") and value is not None:  # a one-step method has no share
                    writer.add_scalar(name, value, progress.epoch)
            writer.flush()

        yield write


def take_apart(model: SmoothedClassifier, x: Float[Tensor, "b c h w"], *, seed: int) -> dict[str, NDArray[Any]]:
    """The stages of one draw per image: input, every step's release and mask, and the image the classifier sees."""
    releases, average = model.stages(x, torch.Generator(x.device).manual_seed(seed))
    tensors = {"input": x, "average": average}
    for number, release in enumerate(releases, start=1):
        weight = release.weight.expand(len(x), -1, *x.shape[2:])
        tensors |= {f"value_{number}": release.value, f"weight_{number}": weight, f"masked_{number}": weight * x}
    return {name: tensor.cpu().numpy() for name, tensor in tensors.items()}


IMAGES = 8
SEED = 0  # the same noise in every picture, so that only the weights differ


def draw_epoch(folder: Path, model: SmoothedClassifier, benchmark: Benchmark, *, epoch: int, heading: str) -> None:
    """Write masks/epoch-010.png into a run folder: the stages of one draw of the first validation images.

    Nothing is written for a model without a mask. No global random state is changed.
    """
    indices = range(min(IMAGES, benchmark.size("validation")))
    x, labels = (part.to(next(model.parameters()).device) for part in benchmark.examples("validation", indices))
    arrays = take_apart(model, x, seed=SEED)
    if all((array == 1).all() for name, array in arrays.items() if name.startswith("weight_")):
        return
    from ars.report.pipeline import draw_one

    with torch.no_grad():
        answers = model.classifier(torch.as_tensor(arrays["average"], device=x.device)).argmax(dim=1)
    names = benchmark.class_names
    picture = draw_one(
        arrays,
        truth=[names[label] for label in labels.tolist()],
        answers=[names[answer] for answer in answers.tolist()],
        heading=heading,
    )
    with whole(folder / "masks" / f"epoch-{epoch:03d}.png") as temporary:
        temporary.write_bytes(picture)
