"""How images are certified, in one frozen object that is passed from the command line to the record; loads no torch."""

from dataclasses import dataclass
from typing import Literal

from ars.certification.bounds import Bound, check_alpha, check_enough
from ars.certification.schedule import MOST_DRAWS, MOST_SEED, Mode, Schedule
from ars.theory import Norm
from ars.theory.arguments import as_whole


@dataclass(frozen=True)
class CertifySettings:
    """How test images are certified; each setting can be overridden on the command line of ars certify.

    Settings that are invalid for every model are refused here, before anything is trained.

    Args:
        examples: how many images.
        every: take every N-th image of the test set.
        norm: linf or l2 (l2 for methods without a mask; for unicr only with beta 2).
        n_select: draws that choose the class.
        n_estimate: fresh draws that the radius is computed from; a limit if the mode may stop earlier.
        mode: fixed (all draws, as in the paper), radius (planned from the selection draws) or curve (decide radii).
        radii: the increasing radii that mode curve decides, in pixel units for images in [0, 1].
        tolerance: the share of the radius that mode radius may lose; null: .01.
        alpha: probability that a certificate may be wrong.
        bound: cohen, as in the paper, or classes, which uses every count; both are recorded.
        seed: seed of the noise.
        precision: precision of the networks: float32, bfloat16, or auto (bfloat16 if the device supports it).
    """

    examples: int = 100
    every: int = 1
    norm: Norm = "linf"
    n_select: int = 100
    n_estimate: int = 1000
    alpha: float = 0.05
    bound: Bound = "cohen"
    mode: Mode = "fixed"
    radii: tuple[float, ...] = ()
    tolerance: float | None = None
    seed: int = 0
    precision: Literal["float32", "bfloat16", "auto"] = "auto"

    def __post_init__(self) -> None:
        check_alpha(self.alpha)
        _ = self.schedule
        if self.examples < 1 or self.every < 1:
            raise ValueError(f"examples and every must be at least 1, got {self.examples} and {self.every}")
        as_whole("n_select", self.n_select, least=1, most=MOST_DRAWS)
        as_whole("certify.seed", self.seed, least=0, most=MOST_SEED)
        check_enough(self.n_estimate, self.alpha, self.bound)
        self.schedule.check_bound(self.bound)

    @property
    def schedule(self) -> Schedule:
        """The rule that ends the draws of an image."""
        return Schedule.of(self.mode, self.n_estimate, radii=self.radii, tolerance=self.tolerance)
