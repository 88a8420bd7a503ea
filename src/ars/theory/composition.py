"""Composition: the guarantee of several releases, each of which may depend on the earlier ones."""

import math
from collections.abc import Sequence

from ars.theory.rounding import up
from ars.theory.tradeoff import Gaussian, TradeOff


def compose(*parts: TradeOff) -> TradeOff:
    """Adaptive composition of G_mu_1, ..., G_mu_k is G_mu, mu^2 = mu_1^2 + ... + mu_k^2, Eq. (3); mu is rounded up.

    >>> compose(Gaussian(3.0), Gaussian(4.0)).mu >= 5.0
    True
    """
    if not parts:
        raise ValueError("nothing to compose: give at least one trade-off function")
    if len(parts) == 1:
        return parts[0]
    gaussians = [part for part in parts if isinstance(part, Gaussian)]
    if len(gaussians) < len(parts):
        kinds = ", ".join(sorted({type(part).__name__ for part in parts}))
        raise TypeError(f"only Gaussian trade-off functions compose in closed form, got {kinds}")
    return Gaussian(up(math.hypot(*(part.mu for part in gaussians))))


def total_noise(sigmas: Sequence[float]) -> float:
    """1/sqrt(1/sigma_1^2 + ... + 1/sigma_k^2), the one noise level that k steps amount to (Thm 2.3), rounded down.

    >>> total_noise([1.0]) <= 1.0
    True
    """
    if not sigmas or not all(0 < sigma < math.inf for sigma in sigmas):
        raise ValueError(f"need one or more positive noise levels, got {list(sigmas)}")
    return 1 / up(math.hypot(*(1 / sigma for sigma in sigmas)))


def split_noise(sigma: float, *, first: float) -> tuple[float, float]:
    """Split a noise budget over two steps: (sigma_1, sigma_2), sigma_2 = 1/sqrt(1/sigma^2 - 1/sigma_1^2), rounded up.

    >>> first, second = split_noise(0.5, first=0.5 * 2**0.5)
    >>> round(second / first, 9)
    1.0
    """
    if not 0 < sigma < first < math.inf:
        raise ValueError(f"need first > sigma > 0, got first={first}, sigma={sigma}")
    # 1 - (sigma/first)^2 as a product, so that first near sigma loses no digits
    left = (first - sigma) / first * (1 + sigma / first)
    return first, up(sigma / math.sqrt(left))


def noise_of_share(sigma: float, share: float) -> float:
    """The sigma_1 that spends a share phi = sigma^2 / sigma_1^2 of the budget on the first step (paper: one half)."""
    if not 0 < sigma < math.inf:
        raise ValueError(f"sigma must be positive and finite, got {sigma}")
    if not 0 < share < 1:
        raise ValueError(f"the first step's share must lie strictly between 0 and 1, got {share}")
    return sigma / math.sqrt(share)
