"""Training: one loop, its settings, its checkpoints."""

from typing import TYPE_CHECKING

from ars.lazy import lazily

if TYPE_CHECKING:
    from ars.training.loop import Interrupted, Trainer
    from ars.training.settings import Consistency, MaskPrior, Optimizer, Schedule, SmoothAdv, TrainSettings

__all__ = ["Consistency", "Interrupted", "MaskPrior", "Optimizer", "Schedule", "SmoothAdv", "TrainSettings", "Trainer"]

# settings are read without torch
_HOMES = {
    "ars.training.loop": ("Interrupted", "Trainer"),
    "ars.training.settings": ("Consistency", "MaskPrior", "Optimizer", "Schedule", "SmoothAdv", "TrainSettings"),
}
__getattr__, __dir__ = lazily(__name__, _HOMES)
