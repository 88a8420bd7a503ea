"""How a model is trained, as a recipe states it; no torch here, so that recipes are read at once."""

import math
from dataclasses import dataclass, field
from typing import Literal


@dataclass(frozen=True)
class Optimizer:
    """One optimiser: AdamW or SGD with its learning rate.

    Args:
        name: adamw or sgd.
        lr: the learning rate that the schedule starts from.
        weight_decay: decoupled for adamw, classic L2 for sgd.
        momentum: of sgd; adamw has its own.
    """

    name: Literal["adamw", "sgd"] = "adamw"
    lr: float = 3e-2
    weight_decay: float = 1e-4
    momentum: float = 0.9

    def __post_init__(self) -> None:
        if not self.lr > 0:
            raise ValueError(f"lr must be positive, got {self.lr}")


@dataclass(frozen=True)
class Schedule:
    """The learning rate over time, as a factor on each optimiser's own.

    Args:
        name: cosine (after a linear warm-up) or steps (times factor every so many epochs).
        warmup: share of the training that the cosine's warm-up takes.
        every: epochs between two steps.
        factor: what a step multiplies the learning rate with.
    """

    name: Literal["cosine", "steps"] = "cosine"
    warmup: float = 0.2
    every: int = 30
    factor: float = 0.1

    def at(self, step: int, *, steps_per_epoch: int, epochs: int) -> float:
        """The factor for one step.

        >>> [round(Schedule(warmup=0.5).at(step, steps_per_epoch=2, epochs=2), 2) for step in range(4)]
        [0.5, 1.0, 1.0, 0.5]
        """
        if self.name == "steps":
            return float(self.factor ** (step // steps_per_epoch // self.every))
        total = steps_per_epoch * epochs
        warmup = round(self.warmup * total)
        if step < warmup:
            return (step + 1) / warmup
        return (1 + math.cos(math.pi * (step - warmup) / max(1, total - warmup))) / 2


@dataclass(frozen=True)
class TrainSettings:
    """The training part of a recipe.

    Args:
        epochs: how often the training set is shown.
        batch_size: images a step, of all processes together.
        classifier: the optimiser of the classifier.
        mask: the optimiser of the mask, adaptive or static.
        schedule: the learning rate over time, for both.
        precision: float32, bfloat16, or auto (bfloat16 where the device has it).
        checkpoint_minutes: how often the state is saved, besides at the end of an interrupted run.
        pictures_every: epochs between two pictures of the masks on fixed validation images; 0 draws none.
        sync_batchnorm: share the statistics of batch normalisation between the GPUs that train together.
    """

    epochs: int = 7
    batch_size: int = 128
    classifier: Optimizer = field(default_factory=Optimizer)
    mask: Optimizer = field(default_factory=lambda: Optimizer(lr=3e-3))
    schedule: Schedule = field(default_factory=Schedule)
    precision: Literal["float32", "bfloat16", "auto"] = "auto"
    checkpoint_minutes: float = 5.0
    pictures_every: int = 5
    sync_batchnorm: bool = False

    def __post_init__(self) -> None:
        if self.pictures_every < 0:
            raise ValueError(f"pictures_every must be at least 0, got {self.pictures_every}")
        if self.epochs < 1 or self.batch_size < 1:
            raise ValueError(f"epochs and batch_size must be at least 1, got {self.epochs} and {self.batch_size}")
