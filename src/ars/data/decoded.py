"""Benchmarks whose images are decoded as they are needed: CelebA, ImageNet, any folder."""

import os
from collections.abc import Iterator, Sequence

import numpy as np
import torch
from jaxtyping import Int, UInt8
from torch import Tensor

from ars.data.benchmark import ALL_ROWS, PARTS, Benchmark, Chosen, Labelled, Part, Split
from ars.data.draws import generator
from ars.data.errors import DataError
from ars.data.loading import DecodingPool, Pictures, Request
from ars.data.moments import Moments, kept_moments
from ars.data.pasting import to_unit

MOMENTS_BATCH, MOMENTS_BATCHES = 100, 20
CHECKED_AT_ONCE = 32
AT_ONCE = 64  # images that an example call decodes in the calling process before it is worth asking the workers


class DecodedImages(Benchmark):
    """Pictures with random views in training and one fixed view an index in validation and testing.

    The random view of a training image is hashed from (seed, epoch, index), so that neither the number of workers nor
    an interruption changes a pixel.
    """

    def __init__(
        self,
        pictures: Pictures,
        *,
        title: str,
        class_names: Sequence[str],
        side: int,
        seed: int = 0,
        digest: str = "",
        chosen: Chosen | None = None,
        workers: int | None = None,
        device: torch.device | None = None,
    ) -> None:
        """Workers are processes, one a core by default, 0 for none; digest names the files, for the cache."""
        self.title, self.class_names, self.seed, self.digest = title, class_names, seed, digest
        self.shape, self.chosen = (3, side, side), chosen
        self.workers = cores() if workers is None else workers
        self.device = device or torch.device("cpu")
        self._pictures = pictures
        self._labels = {part: torch.from_numpy(pictures.labels(part)).to(self.device) for part in PARTS}
        self._need("test")
        self._pool = DecodingPool(pictures, self.workers, pin=self.device.type == "cuda")
        self._here = DecodingPool(pictures, 0)

    def to(self, device: torch.device) -> "DecodedImages":
        """The same benchmark with its batches on the device."""
        return DecodedImages(
            self._pictures,
            title=self.title,
            class_names=self.class_names,
            side=self.shape[1],
            seed=self.seed,
            digest=self.digest,
            chosen=self.chosen,
            workers=self.workers,
            device=device,
        )

    def _need(self, part: Part) -> None:
        """Test images alone will do until others are asked for."""
        if not len(self._labels[part]):
            raise DataError(f"{self.title}: the {part} part should hold images, found none; add some")

    def train_size(self) -> int:
        """The images that are not held out."""
        return len(self._labels["train"])

    def size(self, split: Split) -> int:
        """One input an image."""
        return len(self._labels[split])

    def train_batches(
        self, epoch: int, *, seed: int, batch_size: int, start: int = 0, rows: slice = ALL_ROWS
    ) -> Iterator[Labelled]:
        """Every training image once in random order; the last short batch is left out."""
        for images, labels in self.train_bytes(epoch, seed=seed, batch_size=batch_size, start=start, rows=rows):
            yield to_unit(images.to(self.device, non_blocking=True)), labels

    def train_bytes(
        self,
        epoch: int,
        *,
        seed: int,
        batch_size: int,
        start: int = 0,
        end: int | None = None,
        rows: slice = ALL_ROWS,
    ) -> Iterator[tuple[UInt8[Tensor, "b 3 h w"], Int[Tensor, " b"]]]:
        """The training batches from number start to end as bytes, not on the device yet."""
        self._need("train")
        order = torch.randperm(self.train_size(), generator=generator(seed, epoch)).numpy()
        starts = range(0, self.train_size() - batch_size + 1, batch_size)[start:end]
        batches = [order[at : at + batch_size][rows] for at in starts]
        queue = (Request("train", chosen.tolist(), (seed, epoch)) for chosen in batches)
        for chosen, images in zip(batches, self._pool.decode(queue), strict=True):
            yield images, self._labels["train"][chosen]

    def examples(self, split: Split, indices: Sequence[int]) -> Labelled:
        """The fixed inputs with these indices."""
        self._need(split)
        self.check_indices(split, indices)
        chunks = np.array_split(np.array(indices), max(1, self.workers)) if len(indices) > AT_ONCE else [indices]
        key = (self.seed, PARTS.index(split))
        queue = [Request(split, [int(index) for index in chunk], key) for chunk in chunks]
        pool = self._pool if len(indices) > AT_ONCE else self._here
        images = torch.cat(list(pool.decode(queue))) if len(indices) else torch.empty(0, *self.shape, dtype=torch.uint8)
        return to_unit(images.to(self.device)), self._labels[split][list(indices)]

    def labels(self, split: Split, indices: Sequence[int]) -> Int[Tensor, " b"]:
        """The classes of these inputs; nothing is decoded."""
        self.check_indices(split, indices)
        return self._labels[split][list(indices)]

    def check(self) -> int:
        """Decode every image once; the first that cannot be shown is named in an error. How many there are."""
        counts = {part: len(self._labels[part]) for part in PARTS}
        queue = (
            Request(part, range(at, min(at + CHECKED_AT_ONCE, count)), (0, 0))
            for part, count in counts.items()
            for at in range(0, count, CHECKED_AT_ONCE)
        )
        for _ in self._pool.decode(queue):
            pass
        return sum(counts.values())

    def moments(self) -> Moments:
        """Mean and standard deviation of each channel over training inputs, kept in the cache."""
        size = min(MOMENTS_BATCH, self.train_size())

        def batches() -> Iterator[UInt8[Tensor, "b 3 h w"]]:
            every = self.train_bytes(0, seed=self.seed, batch_size=size, end=MOMENTS_BATCHES)
            return (images for images, _ in every)

        return kept_moments(f"{self.title}, seed {self.seed}, {self.shape}, {self.digest}", batches)


def cores() -> int:
    """The cores that this process may use: its share, where torchrun started several on this machine."""
    every = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    sharing = os.environ.get("LOCAL_WORLD_SIZE", "1")
    return max(1, every // int(sharing)) if sharing.isdecimal() and int(sharing) else every
