"""Combine: the releases become one image for the classifier, perhaps through a denoiser.

All of it is post-processing: it sees the releases, never X, and costs nothing in the certificate.
"""

from collections.abc import Callable, Sequence
from inspect import signature
from typing import Any

from jaxtyping import Float
from torch import Tensor, nn

from ars.smoothing.mechanism import Generators, Images, Release

Combine = Callable[..., Images]
"""A function or module of the releases and, if it has a parameter of that name, of the draw's generator."""


def minimum_variance(releases: Sequence[Release]) -> Images:
    """The unbiased combination of least variance: sum_j (w_j/s_j^2) m_j / sum_j (w_j^2/s_j^2).

    For two steps, the first unmasked, this is c_1 m_1 + c_2 m_2 of Sec. 3 (with the variance of m_2 as in Prop. 2.4,
    not as printed there). A pixel that every step masked out carries no information and comes out as 0.
    """
    weighted = sum(release.weight / release.std**2 * release.value for release in releases)
    return weighted / _precision(releases)


def noise_map(releases: Sequence[Release]) -> Float[Tensor, "b #c h w"]:
    """The standard deviation of minimum_variance: s = (sum_j w_j^2 / s_j^2)^(-1/2), by pixel."""
    size = releases[0].value.shape
    return _precision(releases).rsqrt().expand(size[0], -1, *size[2:])


def _precision(releases: Sequence[Release]) -> Tensor:
    return sum((release.weight / release.std) ** 2 for release in releases).clamp_min(1e-12)  # type: ignore[union-attr]


def last(releases: Sequence[Release]) -> Images:
    """The last release as it is."""
    return releases[-1].value


class Denoised(nn.Module):
    """denoiser(x, s): x the combination of least variance, s its noise map, one channel unless masks have several.

    A denoiser with randomness of its own has a parameter ``generator``, and draws with ars.draw_like.
    """

    def __init__(self, denoiser: nn.Module) -> None:
        super().__init__()
        self.denoiser = denoiser

    def forward(self, releases: Sequence[Release], generator: Generators) -> Images:
        """The denoised image."""
        denoised: Images = with_generator(self.denoiser, minimum_variance(releases), noise_map(releases), generator)
        return denoised


def with_generator(function: Callable[..., Any], *given: Any) -> Any:
    """Call a function or module with what is given, the last, a generator, only if it has a parameter of that name.

    >>> with_generator(lambda releases: releases, 1, "generator")
    1
    >>> with_generator(lambda releases, generator: generator, 1, "generator")
    'generator'
    """
    *others, generator = given
    return function(*others, generator=generator) if takes_generator(function) else function(*others)


def takes_generator(function: Callable[..., Any]) -> bool:
    """Whether a function, or the forward pass of a module, has a parameter called generator."""
    try:
        return "generator" in signature(function.forward if isinstance(function, nn.Module) else function).parameters
    except (TypeError, ValueError):  # some built-in functions have no signature
        return False
