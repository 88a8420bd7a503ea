"""Combine: the releases become one image for the classifier."""

from collections.abc import Sequence

from ars.smoothing.mechanism import Images, Release


def minimum_variance(releases: Sequence[Release]) -> Images:
    """The unbiased combination of least variance: sum_j (w_j/s_j^2) m_j / sum_j (w_j^2/s_j^2).

    For two steps, the first unmasked, this is c_1 m_1 + c_2 m_2 of Sec. 3 (with the variance of m_2 as in Prop. 2.4,
    not as printed there). A pixel that every step masked out carries no information and comes out as 0.
    """
    weighted = sum(release.weight / release.std**2 * release.value for release in releases)
    precision = sum((release.weight / release.std) ** 2 for release in releases)
    return weighted / precision.clamp_min(1e-12)  # type: ignore[union-attr]


def last(releases: Sequence[Release]) -> Images:
    """The last release as it is."""
    return releases[-1].value
