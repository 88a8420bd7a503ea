"""ars.load: the trained model of a run folder, for Python."""

from pathlib import Path

import torch

from ars.experiments.run import load_without_data
from ars.smoothing import SmoothedClassifier


def load(
    folder: str | Path, *, device: str | torch.device = "cpu", classifier: str | None = None
) -> SmoothedClassifier:
    """The smoothed classifier that `ars train` left in a run folder or `ars pack` in one with weights, in eval mode.

    It is the very model that `ars certify` certifies; ars.certify and ars.predict take it as it is. classifier names
    the code of one's own that the run was trained around (package:name): code that a folder names is never imported
    unasked. The data is not needed, but for Sukenik et al.'s noise, which is measured from training images.
    """
    return load_without_data(Path(folder).expanduser(), torch.device(device), classifier=classifier)[1]
