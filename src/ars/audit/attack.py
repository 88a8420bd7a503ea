"""Attacks on a smoothed classifier: images within a ball that take the votes away from a label.

Three kinds. "gradient" follows the gradient through the noise, averaged over draws (expectation over transformation).
"transfer" follows that of the pipeline without noise. "search" tries random patches and needs no gradient. An attack
only finds candidates; ars.audit.verdict decides on fresh draws whether one changes the label.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Literal, get_args

import torch
from torch import Tensor

from ars.audit.plain_model import mean_log_probabilities
from ars.certification.memory import suitable_batch
from ars.kernels.backend import choosing
from ars.kernels.fold import fold
from ars.kernels.precision import Precision, autocast, current
from ars.smoothing import SmoothedClassifier
from ars.smoothing.mechanism import Draw, Generators, Images, Tape
from ars.theory import Norm
from ars.theory.rounding import as_whole
from ars.training.attack import attack, into_ball, length

Answer = Callable[[Images, Generators], Tensor]
Kind = Literal["gradient", "transfer", "search"]
KINDS: tuple[Kind, ...] = get_args(Kind)
MOMENTUM = 0.9
LARGEST_PATCH = 0.3  # of an image's side, at the start of a search
TRIALS = 4  # of a search, per gradient step, since a trial needs no backward pass and only sees part of the image


@dataclass(frozen=True)
class AttackSettings:
    """How hard to try.

    Args:
        steps: gradient steps per start.
        draws: noisy draws per step.
        restarts: how many starts; the first is the image itself, the others are random.
        seed: seed of the attack's noise.
    """

    steps: int = 30
    draws: int = 64
    restarts: int = 2
    seed: int = 1

    def __post_init__(self) -> None:
        for name in ("steps", "draws", "restarts"):
            as_whole(name, getattr(self, name), least=1)


class Silent(Tape):
    """Noise that is 0: the pipeline as it would be without noise."""

    def __init__(self) -> None:
        super().__init__(torch.Generator())

    def play(self, x: Images, draw: Draw) -> Images:
        """Zeros shaped like x."""
        return torch.zeros(x.shape, dtype=torch.float32, device=x.device)


@dataclass(frozen=True)
class Task:
    """Images that are attacked at once, with the label and the radius [b, 1, 1, 1] of each."""

    images: Images
    labels: Tensor
    epsilon: Tensor
    runners_up: Tensor | None


class Attacker:
    """Attacks images [b, c, h, w], each with its label and its radius, through a copy of a model in eval mode.

    On a GPU the copy computes in bf16. The first start is aimed at the runner-up of each image, if it is given;
    otherwise the best rival is pursued. Of all starts the one is returned at which the label does worst on draws that
    no start has used. Where no gradient is needed, answer computes the logits, if it is given: VoteCounter.answer is
    faster.
    """

    def __init__(
        self, model: SmoothedClassifier, norm: Norm, settings: AttackSettings, *, answer: Answer | None = None
    ) -> None:
        if model.training:
            raise ValueError("the model is in training mode; call model.eval() first")
        if model.mechanism.exact:
            raise ValueError("rounded noise has no gradient; attack the same model without exact mode")
        self.norm, self.settings = norm, settings
        self.model = fold(model).requires_grad_(False)  # no gradients of weights are computed or stored
        self.model.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
        self.answer: Answer = answer or self.model

    def __call__(
        self, kind: Kind, images: Images, labels: Tensor, radii: Tensor, runners_up: Tensor | None = None
    ) -> Images:
        """Images in [0, 1], each within its radius of the given one."""
        if kind not in KINDS:
            raise ValueError(f"kind must be one of {', '.join(KINDS)}, got {kind!r}")
        size = self.at_once(images)
        generator = torch.Generator(images.device).manual_seed(self.settings.seed)
        epsilon = radii.to(images).view(-1, 1, 1, 1)
        found = []
        for part in (slice(first, first + size) for first in range(0, len(images), size)):
            aim = None if runners_up is None else runners_up[part]
            with current(images.device), choosing():
                found.append(self._strongest(kind, Task(images[part], labels[part], epsilon[part], aim), generator))
        return torch.cat(found)

    def at_once(self, images: Images) -> int:
        """How many images like these are attacked at once."""
        return max(1, suitable_batch(images, gradients=True) // self.settings.draws)

    def _strongest(self, kind: Kind, task: Task, generator: torch.Generator) -> Images:
        found, margins = [], []
        for restart in range(self.settings.restarts):
            start = self._random(task, generator) if restart else torch.zeros_like(task.images)
            aimed = replace(task, runners_up=None) if restart else task
            find = self._search if kind == "search" else partial(self._climb, silent=kind == "transfer")
            found.append(find(aimed, start, generator))
            unused = torch.Generator(task.images.device).manual_seed(self.settings.seed + 2**31)
            with torch.no_grad():
                margins.append(self._margin(found[-1], replace(task, runners_up=None), unused, self.settings.draws))
        best = torch.stack(margins).argmin(dim=0)
        return torch.stack(found)[best, torch.arange(len(task.images), device=task.images.device)]

    def _climb(self, task: Task, start: Images, generator: torch.Generator, *, silent: bool) -> Images:
        """Projected gradient steps, with fresh noise in each."""

        def loss(moved: Images) -> Tensor:
            noise, draws = (Silent(), 1) if silent else (generator, self.settings.draws)
            return -self._margin(moved, task, noise, draws).sum()

        steps = self.settings.steps
        return attack(
            loss, task.images, epsilon=task.epsilon, steps=steps, norm=self.norm, start=start, momentum=MOMENTUM
        )

    @torch.no_grad()
    def _search(self, task: Task, start: Images, generator: torch.Generator) -> Images:
        """Random patches, kept where they lower the margin on the same draws (in the manner of Square Attack)."""
        images = task.images
        seed = int(torch.randint(2**31, (), generator=generator, device=images.device))
        trials = TRIALS * self.settings.steps

        def into(moved: Images) -> Images:
            return into_ball((images + moved).clamp(0, 1) - images, task.epsilon, self.norm)

        def margins(moved: Images) -> Tensor:
            same = torch.Generator(images.device).manual_seed(seed)
            return self._margin(images + moved, task, same, self.settings.draws)

        moved = into(start)
        least = margins(moved)
        for trial in range(trials):
            side = max(1, round(LARGEST_PATCH * images.shape[-1] * (1 - trial / trials)))
            tried = into(self._with_patch(moved, side, task.epsilon, generator))
            margin = margins(tried)
            lower = margin < least
            moved, least = torch.where(lower.view(-1, 1, 1, 1), tried, moved), torch.where(lower, margin, least)
        return (images + moved).clamp(0, 1)

    def _with_patch(self, moved: Images, side: int, epsilon: Tensor, generator: torch.Generator) -> Images:
        """One random square of every image at +-epsilon per channel (Linf), or raised by a share of it (L2)."""
        count, channels, height, width = moved.shape

        def random(most: int, *shape: int) -> Tensor:
            return torch.randint(0, most, shape, generator=generator, device=moved.device)

        signs = random(2, count, channels, 1, 1) * 2 - 1
        top, left = random(height - side + 1, count, 1, 1, 1), random(width - side + 1, count, 1, 1, 1)
        row = torch.arange(height, device=moved.device).view(1, 1, -1, 1)
        column = torch.arange(width, device=moved.device).view(1, 1, 1, -1)
        inside = (row >= top) & (row < top + side) & (column >= left) & (column < left + side)
        if self.norm == "linf":
            return torch.where(inside, signs * epsilon, moved)
        return torch.where(inside, moved + signs * epsilon / (side * math.sqrt(channels)), moved)

    def _random(self, task: Task, generator: torch.Generator) -> Images:
        """A random place in the ball (Linf), or on its surface (L2)."""
        if self.norm == "linf":
            return task.epsilon * torch.empty_like(task.images).uniform_(-1, 1, generator=generator)
        noise = torch.empty_like(task.images).normal_(generator=generator)
        return task.epsilon * noise / length(noise)

    def _margin(self, images: Images, task: Task, noise: Generators, draws: int) -> Tensor:
        """ln of the label's mean probability over the draws, less that of the runner-up or of the best other class."""
        labels, aim = task.labels, task.runners_up
        precision: Precision = "bfloat16" if images.device.type == "cuda" else "float32"
        with autocast(images.device, precision):
            answer = self.model if torch.is_grad_enabled() else self.answer
            logits = answer(images.repeat_interleave(draws, dim=0), noise)
        mean = mean_log_probabilities(logits, draws)
        own = mean.gather(1, labels.view(-1, 1)).squeeze(1)
        others = mean.scatter(1, labels.view(-1, 1), -math.inf).amax(dim=1)
        margin: Tensor = own - (others if aim is None else mean.gather(1, aim.view(-1, 1)).squeeze(1))
        return margin
