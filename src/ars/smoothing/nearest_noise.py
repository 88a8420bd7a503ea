"""Noise that follows the data (Sukenik et al.): more of it where an image is far from the training images."""

import math
from collections.abc import Iterator

import torch
from jaxtyping import Float, Int64, Shaped
from torch import Tensor, nn

from ars.smoothing.gaussian import check_sigma
from ars.smoothing.mechanism import Images

# float64 values in one block of differences: 64 MB
BLOCK = 2**23
QUERIES = 1024
# References beyond those wanted whose distances are taken exactly.
SPARE = 20
# What |x|^2 - 2 x.y + |y|^2 may lose in float64, relative to |x|^2 + |y|^2, for up to a million pixels.
EXPANDED_ERROR = 1e-9


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
        rate: float,
        neighbours: int,
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
    """The least distances of each query, in increasing order.

    Expanded squares only say which references come into question, and the distances to these are then exact. Where
    more come into question than were kept, as among many copies, all distances are taken.
    """
    kept = min(wanted + SPARE, len(references))
    places, limit = _candidates(queries, references, kept)
    size = max(1, BLOCK // (kept * queries.shape[1]))
    parts = [
        _distances(queries[start : start + size], references, places[start : start + size])
        for start in range(0, len(queries), size)
    ]
    nearest = torch.cat(parts).topk(wanted, dim=1, largest=False, sorted=True).values
    unsure = limit <= nearest[:, -1].square()
    if kept < len(references) and unsure.any():
        nearest[unsure] = _from_all(queries[unsure], references, wanted)
    return nearest


def _candidates(
    queries: Float[Tensor, "b d"], references: Shaped[Tensor, "n c h w"], kept: int
) -> tuple[Int64[Tensor, "b kept"], Float[Tensor, "b"]]:
    """The references that seem nearest, and a squared distance that no other one lies below."""
    own = queries.square().sum(dim=1, keepdim=True)
    squares = torch.empty((len(queries), 0), dtype=torch.float64, device=queries.device)
    places = torch.empty((len(queries), 0), dtype=torch.int64, device=queries.device)
    largest = torch.zeros((), dtype=torch.float64, device=queries.device)
    for start, block in _blocks(references, queries):
        theirs = block.square().sum(dim=1)
        largest = torch.maximum(largest, theirs.max())
        squares = torch.cat([squares, torch.addmm(own + theirs, queries, block.T, alpha=-2)], dim=1)
        new = torch.arange(start, start + len(block), device=queries.device).expand(len(queries), -1)
        places = torch.cat([places, new], dim=1)
        squares, order = squares.topk(min(kept, squares.shape[1]), dim=1, largest=False, sorted=True)
        places = places.gather(1, order)
    return places, squares[:, -1] - EXPANDED_ERROR * (own[:, 0] + largest)


def _distances(
    queries: Float[Tensor, "b d"], references: Shaped[Tensor, "n c h w"], places: Int64[Tensor, "b kept"]
) -> Float[Tensor, "b kept"]:
    """The distances of each query to references of its own, from differences."""
    near = _pixels(references[places.flatten().to(references.device)].to(queries.device))
    distances: Tensor = torch.linalg.vector_norm(near.view(*places.shape, -1) - queries[:, None], dim=2)
    return distances


def _from_all(
    queries: Float[Tensor, "b d"], references: Shaped[Tensor, "n c h w"], wanted: int
) -> Float[Tensor, "b wanted"]:
    """The least distances of each query, from differences to every reference."""
    nearest = torch.empty((len(queries), 0), dtype=torch.float64, device=queries.device)
    for _, block in _blocks(references, queries):
        distance = torch.cdist(queries, block, compute_mode="donot_use_mm_for_euclid_dist")
        both = torch.cat([nearest, distance], dim=1)
        nearest = both.topk(min(wanted, both.shape[1]), dim=1, largest=False, sorted=True).values
    return nearest


def _blocks(
    references: Shaped[Tensor, "n c h w"], queries: Float[Tensor, "b d"]
) -> Iterator[tuple[int, Float[Tensor, "m d"]]]:
    """The references by blocks that fit beside the queries, each with its place."""
    size = max(1, BLOCK // queries.shape[1])
    for start in range(0, len(references), size):
        yield start, _pixels(references[start : start + size].to(queries.device))


def _pixels(images: Shaped[Tensor, "n c h w"]) -> Float[Tensor, "n d"]:
    """Flat images in [0, 1], float64; 8-bit ones are divided by 255."""
    flat = images.flatten(1).double()
    return flat if images.is_floating_point() else flat / 255
