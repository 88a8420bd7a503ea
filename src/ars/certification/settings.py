"""How images are certified: settings that travel whole from the command line to the record; loads no torch."""

import math
import secrets
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from decimal import ROUND_DOWN, Context
from typing import Any, Literal, get_args

from ars.certification.bounds import Bound, check_alpha, least_draws
from ars.theory import Norm
from ars.theory.rounding import as_number, as_whole

Mode = Literal["fixed", "radius", "curve"]
MODES: tuple[Mode, ...] = get_args(Mode)
TOLERANCE = 0.01

BLOCK = 100
"""Draws that share a generator; a device batch consists of whole blocks."""

MOST_DRAWS = 2**31 * BLOCK
"""Per image and purpose: torch's CPU generator reads 32 bits of a seed, and one of them encodes the purpose."""

MOST_SEED = 2**32 - 1
"""A larger seed would repeat the noise of a smaller one in that generator."""


def fresh_seed() -> int:
    """A seed that nobody can know before the draws."""
    return secrets.randbits(32)


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
        exact: noise in whole units, so that float rounding reveals nothing to the network.
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
    exact: bool = False

    def __post_init__(self) -> None:
        if not isinstance(self.radii, Iterable):
            raise ValueError(f"radii must be a list of numbers, got {self.radii!r}")
        plain: dict[str, object] = {  # numbers of NumPy or torch are recorded as plain ones
            "alpha": check_alpha(self.alpha),
            "radii": tuple(as_number("each of radii", radius) for radius in self.radii),
            "n_select": as_whole("n_select", self.n_select, least=1, most=MOST_DRAWS),
            "n_estimate": as_whole("n_estimate", self.n_estimate, least=1, most=MOST_DRAWS),
            "seed": as_whole("certify.seed", self.seed, least=0, most=MOST_SEED),
        }
        if self.tolerance is not None:
            plain["tolerance"] = as_number("tolerance", self.tolerance)
        for name, value in plain.items():
            object.__setattr__(self, name, value)
        _ = self.schedule
        if self.examples < 1 or self.every < 1:
            raise ValueError(f"examples and every must be at least 1, got {self.examples} and {self.every}")
        least = least_draws(self.alpha, self.bound)
        if self.n_estimate < least:
            raise ValueError(
                f"n_estimate={self.n_estimate} cannot certify anything at alpha={self.alpha} even if all votes agree; "
                f"use at least {least} draws"
            )
        if self.mode == "curve" and self.bound != "cohen":
            raise ValueError(f"mode='curve' bounds one class only: use bound='cohen', got {self.bound!r}")

    def recorded(self) -> dict[str, Any]:
        """The settings as recipes and manifests hold them; exact, which older ones lack, only where it is on."""
        return {name: value for name, value in asdict(self).items() if value or name != "exact"}

    @property
    def schedule(self) -> Schedule:
        """The rule that ends the draws of an image; if it needs a tolerance and none is given, it gets the default."""
        tolerance = TOLERANCE if self.mode == "radius" and self.tolerance is None else self.tolerance
        return Schedule(self.mode, self.n_estimate, self.radii, tolerance)
