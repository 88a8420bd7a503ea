"""The training settings of a recipe; loads no torch, so recipes are read quickly."""

import math
from dataclasses import dataclass, field
from typing import Literal


@dataclass(frozen=True)
class Optimizer:
    """One optimiser: AdamW or SGD with its learning rate.

    Args:
        name: adamw or sgd.
        lr: the learning rate, which the schedule scales.
        weight_decay: decoupled for adamw, classic L2 for sgd.
        momentum: momentum of sgd; adamw ignores it.
    """

    name: Literal["adamw", "sgd"] = "adamw"
    lr: float = 3e-2
    weight_decay: float = 1e-4
    momentum: float = 0.9

    def __post_init__(self) -> None:
        if not self.lr > 0:
            raise ValueError(f"lr must be positive, got {self.lr}")
        _check_amounts(weight_decay=self.weight_decay)
        if not 0 <= self.momentum < 1:
            raise ValueError(f"momentum must be at least 0 and below 1, got {self.momentum}")


@dataclass(frozen=True)
class Schedule:
    """The learning rate over time, as a factor on each optimiser's learning rate.

    Args:
        name: cosine (after a linear warm-up) or steps (multiplied by a factor at regular intervals).
        warmup: share of the training for the warm-up of cosine.
        every: epochs between two steps.
        factor: the factor of each step.
    """

    name: Literal["cosine", "steps"] = "cosine"
    warmup: float = 0.2
    every: int = 30
    factor: float = 0.1

    def __post_init__(self) -> None:
        if self.every < 1 or not 0 < self.factor <= 1 or not 0 <= self.warmup <= 1:
            raise ValueError(
                "a schedule needs every >= 1, 0 < factor <= 1 and 0 <= warmup <= 1, "
                f"got {self.every}, {self.factor} and {self.warmup}"
            )

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
class Consistency:
    """Consistency regularisation (Jeong & Shin, 2020): the noisy draws of an image should agree.

    Args:
        weight: weight of the mean KL divergence from the mean prediction to each draw's (paper: 10 or 20); 0 is off.
        entropy: weight of the entropy of the mean prediction (paper: 0.5).
    """

    weight: float = 0.0
    entropy: float = 0.5

    def __post_init__(self) -> None:
        _check_amounts(weight=self.weight, entropy=self.entropy)


@dataclass(frozen=True)
class SmoothAdv:
    """SmoothAdv (Salman et al., 2019): train on images that PGD moved against the smoothed classifier.

    Args:
        epsilon: size of the attack, in pixel units for images in [0, 1] and in the norm of certify.norm; 0 is off.
        steps: steps of the attack, each of length 2 epsilon / steps.
        warmup: epochs over which epsilon grows to its value; 0 is at once.
    """

    epsilon: float = 0.0
    steps: int = 10
    warmup: int = 10

    def __post_init__(self) -> None:
        _check_amounts(epsilon=self.epsilon)
        if self.steps < 1 or self.warmup < 0:
            raise ValueError(
                f"smoothadv needs steps of at least 1 and warmup of at least 0, got {self.steps} and {self.warmup}"
            )

    def at(self, epoch: int) -> float:
        """Epsilon in an epoch, counted from 0.

        >>> [SmoothAdv(epsilon=1.0, warmup=4).at(epoch) for epoch in (0, 1, 3, 9)]
        [0.25, 0.5, 1.0, 1.0]
        """
        return self.epsilon * min(1.0, (epoch + 1) / max(1, self.warmup))


@dataclass(frozen=True)
class MaskPrior:
    """A penalty on open masks, for methods with a mask.

    Args:
        weight: weight of the mean squared mask, which scales the masked step's noise; 0 is off.
    """

    weight: float = 0.0

    def __post_init__(self) -> None:
        _check_amounts(weight=self.weight)


