"""Upper bounds on E(S - q)_+, S the sum of d independent scores of generalised normal noise.

A score is spread over the two grid points around it, preserving its mean. This is larger in convex order, also for the
sum, so E(S - q)_+ only grows. The sum is computed by FFT under exponential tilts, which preserve the relative accuracy
of the tail. The error of the FFT is added as mass at the worst place.
"""

import math

import numpy as np
from numpy.typing import NDArray
from scipy.special import gammaincc

from ars.theory.numeric import convolution_power

Floats = NDArray[np.float64]

# Grid step relative to the standard deviation of a score: Psi is overstated by about a twelfth of its square.
STEP = 4e-3
# A score's tail beyond |x|^beta = this is charged in full; it is about exp(-80).
FAR = 80.0
# Tilts in standard deviations of S; each gives a bound at every q, best around q = tilt.
TILTS = (0.5, 2.0, 4.0, 6.0, 8.0)
# Total variation charged for the FFT and its truncation, for each of the d factors.
FFT_ERROR = 1e-14
TRUNCATION = 1e-18
# Relative error of the weights' second differences, far below this.
MARGIN = 1e-9


def score_variance(beta: float) -> float:
    """E Y^2 = beta^2 Gamma(2 - 1/beta) / Gamma(1/beta), Y = beta sign(x)|x|^(beta-1): the Fisher information."""
    return beta**2 * math.exp(math.lgamma(2 - 1 / beta) - math.lgamma(1 / beta))


def score_weights(beta: float) -> tuple[float, Floats, float]:
    """(step, weights at -K..K, E(Y - K step)_+): the second differences of c(y) = E(Y - y)_+ over the step.

    With g = (y/beta)^(beta/(beta-1)): c(y) = beta e^-g / (2 Gamma(1/beta)) - y P(Gamma(1/beta) > g) / 2.
    """
    if beta == 1:  # the score is a sign: two atoms, on a grid of step 1
        return 1.0, np.array([0.5, 0.0, 0.5]), 0.0
    step = STEP * math.sqrt(score_variance(beta))
    size = math.ceil(beta * FAR ** (1 - 1 / beta) / step)
    y = step * np.arange(size + 1)
    g = (y / beta) ** (beta / (beta - 1))
    excess = beta * np.exp(-g) / (2 * math.gamma(1 / beta)) - y * gammaincc(1 / beta, g) / 2
    excess = np.maximum(excess, 0.0)
    fall = -np.diff(excess)
    upper = np.append(fall[:-1] - fall[1:], fall[-1]) / step
    weights = np.concatenate([upper[::-1], [1 - 2 * fall[0] / step], upper])
    return step, np.maximum(weights, 0.0), float(excess[-1])


def expected_excess(beta: float, dim: int, levels: Floats) -> tuple[Floats, Floats]:
    """(q, bound on E(S - q)_+) at levels >= 0 given in standard deviations of S, moved to the grid."""
    step, weights, cut = score_weights(beta)
    size = len(weights) // 2
    deviation = math.sqrt(dim * score_variance(beta))
    index = np.unique(np.floor(levels * deviation / step).astype(np.int64))
    best = np.full(len(index), math.inf)
    for tilt in TILTS:
        rate = tilt * step / deviation
        tilted = weights * np.exp(rate * np.arange(-size, size + 1))
        moment = float(tilted.sum())
        start, mass = convolution_power(tilted / moment, dim, TRUNCATION)
        start -= dim * size
        place = index - start
        inside = (place >= 0) & (place < len(mass))
        bound = np.where(place < 0, math.inf, 0.0)  # no bound below the grid, only the error above it
        bound[inside] = _excess(mass, rate)[place[inside]]
        # (s - q) e^(-rate (s - q)) is at most 1 / (e rate): the FFT's possible error, at the worst place
        bound += FFT_ERROR * dim / (math.e * rate)
        best = np.minimum(best, np.exp(dim * math.log(moment) - rate * index) * bound)
    return np.float64(step) * index, (step * best + dim * cut) * (1 + MARGIN)


def _excess(mass: Floats, rate: float) -> Floats:
    """Sum over k >= j of (k - j) e^(-rate (k - j)) mass[k] for every j, by a recursion without cancellation."""
    from scipy.signal import lfilter  # slow to import and needed only here

    shrink = math.exp(-rate)
    total = lfilter([1.0], [1.0, -shrink], mass[::-1])
    excess: Floats = lfilter([0.0, shrink], [1.0, -shrink], total)[::-1]
    return excess
