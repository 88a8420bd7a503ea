"""How many draws an image gets: the rule set in advance (Schedule), and the result (Outcome)."""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from decimal import ROUND_DOWN, Context
from typing import Literal, Self, get_args

from ars.certification.bounds import Bound
from ars.theory.arguments import as_number, as_whole

Mode = Literal["fixed", "radius", "curve"]
MODES: tuple[Mode, ...] = get_args(Mode)
Ending = Literal["planned", "certified", "given up"]
"""planned: all planned draws were made; certified: every radius was certified earlier; given up: it was hopeless."""

TOLERANCE = 0.01

BLOCK = 100
"""Draws that share a generator; a device batch consists of whole blocks."""

MOST_DRAWS = 2**31 * BLOCK
"""Per image and purpose: torch's CPU generator reads 32 bits of a seed, and one of them encodes the purpose."""

MOST_SEED = 2**32 - 1
"""A larger seed would repeat the noise of a smaller one in that generator."""


@dataclass(frozen=True)
class Schedule:
    """The rule that ends the draws of an image.

    - fixed: n_max draws for every image (the paper's protocol).
    - radius: N <= n_max draws, planned from the selection draws alone, such that the expected radius is at most a share
      ``tolerance`` below that at n_max; hopeless images are given up.
    - curve: at most n_max draws, until each of the increasing ``radii`` is decided.
    """

    mode: Mode
    n_max: int
    radii: tuple[float, ...] = ()
    tolerance: float | None = None

    def __post_init__(self) -> None:
        if self.mode not in MODES:
            raise ValueError(f"mode must be one of {', '.join(MODES)}, got {self.mode!r}")
        as_whole("n_estimate", self.n_max, least=1, most=MOST_DRAWS)
        if bool(self.radii) != (self.mode == "curve"):
            raise ValueError(f"mode='curve' needs radii and no other mode takes them, got {self.mode!r}, {self.radii}")
        increasing = all(low < high for low, high in zip(self.radii, self.radii[1:], strict=False))
        if self.radii and not (increasing and self.radii[0] >= 0):
            raise ValueError(f"radii must be at least 0 and increase strictly, got {self.radii}")
        if (self.tolerance is None) == (self.mode == "radius"):
            raise ValueError(f"mode='radius' needs a tolerance and no other mode takes one, got {self.tolerance}")
        if self.tolerance is not None and not 0 < self.tolerance < 1:
            raise ValueError(f"tolerance must lie strictly between 0 and 1, got {self.tolerance}")

    def check_bound(self, bound: Bound) -> None:
        """Refuse class bounds for a rule that bounds only one class."""
        if self.mode == "curve" and bound != "cohen":
            raise ValueError(f"mode='curve' bounds one class only: use bound='cohen', got {bound!r}")

    @classmethod
    def of(cls, mode: Mode, n_max: int, *, radii: Sequence[float] = (), tolerance: float | None = None) -> Self:
        """A schedule; if its mode needs a tolerance and none is given, it gets the default."""
        default = TOLERANCE if mode == "radius" else None
        if isinstance(radii, str) or not isinstance(radii, Iterable):
            raise ValueError(f"radii must be a list of numbers, got {radii!r}")
        grid = tuple(as_number("each of radii", radius) for radius in radii)
        return cls(mode, n_max, grid, default if tolerance is None else as_number("tolerance", tolerance))

    def __str__(self) -> str:
        """The rule in words.

        >>> str(Schedule("fixed", 50_000)), str(Schedule("radius", 50_000, tolerance=0.01))
        ('50,000', 'up to 50,000, planned within 1% of the radius')
        """
        if self.mode == "radius":
            return f"up to {self.n_max:,}, planned within {100 * (self.tolerance or 0):g}% of the radius"
        if self.mode == "curve":
            return f"up to {self.n_max:,}, until decided at {', '.join(map(radius_name, self.radii))}"
        return f"{self.n_max:,}"


def radius_name(radius: float) -> str:
    """A decided radius in six digits, rounded but never up.

    >>> radius_name(0.25), radius_name(2 / 255), radius_name(1.99999815)
    ('0.25', '0.00784313', '1.99999')
    """
    short = f"{radius:g}"
    if float(short) <= math.nextafter(radius, math.inf):
        return short
    return f"{Context(prec=6, rounding=ROUND_DOWN).create_decimal_from_float(radius):f}"


def stopped_by_data(mode: Mode, ended: Ending) -> bool:
    """Whether the votes decided when to stop, so that they must never be bounded again.

    In curve mode this is always so, even at the last look: the votes decided that the image got that far.
    """
    return mode == "curve" or ended != "planned"


@dataclass(frozen=True)
class Outcome:
    """How the draws of one image ended.

    planned is the number of draws set before the first draw. certified is the number of certified radii of the grid.
    p_lower is a lower bound on the class's probability, valid with probability at least 1 - alpha (curve only, else 0).
    """

    schedule: Schedule
    planned: int
    ended: Ending
    counts: tuple[int, ...]
    certified: int = 0
    p_lower: float = 0.0

    @property
    def stopped_by_data(self) -> bool:
        """Whether the votes must never be bounded again."""
        return stopped_by_data(self.schedule.mode, self.ended)

    @property
    def radius(self) -> float:
        """The largest certified radius of the grid, or 0."""
        return self.schedule.radii[self.certified - 1] if self.certified else 0.0
