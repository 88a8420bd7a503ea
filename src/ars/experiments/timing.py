"""What the training of a run took; loads no torch."""

import json
from pathlib import Path

from ars.certification.run_folder import TIMING
from ars.certification.writing import write_whole


def write_train_seconds(folder: Path, seconds: float) -> None:
    """Keep what a training took."""
    write_whole(folder / TIMING, json.dumps({"train_seconds": round(seconds, 1)}))


def train_seconds(folder: Path) -> float | None:
    """What the training of a run took; None where it was made before that was recorded."""
    path = folder / TIMING
    if not path.exists():
        return None
    try:
        return float(json.loads(path.read_text(encoding="utf-8"))["train_seconds"])
    except (KeyError, TypeError, ValueError) as error:
        raise ValueError(f"{path} is damaged; remove it, and what the training took is not known") from error