@dataclass(frozen=True)
class TrainSettings:
    """The training part of a recipe.

    Args:
        epochs: passes over the training set.
        batch_size: images per step, of all processes together.
        classifier: the optimiser of the classifier.
        mask: the optimiser of the mask, adaptive or static.
        schedule: the learning rate over time.
        mask_schedule: the schedule of the mask; null: the same as schedule.
        mask_only_epochs: number of first epochs that train only the mask and keep the classifier as it is, BatchNorm
            statistics included; the schedules restart with the first epoch that trains both.
        max_steps: stop after this many steps, to try out a recipe from end to end; null: all epochs.
        precision: float32, bfloat16, or auto (bfloat16 if the device supports it).
        checkpoint_minutes: minutes between checkpoints; an interrupted run is always saved.
        draws: noisy draws per image in a step.
        accumulate: parts of a batch that are processed one after another, to save memory.
        ema: decay of the moving average of the weights; the average is validated and saved. 0 is off.
        consistency: make the noisy draws of an image agree.
        smoothadv: train on adversarial examples of the smoothed classifier.
        mask_prior: a penalty on open masks.
        pictures_every: epochs between two pictures of the masks on fixed validation images; 0: no pictures.
        sync_batchnorm: share the statistics of batch normalisation between the GPUs that train together.
    """

    epochs: int = 7
    batch_size: int = 128
    classifier: Optimizer = field(default_factory=Optimizer)
    mask: Optimizer = field(default_factory=lambda: Optimizer(lr=3e-3))
    schedule: Schedule = field(default_factory=Schedule)
    mask_schedule: Schedule | None = None
    mask_only_epochs: int = 0
    max_steps: int | None = None
    precision: Literal["float32", "bfloat16", "auto"] = "auto"
    checkpoint_minutes: float = 5.0
    draws: int = 1
    accumulate: int = 1
    ema: float = 0.0
    consistency: Consistency = field(default_factory=Consistency)
    smoothadv: SmoothAdv = field(default_factory=SmoothAdv)
    mask_prior: MaskPrior = field(default_factory=MaskPrior)
    pictures_every: int = 5
    sync_batchnorm: bool = False

    def __post_init__(self) -> None:
        _check_amounts(checkpoint_minutes=self.checkpoint_minutes, pictures_every=self.pictures_every)
        if self.epochs < 1 or self.batch_size < 1:
            raise ValueError(f"epochs and batch_size must be at least 1, got {self.epochs} and {self.batch_size}")
        if not 0 <= self.mask_only_epochs < self.epochs:
            raise ValueError(
                f"mask_only_epochs must be at least 0 and below epochs={self.epochs}, got {self.mask_only_epochs}; "
                "with classifier.freeze all epochs train the mask alone"
            )
        if self.max_steps is not None and self.max_steps < 1:
            raise ValueError(f"max_steps must be at least 1, got {self.max_steps}")
        if self.draws < 1 or self.accumulate < 1 or self.batch_size % self.accumulate:
            raise ValueError(
                f"draws must be at least 1 and accumulate must divide batch_size={self.batch_size}, "
                f"got draws={self.draws} and accumulate={self.accumulate}"
            )
        if not 0 <= self.ema < 1:
            raise ValueError(f"ema must be at least 0 (off) and below 1, got {self.ema}")
        if self.consistency.weight and self.draws < 2:
            raise ValueError(f"consistency needs train.draws of at least 2, got {self.draws}")

    def factor(self, part: str, step: int, *, steps_per_epoch: int) -> float:
        """The factor on the learning rate of a part (classifier, mask) at one step."""
        alone = self.mask_only_epochs * steps_per_epoch
        start, epochs = (0, self.mask_only_epochs) if step < alone else (alone, self.epochs - self.mask_only_epochs)
        schedule = self.mask_schedule if part == "mask" and self.mask_schedule else self.schedule
        return schedule.at(step - start, steps_per_epoch=steps_per_epoch, epochs=epochs)


def _check_amounts(**amounts: float) -> None:
    for name, amount in amounts.items():
        if not 0 <= amount < math.inf:
            raise ValueError(f"{name} must be at least 0 and finite, got {amount}")
