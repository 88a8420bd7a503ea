"""Attacks on a smoothed classifier: images within a ball that take the votes away from a label.

Three kinds: projected gradients through the noise (expectation over draws, Salman et al. 2019), the same gradients of
the pipeline without noise, which transfer or do not, and a search over random patches that needs no gradients. They
move images only; whether a candidate changes the label is decided by ars.audit.verdict on fresh draws.
"""

import math
from dataclasses import dataclass
from typing import Literal, get_args

import torch
from jaxtyping import Float
from torch import Tensor

from ars.smoothing import SmoothedClassifier
from ars.smoothing.mechanism import Draw, Generators, Images, Tape
from ars.theory import Norm
from ars.theory.numbers import as_whole

Kind = Literal["gradient", "transfer", "search"]
KINDS: tuple[Kind, ...] = get_args(Kind)
DRAWS_AT_ONCE = 1024
PATCH = 0.3  # side of a patch of the search, as a share of the image's, at the start


@dataclass(frozen=True)
class AttackSettings:
    """How hard to try.

    Args:
        kinds: gradient (through the noise), transfer (through the pipeline without noise), search (no gradients).
        steps: gradient steps per start; the search makes four times as many trials.
        draws: noisy draws per step.
        restarts: how many times to start; the first start is the image, later ones are random.
        seed: seed of the attack's own noise.
    """

    kinds: tuple[Kind, ...] = KINDS
    steps: int = 30
    draws: int = 64
    restarts: int = 2
    seed: int = 1

    def __post_init__(self) -> None:
        unknown = set(self.kinds) - set(KINDS)
        if unknown or not self.kinds:
            raise ValueError(f"kinds of attack are {', '.join(KINDS)}, got {', '.join(self.kinds) or 'none'}")
        for name in ("steps", "draws", "restarts"):
            as_whole(name, getattr(self, name), least=1)


class Silent(Tape):
    """Noise that is 0: the pipeline as it would be without noise."""

    def __init__(self) -> None:
        super().__init__(torch.Generator())

    def play(self, x: Images, draw: Draw) -> Images:
        """Zeros shaped like x."""
        return torch.zeros(x.shape, dtype=torch.float32, device=x.device)


class Attacker:
    """Attacks images [b, c, h, w] with one label and one radius each; each image is attacked by itself.

    model is not changed, but must be in eval mode. A restart is aimed at the runner-up of each image where one is given
    and at every other class in turn otherwise. The best of all starts is returned: the image at which the label loses
    most on draws that were not used to find it.
    """

    def __init__(self, model: SmoothedClassifier, norm: Norm, settings: AttackSettings) -> None:
        if model.training:
            raise ValueError("the model is in training mode; call model.eval() before it is attacked")
        self.model, self.norm, self.settings = model, norm, settings

    def __call__(
        self, kind: Kind, images: Images, labels: Tensor, radii: Tensor, runners_up: Tensor | None = None
    ) -> Images:
        """Images in [0, 1] and within each radius of the given ones."""
        generator = torch.Generator(images.device).manual_seed(self.settings.seed)
        epsilon = radii.to(images).view(-1, 1, 1, 1)
        find = {"gradient": self._climb, "transfer": self._climb, "search": self._search}[kind]
        best, best_margin = images, torch.full((len(images),), math.inf, device=images.device)
        for restart in range(self.settings.restarts):
            start = torch.zeros_like(images) if restart == 0 else self._random_start(images, epsilon, generator)
            aim = runners_up if restart == 0 else None
            noise = Silent() if kind == "transfer" else generator
            found = find(images, labels, epsilon, start, aim, noise, generator)
            margin = self._margins(found, labels, None, self._judging(images))
            better = margin < best_margin
            best, best_margin = (
                torch.where(better.view(-1, 1, 1, 1), found, best),
                torch.where(better, margin, best_margin),
            )
        return best

    def _climb(
        self,
        images: Images,
        labels: Tensor,
        epsilon: Tensor,
        start: Images,
        aim: Tensor | None,
        noise: Generators,
        generator: torch.Generator,
    ) -> Images:
        """Projected gradient descent on the margin of the label, with fresh noise at each step."""
        moved = _project(images, start, epsilon, self.norm)
        for step in range(self.settings.steps):
            gradient = self._gradient(images + moved, labels, aim, noise)
            length = 2.5 * epsilon / self.settings.steps * (2 - 1.5 * step / self.settings.steps)
            moved = _project(images, moved - length * _direction(gradient, self.norm), epsilon, self.norm)
        return (images + moved).clamp(0, 1)

    def _search(
        self,
        images: Images,
        labels: Tensor,
        epsilon: Tensor,
        start: Images,
        aim: Tensor | None,
        noise: Generators,
        generator: torch.Generator,
    ) -> Images:
        """Random patches, kept where they lower the margin on the same draws (in the manner of Square Attack)."""
        del noise
        trials = 4 * self.settings.steps
        seed = int(torch.randint(2**31, (), generator=generator, device=generator.device))

        def margins(moved: Images) -> Tensor:
            same = torch.Generator(images.device).manual_seed(seed)
            return self._margins((images + moved).clamp(0, 1), labels, aim, same)

        moved = _project(images, start, epsilon, self.norm)
        margin = margins(moved)
        for trial in range(trials):
            side = max(1, round(PATCH * images.shape[-1] * (1 - trial / trials)))
            tried = _project(images, _with_patch(moved, side, epsilon, self.norm, generator), epsilon, self.norm)
            now = margins(tried)
            lower = now < margin
            moved, margin = torch.where(lower.view(-1, 1, 1, 1), tried, moved), torch.where(lower, now, margin)
        return (images + moved).clamp(0, 1)

    def _random_start(self, images: Images, epsilon: Tensor, generator: torch.Generator) -> Images:
        if self.norm == "linf":
            return epsilon * torch.empty_like(images).uniform_(-1, 1, generator=generator)
        noise = torch.empty_like(images).normal_(generator=generator)
        return epsilon * _direction(noise, "l2")

    def _judging(self, images: Images) -> torch.Generator:
        """Draws that no start has used, the same for every start."""
        return torch.Generator(images.device).manual_seed(self.settings.seed + 2**31)

    def _gradient(self, images: Images, labels: Tensor, aim: Tensor | None, noise: Generators) -> Images:
        """The gradient of the sum of all margins."""
        total = torch.zeros_like(images)
        draws = 1 if isinstance(noise, Silent) else self.settings.draws
        for rows in _groups(len(images), draws):
            moved = images[rows].detach().requires_grad_()
            for part in _parts(draws):
                with torch.enable_grad():
                    margin = self._margin(moved, labels[rows], None if aim is None else aim[rows], noise, part)
                    (gradient,) = torch.autograd.grad(margin.sum(), moved)
                total[rows] += gradient * part / draws
        return total

    @torch.no_grad()
    def _margins(self, images: Images, labels: Tensor, aim: Tensor | None, generator: torch.Generator) -> Tensor:
        """The margin of each image, over as many draws as a step has."""
        margins = torch.zeros(len(images), device=images.device)
        for rows in _groups(len(images), self.settings.draws):
            for part in _parts(self.settings.draws):
                margin = self._margin(images[rows], labels[rows], None if aim is None else aim[rows], generator, part)
                margins[rows] += margin * part / self.settings.draws
        return margins

    def _margin(self, images: Images, labels: Tensor, aim: Tensor | None, noise: Generators, draws: int) -> Tensor:
        """ln of the label's mean probability over the draws less that of its rival: the aim, or the largest other."""
        logits = self.model(images.repeat_interleave(draws, dim=0), noise)
        mean = logits.float().log_softmax(dim=1).view(len(images), draws, -1).logsumexp(dim=1)
        own = mean.gather(1, labels.view(-1, 1)).squeeze(1)
        others = mean.scatter(1, labels.view(-1, 1), -math.inf).amax(dim=1)
        margin: Tensor = own - (others if aim is None else mean.gather(1, aim.view(-1, 1)).squeeze(1))
        return margin


