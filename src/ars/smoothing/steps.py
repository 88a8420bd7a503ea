"""Several steps as one mechanism: each step gets the earlier releases, and the guarantees are composed."""

from collections.abc import Sequence
from typing import cast

from torch import Tensor, nn

from ars.smoothing.mechanism import Generators, Images, Release, Step
from ars.theory import Ball, Norm, TradeOff, certified_radius
from ars.theory import compose as compose_tradeoffs


class Composition(nn.Module):
    """k adaptive steps (Thm 2.3): step j sees X and the releases of steps 1 to j - 1."""

    def __init__(self, steps: Sequence[Step]) -> None:
        super().__init__()
        if not steps:
            raise ValueError("a mechanism needs at least one step")
        for step in steps:
            if not isinstance(step, Step):
                raise TypeError(f"a mechanism is made of steps such as Gaussian(0.5), got {type(step).__name__}")
        self.steps = nn.ModuleList(steps)

    def release(self, x: Images, generator: Generators) -> list[Release]:
        """Sample every step in turn; the classifier may see all the releases."""
        releases: list[Release] = []
        for step in self.steps:
            release = cast(Step, step).release(x, releases, generator)
            _check_release(step, release, len(x))
            releases.append(release)
        return releases

    def guarantee(self, ball: Ball) -> TradeOff:
        """The composed guarantee of the steps."""
        return compose_tradeoffs(*(cast(Step, step).guarantee(ball) for step in self.steps))

    def radius(self, p_plus: float, p_minus: float, *, norm: Norm, dim: int) -> float:
        """The certified radius: that of a single step, or Prop. 2.1 on the composed guarantee."""
        if len(self.steps) == 1:
            return cast(Step, self.steps[0]).radius(p_plus, p_minus, norm=norm, dim=dim)
        return certified_radius(self.guarantee, p_plus, p_minus, norm=norm, dim=dim)

    @property
    def sigmas(self) -> tuple[float, ...]:
        """The noise budgets of the steps, in order."""
        return tuple(cast(Step, step).sigma for step in self.steps)


def _check_release(step: nn.Module, release: object, images: int) -> None:
    """Refuse an invalid release."""
    parts = (release.value, release.weight, release.std) if isinstance(release, Release) else ()
    if not parts or not all(isinstance(part, Tensor) for part in parts):
        got = [type(part).__name__ for part in parts] or type(release).__name__
        raise TypeError(
            f"{type(step).__name__}.release must return ars.Release(value, weight, std), all three tensors, got {got}"
        )
    if len(parts[0]) != images:
        raise ValueError(f"{type(step).__name__}.release must release each image once, got {len(parts[0])} of {images}")


def compose(*steps: Step) -> Composition:
    """Run the steps one after another on the same X.

    >>> from ars.smoothing.gaussian import Gaussian
    >>> compose(Gaussian(0.5), Gaussian(0.5)).sigmas
    (0.5, 0.5)
    """
    return Composition(steps)
