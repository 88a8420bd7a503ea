"""The curves of a training for TensorBoard, where it is installed; loads nothing where it is not."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import asdict
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from torch.utils.tensorboard.writer import SummaryWriter

    from ars.training.progress import Progress

FOLDER = "tensorboard"


@contextmanager
def scalars(folder: Path) -> "Iterator[Callable[[Progress], None]]":
    """Yield what writes each epoch to RUN/tensorboard; epochs that are done again replace what was there."""
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
                if name not in ("epoch", "epochs", "steps") and value is not None:  # one step has no share
                    writer.add_scalar(name, value, progress.epoch)
            writer.flush()

        yield write