def _groups(images: int, draws: int) -> list[slice]:
    """Runs of images whose draws are made at once."""
    size = max(1, DRAWS_AT_ONCE // draws)
    return [slice(first, first + size) for first in range(0, images, size)]


def _parts(draws: int) -> list[int]:
    """The draws of one image, in parts that fit at once."""
    return [min(DRAWS_AT_ONCE, draws - done) for done in range(0, draws, DRAWS_AT_ONCE)]


def _direction(gradient: Images, norm: Norm) -> Images:
    return gradient.sign() if norm == "linf" else gradient / _length(gradient)


def _project(images: Images, moved: Images, epsilon: Float[Tensor, "b 1 1 1"], norm: Norm) -> Images:
    """Into [0, 1] and into the ball."""
    moved = (images + moved).clamp(0, 1) - images
    if norm == "linf":
        return torch.maximum(torch.minimum(moved, epsilon), -epsilon)
    return moved * (epsilon / _length(moved)).clamp_max(1)


def _length(images: Images) -> Float[Tensor, "b 1 1 1"]:
    """Each image's L2 norm, at least 1e-12."""
    length: Tensor = torch.linalg.vector_norm(images, dim=(1, 2, 3), keepdim=True)
    return length.clamp_min(1e-12)


def _with_patch(moved: Images, side: int, epsilon: Tensor, norm: Norm, generator: torch.Generator) -> Images:
    """One random square of every image: +-epsilon per channel (Linf), or a bump with the same sign per channel (L2)."""
    count, channels, height, width = moved.shape
    device = moved.device
    signs = torch.randint(0, 2, (count, channels, 1, 1), generator=generator, device=device) * 2 - 1
    top = torch.randint(0, height - side + 1, (count, 1, 1, 1), generator=generator, device=device)
    left = torch.randint(0, width - side + 1, (count, 1, 1, 1), generator=generator, device=device)
    row = torch.arange(height, device=device).view(1, 1, -1, 1)
    column = torch.arange(width, device=device).view(1, 1, 1, -1)
    inside = (row >= top) & (row < top + side) & (column >= left) & (column < left + side)
    if norm == "linf":
        return torch.where(inside, signs * epsilon, moved)
    return torch.where(inside, moved + signs * epsilon / math.sqrt(side * side * channels), moved)
