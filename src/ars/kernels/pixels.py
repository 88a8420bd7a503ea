"""The input of a fused network: one kernel turns images or releases into pixels, channels last."""

from collections.abc import Sequence

import torch
from jaxtyping import Float
from torch import Tensor, nn

from ars.models import Normalize
from ars.smoothing import minimum_variance
from ars.smoothing.mechanism import Release


class FromImages(nn.Module):
    """A network on pixels [b, h, w, 4] as a network on images [b, c, h, w]."""

    def __init__(self, network: nn.Module, dtype: torch.dtype) -> None:
        super().__init__()
        self.network, self.dtype = network, dtype

    def forward(self, x: Float[Tensor, "b c h w"]) -> Tensor:
        """The network's output."""
        one = torch.ones((1, 1, 1, 1), device=x.device)
        return self.network(as_pixels([Release(x, one, one)], self.dtype))  # type: ignore[no-any-return]


class Finish:
    """last or minimum_variance, and Normalize, in one kernel: from the releases to the input of a fused classifier."""

    def __init__(self, combine: object, normalize: Normalize, dtype: torch.dtype) -> None:
        self.averaged, self.dtype = combine is minimum_variance, dtype
        self.mean, self.std = (part.flatten().float().contiguous() for part in (normalize.mean, normalize.std))

    def __call__(self, releases: Sequence[Release]) -> Float[Tensor, "b h w 4"]:
        """Pixels of the combined image, normalised."""
        if not self.averaged:
            releases = releases[-1:]
        elif not _paired(releases):
            one = torch.ones((1, 1, 1, 1), device=releases[0].value.device)
            releases = [Release(minimum_variance(releases), one, one)]
        return as_pixels(releases, self.dtype, self.mean, self.std)


def as_pixels(
    releases: Sequence[Release], dtype: torch.dtype, mean: Tensor | None = None, std: Tensor | None = None
) -> Float[Tensor, "b h w 4"]:
    """Images in the layout of the kernels: channels last, padded with zeros to four channels."""
    from ars.kernels.triton.pixels import run_pixels  # imports triton

    return run_pixels(releases, dtype, mean, std)


def _paired(releases: Sequence[Release]) -> bool:
    """Whether these are a release with a single weight and one with a weight per pixel."""
    if len(releases) != 2:
        return False
    first, second = releases
    batch, _, height, width = second.value.shape
    return (
        first.weight.shape == first.std.shape == (1, 1, 1, 1)
        and second.weight.shape == (batch, 1, height, width)
        and second.std.shape == (batch, 1, 1, 1)
    )
