"""Composition: the guarantee of several releases, each of which may depend on the earlier ones."""

import math
from collections.abc import Sequence

from ars.theory.numeric import Numeric, numeric
from ars.theory.rounding import as_number, as_whole, up
from ars.theory.tradeoff import Approximate, Gaussian, Profiled, TradeOff


def compose(*parts: TradeOff) -> TradeOff:
    """Adaptive composition: step j is f_j-DP whatever the earlier ones released (Dong et al., Thm 3.2).

    G_mu_1, ..., G_mu_k give G_mu, mu^2 = mu_1^2 + ... + mu_k^2, Eq. (3), mu rounded up. Any other mix of symmetric
    trade-off functions is composed numerically, with a pessimistic result. Distances of approximate parts add up.

    >>> compose(Gaussian(3.0), Gaussian(4.0)).mu >= 5.0
    True
    """
    if not parts:
        raise ValueError("nothing to compose: give at least one trade-off function")
    if len(parts) == 1:
        return parts[0]
    if any(type(part) is Approximate for part in parts):
        # each step adds its distance, whatever the earlier ones released
        ideals = [part.ideal if type(part) is Approximate else part for part in parts]
        distance = up(sum(part.distance for part in parts if type(part) is Approximate))
        return Approximate(compose(*ideals), min(1.0, distance))
    gaussians = [part for part in parts if type(part) is Gaussian]  # a subclass may promise less
    others = [part for part in parts if type(part) is not Gaussian]
    closed = [Gaussian(up(math.hypot(*(part.mu for part in gaussians))))] if gaussians else []
    if not others:
        return closed[0]
    return numeric([*closed, *map(_composable, others)])


def repeat(part: TradeOff, count: int) -> TradeOff:
    """The composition of count equal parts, the product f (x) ... (x) f."""
    count = as_whole("count", count, least=1)
    if type(part) is Gaussian:
        return Gaussian(up(part.mu * math.sqrt(count)))
    if count == 1:
        return part
    part = _composable(part)
    parts = part.parts if isinstance(part, Numeric) else ((part, 1),)
    return Numeric(tuple((inner, times * count) for inner, times in parts))


def _composable(part: TradeOff) -> Profiled | Numeric:
    """Refuse a part without its own privacy profile; an inherited one may promise more than the part does."""
    kind = type(part)
    if not isinstance(part, Profiled | Numeric):
        raise TypeError(f"composition needs the privacy profile delta(eps) of every part, {kind.__name__} has none")
    composed_by = _defining(kind, "parts" if isinstance(part, Numeric) else "delta")
    promised_by = None if composed_by is None else _defining(composed_by, "__call__")
    abstract = getattr(promised_by, "__abstractmethods__", ())
    if promised_by not in (None, TradeOff, _defining(kind, "__call__")) and "__call__" not in abstract:
        raise TypeError(
            f"{kind.__name__} has its own trade-off function but inherits the privacy profile delta(eps), by which "
            "parts are composed; give it its own profile"
        )
    return part


def _defining(kind: type, name: str) -> type | None:
    """The class that defines a name; None if it is an attribute of the object."""
    names = {base: {*vars(base), *vars(base).get("__annotations__", {})} for base in kind.__mro__}
    return next((base for base, defined in names.items() if name in defined), None)


def total_noise(sigmas: Sequence[float]) -> float:
    """1/sqrt(1/sigma_1^2 + ... + 1/sigma_k^2), the one noise level that k steps amount to (Thm 2.3), rounded down."""
    sigmas = [as_number("sigma", sigma) for sigma in sigmas]
    if not sigmas or not all(0 < sigma < math.inf for sigma in sigmas):
        raise ValueError(f"need one or more positive noise levels, got {sigmas}")
    return 1 / up(math.hypot(*(1 / sigma for sigma in sigmas)))


def split_noise(sigma: float, *, first: float) -> tuple[float, float]:
    """Two steps that spend sigma: (sigma_1, sigma_2), sigma_2 = 1/sqrt(1/sigma^2 - 1/sigma_1^2), rounded up."""
    sigma, first = as_number("sigma", sigma), as_number("first", first)
    if not 0 < sigma < first < math.inf:
        raise ValueError(f"need first > sigma > 0, got first={first}, sigma={sigma}")
    # 1 - (sigma/first)^2 as a product, which loses no digits if first is near sigma
    left = (first - sigma) / first * (1 + sigma / first)
    return first, up(sigma / math.sqrt(left))


def noise_of_share(sigma: float, share: float) -> float:
    """The sigma_1 that spends a share phi = sigma^2 / sigma_1^2 of the budget on the first step (paper: one half)."""
    sigma, share = as_number("sigma", sigma), as_number("share", share)
    if not 0 < sigma < math.inf:
        raise ValueError(f"sigma must be positive and finite, got {sigma}")
    if not 0 < share < 1:
        raise ValueError(f"the first step's share must lie strictly between 0 and 1, got {share}")
    return sigma / math.sqrt(share)
