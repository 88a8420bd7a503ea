"""From a radius to the probability that its class must have: what a radius fixed in advance asks of the votes."""

from collections.abc import Callable, Sequence

from scipy.special import ndtr

# How much larger than asked the radius at a level may be, or its Phi^-1 than the least one: it costs draws, not proofs.
CLOSE = 1e-6
# Phi^-1 of the largest probability below 1 that is worth asking for.
MOST = 8.0


def level_of(radius_of: Callable[[float], float], radius: float) -> float | None:
    """The least p, rounded up, with radius_of(p) >= radius; None where only certainty, p = 1, would do.

    radius_of(p) is the model's own certified radius where a class has at least probability p and the others share the
    rest. So a class whose probability exceeds the level is certified at the radius. For a Gaussian guarantee the level
    is Phi(radius / tau), found at once since the radius is linear in Phi^-1(p); it is searched for in general.

    >>> from ars.theory import rs_radius_l2
    >>> round(level_of(lambda p: rs_radius_l2(0.5, p, 1 - p), 0.5), 6)
    0.841345
    """
    if radius == 0:
        return 0.5
    low, high, found, reached = 0.0, MOST, 0.0, radius_of(float(ndtr(MOST)))
    if reached < radius:
        return None
    while high - low > CLOSE * high and reached > (1 + CLOSE) * radius:
        # the line through both ends, a little above where it says, or halfway where that makes no headway
        guess = low + (high - low) * (radius - found) / (reached - found) * (1 + CLOSE / 4)
        middle = guess if low < guess < high - (high - low) / 64 else (low + high) / 2
        value = radius_of(float(ndtr(middle)))
        if value >= radius:
            high, reached = middle, value
        else:
            low, found = middle, value
    return float(ndtr(high))


def levels_of(radius_of: Callable[[float], float], radii: Sequence[float]) -> tuple[float, ...]:
    """The levels of increasing radii, up to the last one that any number of votes could certify; they never fall."""
    levels: list[float] = []
    for radius in radii:
        level = level_of(radius_of, radius)
        if level is None:
            break
        levels.append(max([level, *levels[-1:]]))
    return tuple(levels)
