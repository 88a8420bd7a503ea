"""Noise that follows the data (Sukenik et al.): more of it where an image is far from the training images."""

import math

import torch
from jaxtyping import Float, Shaped
from torch import Tensor, nn

from ars.smoothing.gaussian import check_sigma
from ars.smoothing.mechanism import Images

# float64 values in one block of differences: 64 MB
BLOCK = 2**23
QUERIES = 1024


class NearestNoise(nn.Module):
    """sigma(x) = sigma exp(rate (D(x) - centre)), D the mean L2 distance to the nearest reference images.

    D is 1-Lipschitz in L2, being the least of means of distances, so |log sigma(x) - log sigma(x')| <= rate ||x - x'||.
    The references, in [0, 1] or 8-bit, move with the module and are not part of its saved state.
    """

    references: Tensor

    def __init__(
        self,
        references: Shaped[Tensor, "n c h w"],
        *,
        sigma: float,
        centre: float,
        rate: float = 0.01,
        neighbours: int = 20,
    ) -> None:
        super().__init__()
        if not 1 <= neighbours <= len(references):
            raise ValueError(f"need 1 to {len(references)} neighbours, the number of references, got {neighbours}")
        if not 0 <= rate < math.inf:
            raise ValueError(f"rate must be at least 0 and finite, got {rate}")
        self.sigma = check_sigma(sigma)
        self.centre = centre
        self.rate = rate
        self.neighbours = neighbours
        self.register_buffer("references", references, persistent=False)

    def forward(self, x: Images) -> Float[Tensor, "b"]:
        """sigma(x) of every image, in float64."""
        return self.of_distance(mean_distance(x, self.references, self.neighbours))

    def of_distance(self, distance: Float[Tensor, "b"]) -> Float[Tensor, "b"]:
        """The noise level at a mean distance D; its mean over the training set is the constant level to train with."""
        return self.sigma * torch.exp(self.rate * (distance - self.centre))


@torch.no_grad()
def mean_distance(
    x: Images, references: Shaped[Tensor, "n c h w"], neighbours: int, *, skip_nearest: bool = False
) -> Float[Tensor, "b"]:
    """The mean L2 distance of each image to its nearest references, in float64 and from differences.

    skip_nearest leaves out the nearest one: itself, for images that are among the references.
    """
    first = int(skip_nearest)
    parts = [
        _nearest(_pixels(x[start : start + QUERIES]), references, neighbours + first)
        for start in range(0, len(x), QUERIES)
    ]
    return torch.cat(parts)[:, first:].mean(dim=1)


def _nearest(
    queries: Float[Tensor, "b d"], references: Shaped[Tensor, "n c h w"], wanted: int
) -> Float[Tensor, "b wanted"]:
    """The least distances of each query, in increasing order."""
    nearest = torch.empty((len(queries), 0), dtype=torch.float64, device=queries.device)
    size = max(1, BLOCK // queries.shape[1])
    for start in range(0, len(references), size):
        block = _pixels(references[start : start + size].to(queries.device))
        # never |x|^2 - 2 x.y + |y|^2, which loses all the digits of a small distance
        distance = torch.cdist(queries, block, compute_mode="donot_use_mm_for_euclid_dist")
        both = torch.cat([nearest, distance], dim=1)
        nearest = both.topk(min(wanted, both.shape[1]), dim=1, largest=False, sorted=True).values
    return nearest


def _pixels(images: Shaped[Tensor, "n c h w"]) -> Float[Tensor, "n d"]:
    """Flat images in [0, 1], float64; 8-bit ones are divided by 255."""
    flat = images.flatten(1).double()
    return flat if images.is_floating_point() else flat / 255
