"""The reference of these tests: mpmath at 50 digits, which shares no code with the library."""

from collections.abc import Callable

import mpmath
import pytest
from mpmath import mpf

mpmath.mp.dps = 50


def normal_quantile(p: float) -> mpf:
    """Phi^-1(p) of the float64 number p itself, to about 50 digits."""
    exact = mpf(p)
    if exact < mpf("1e-9"):  # 2p - 1 would lose the digits of p: invert the logarithm of Phi instead
        start = -mpmath.sqrt(-2 * mpmath.log(exact))
        return mpmath.findroot(lambda x: mpmath.log(mpmath.ncdf(x)) - mpmath.log(exact), start)
    return mpmath.sqrt(2) * mpmath.erfinv(2 * exact - 1)


@pytest.fixture(scope="session")
def phi_inv() -> Callable[[float], mpf]:
    return normal_quantile
