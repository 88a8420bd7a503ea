"""Noise that depends on the image (Sukenik et al.): more of it far from the training images."""

import math
from collections.abc import Iterator, Sequence

import torch
from jaxtyping import Float, Int64, Shaped
from torch import Tensor, nn

from ars.smoothing.classifier import SmoothedClassifier
from ars.smoothing.combine import last
from ars.smoothing.gaussian import Gaussian, check_sigma
from ars.smoothing.mechanism import Composition, Images, compose
from ars.theory import Ball, Norm, UnsupportedThreat
from ars.theory.sukenik import sukenik_radius
from ars.theory.tradeoff import Gaussian as GaussianTradeOff

# float64 values in one block of differences: 64 MB
BLOCK = 2**23
QUERIES = 1024
# How many candidates beyond the wanted number get exact distances.
SPARE = 20
# The error of |x|^2 - 2 x.y + |y|^2 in float64, relative to |x|^2 + |y|^2, for up to a million pixels.
EXPANDED_ERROR = 1e-9


class NearestNoise(nn.Module):
    """sigma(x) = sigma exp(rate (D(x) - centre)), D the mean L2 distance to the nearest reference images.

    D is a minimum of means of distances and so 1-Lipschitz in L2: |log sigma(x) - log sigma(x')| <= rate ||x - x'||.
    The references, in [0, 1] or 8-bit, move with the module but are not part of its state dict.
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
        """The noise level at a mean distance D."""
        return self.sigma * torch.exp(self.rate * (distance - self.centre))


@torch.no_grad()
def mean_distance(
    x: Images, references: Shaped[Tensor, "n c h w"], neighbours: int, *, skip_nearest: bool = False
) -> Float[Tensor, "b"]:
    """The mean L2 distance of each image to its nearest references, from differences in float64.

    skip_nearest leaves out the nearest one, for images that are among the references.
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
    """The smallest distances of each query, in increasing order.

    Expanded squares only select candidates, whose distances are then computed exactly. If more references may be
    nearest than were kept, for example among many copies, all distances are computed.
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
    """The references that seem nearest, and a lower bound on the squared distance of all others."""
    query_squares = queries.square().sum(dim=1, keepdim=True)
    squares = torch.empty((len(queries), 0), dtype=torch.float64, device=queries.device)
    places = torch.empty((len(queries), 0), dtype=torch.int64, device=queries.device)
    largest = torch.zeros((), dtype=torch.float64, device=queries.device)
    for start, block in _blocks(references, queries):
        block_squares = block.square().sum(dim=1)
        largest = torch.maximum(largest, block_squares.max())
        squares = torch.cat([squares, torch.addmm(query_squares + block_squares, queries, block.T, alpha=-2)], dim=1)
        new = torch.arange(start, start + len(block), device=queries.device).expand(len(queries), -1)
        places = torch.cat([places, new], dim=1)
        squares, order = squares.topk(min(kept, squares.shape[1]), dim=1, largest=False, sorted=True)
        places = places.gather(1, order)
    return places, squares[:, -1] - EXPANDED_ERROR * (query_squares[:, 0] + largest)


def _distances(
    queries: Float[Tensor, "b d"], references: Shaped[Tensor, "n c h w"], places: Int64[Tensor, "b kept"]
) -> Float[Tensor, "b kept"]:
    """The distances of each query to its candidates, from differences."""
    near = _pixels(references[places.flatten().to(references.device)].to(queries.device))
    distances: Tensor = torch.linalg.vector_norm(near.view(*places.shape, -1) - queries[:, None], dim=2)
    return distances


def _from_all(
    queries: Float[Tensor, "b d"], references: Shaped[Tensor, "n c h w"], wanted: int
) -> Float[Tensor, "b wanted"]:
    """The smallest distances of each query, from differences to every reference."""
    nearest = torch.empty((len(queries), 0), dtype=torch.float64, device=queries.device)
    for _, block in _blocks(references, queries):
        distance = torch.cdist(queries, block, compute_mode="donot_use_mm_for_euclid_dist")
        both = torch.cat([nearest, distance], dim=1)
        nearest = both.topk(min(wanted, both.shape[1]), dim=1, largest=False, sorted=True).values
    return nearest


def _blocks(
    references: Shaped[Tensor, "n c h w"], queries: Float[Tensor, "b d"]
) -> Iterator[tuple[int, Float[Tensor, "m d"]]]:
    """Blocks of references that fit into memory with the queries, each with its start."""
    size = max(1, BLOCK // queries.shape[1])
    for start in range(0, len(references), size):
        yield start, _pixels(references[start : start + size].to(queries.device))


def _pixels(images: Shaped[Tensor, "n c h w"]) -> Float[Tensor, "n d"]:
    """Flat images in [0, 1] in float64; 8-bit images are divided by 255."""
    flat = images.flatten(1).double()
    return flat if images.is_floating_point() else flat / 255


class LocalGaussian(Gaussian):
    """m = X + z, z ~ N(0, sigma(x)^2 I), with the sigma(x) of one clean image x.

    Around x, log sigma changes by at most rate times the L2 distance; the radius accounts for that.
    """

    def __init__(self, sigma: float, rate: float) -> None:
        super().__init__(sigma)
        self.rate = rate

    def guarantee(self, ball: Ball) -> GaussianTradeOff:
        """Refuse: the noise level differs between X and X + e, so it is a release too and no G_mu holds."""
        raise UnsupportedThreat("noise of level sigma(x) has no f-DP guarantee; its certificate is in radius()")

    def radius(self, p_plus: float, p_minus: float, *, norm: Norm, dim: int) -> float:
        """Sukenik et al.'s radius; it bounds every other class by 1 - p_plus and ignores p_minus."""
        return sukenik_radius(self.sigma, self.rate, dim, p_plus, norm=norm)


class InputDependentClassifier(SmoothedClassifier):
    """Trained with constant noise; in certification, each image has its own mechanism."""

    def __init__(self, noise: NearestNoise, classifier: nn.Module, *, train_sigma: float) -> None:
        super().__init__(compose(LocalGaussian(train_sigma, noise.rate)), last, classifier)
        self.noise = noise

    def localise(self, images: Images) -> Sequence[Composition]:
        """For each clean image, Gaussian noise of level sigma(x)."""
        return [compose(LocalGaussian(level, self.noise.rate)) for level in self.noise(images).tolist()]
