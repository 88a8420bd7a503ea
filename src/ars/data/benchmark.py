"""The interface of every benchmark: random training batches, and fixed validation and test inputs."""

import hashlib
import json
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from copy import copy
from dataclasses import dataclass
from importlib import import_module
from itertools import islice
from typing import Literal

import numpy as np
import torch
from jaxtyping import Float, Float64, Int, Int64, Shaped, UInt8, UInt64
from torch import Tensor

from ars.atomic import write_whole
from ars.data.image_files import to_unit
from ars.data.locate import cache_to_write, cached
from ars.data.settings import Data, DataError, Kind

Split = Literal["validation", "test"]
Part = Literal["train", "validation", "test"]
PARTS: tuple[Part, ...] = ("train", "validation", "test")
ALL_ROWS = slice(None)
Labelled = tuple[Float[Tensor, "b c h w"], Int[Tensor, " b"]]
LabelledBytes = tuple[UInt8[Tensor, "b c h w"], Int[Tensor, " b"]]
Moments = tuple[list[float], list[float]]
MOMENTS_BATCHES = 20
NAMED = 8  # classes that are named in full


@dataclass(frozen=True)
class Chosen:
    """The test images of the user's own folder: how they were chosen, in words, and a digest of all files."""

    how: str
    files: tuple[str, ...]
    digest: str
    order: str


class Benchmark(ABC):
    """Images in [0, 1] with labels.

    A validation or test input is a pure function of (split, index, benchmark seed): the same image on every machine,
    in every process, for every method and batch size. Validation images are held out of the training set.
    """

    title: str
    """The name beside every result."""
    class_names: Sequence[str]
    shape: tuple[int, int, int]
    """Channels, height, width of an input."""
    chosen: Chosen | None = None

    @abstractmethod
    def train_batches(
        self, epoch: int, *, seed: int, batch_size: int, start: int = 0, rows: slice = ALL_ROWS
    ) -> Iterator[Labelled]:
        """The batches of one epoch from number start on, a pure function of (seed, epoch, batch_size).

        Only these rows of each batch are made, so that processes can share a batch; they are the same as in the whole.
        """

    def references(self) -> Shaped[Tensor, "n c h w"]:
        """Fixed training inputs that represent the training set, in [0, 1] or as bytes: those of one fixed epoch."""
        return torch.cat(
            [images for images, _ in self.train_batches(0, seed=0, batch_size=min(100, self.train_size()))]
        )

    @abstractmethod
    def train_size(self) -> int:
        """How many images an epoch has."""

    @abstractmethod
    def size(self, split: Split) -> int:
        """How many images a split has."""

    @abstractmethod
    def examples(self, split: Split, indices: Sequence[int]) -> Labelled:
        """The fixed inputs with these indices."""

    def labels(self, split: Split, indices: Sequence[int]) -> Int[Tensor, " b"]:
        """The classes of these inputs; benchmarks with slow inputs override this to avoid making them."""
        return self.examples(split, indices)[1]

    def boxes(self, split: Split, indices: Sequence[int]) -> Int[Tensor, "b 4"] | None:
        """Top, left, height and width of the object in these inputs, if the benchmark knows them."""
        return None

    @abstractmethod
    def moments(self) -> Moments:
        """Mean and standard deviation of each channel over training inputs, for normalisation."""

    @abstractmethod
    def to(self, device: torch.device) -> "Benchmark":
        """The same benchmark with its tensors on the device."""

    def check_indices(self, split: Split, indices: Sequence[int]) -> None:
        """Refuse indices that the split does not have."""
        if not all(0 <= index < self.size(split) for index in indices):
            raise ValueError(f"{self.title}: {split} indices run from 0 to {self.size(split) - 1}, got {list(indices)}")


class ByteImages(Benchmark):
    """A benchmark whose inputs are made as bytes, from images of which each has a label."""

    seed: int
    digest: str
    """Identifies the bytes of the images, for the cache of moments."""
    device: torch.device
    moments_batch: int
    _labels: Mapping[Part, Int[Tensor, " n"]]

    @abstractmethod
    def _put(self, device: torch.device) -> None:
        """Place the tensors and batches on a device."""

    def to(self, device: torch.device) -> "ByteImages":
        """The same benchmark with its tensors or batches on the device."""
        moved = copy(self)
        moved._put(device)
        return moved

    @abstractmethod
    def train_bytes(
        self, epoch: int, *, seed: int, batch_size: int, start: int = 0, rows: slice = ALL_ROWS
    ) -> Iterator[LabelledBytes]:
        """The training batches as bytes: every image once in random order; a last short batch is dropped."""

    def train_batches(
        self, epoch: int, *, seed: int, batch_size: int, start: int = 0, rows: slice = ALL_ROWS
    ) -> Iterator[Labelled]:
        """The same batches on the device, in [0, 1]."""
        for images, labels in self.train_bytes(epoch, seed=seed, batch_size=batch_size, start=start, rows=rows):
            yield to_unit(images.to(self.device, non_blocking=True)), labels

    def train_size(self) -> int:
        """The number of images that are not held out."""
        return len(self._labels["train"])

    def size(self, split: Split) -> int:
        """One input per image."""
        return len(self._labels[split])

    def labels(self, split: Split, indices: Sequence[int]) -> Int[Tensor, " b"]:
        """The classes of these inputs; no input is made."""
        self.check_indices(split, indices)
        return self._labels[split][list(indices)]

    def moments(self) -> Moments:
        """Mean and standard deviation of each channel over training inputs; they are cached."""
        size = min(self.moments_batch, self.train_size())
        batches = self.train_bytes(0, seed=self.seed, batch_size=size)
        images = (images for images, _ in islice(batches, MOMENTS_BATCHES))
        return kept_moments(f"{self.title}, seed {self.seed}, {self.shape}, {self.digest}", images)


def name_classes(names: Sequence[str]) -> str:
    """The classes by number; of many, only the first and the last.

    >>> name_classes(["cat", "dog"]), name_classes([f"n{number}" for number in range(1000)])
    ('0 cat, 1 dog', '0 n0, 1 n1, 2 n2, 3 n3, 4 n4, 5 n5, 6 n6, ..., 999 n999')
    """
    numbered = [name if name == str(number) else f"{number} {name}" for number, name in enumerate(names)]
    return ", ".join(numbered if len(names) <= NAMED else [*numbered[: NAMED - 1], "...", numbered[-1]])


def byte_moments(batches: Iterable[UInt8[Tensor, "_ c h w"]]) -> Moments:
    """Mean and standard deviation of each channel in [0, 1]; from exact counts, so the same on every device."""
    counts: Int64[Tensor, "c 256"] = torch.stack(
        [
            torch.stack([torch.bincount(channel.flatten(), minlength=256) for channel in batch.unbind(1)]).cpu()
            for batch in batches
        ]
    ).sum(dim=0)
    values: Float64[Tensor, " 256"] = torch.arange(256, dtype=torch.float64) / 255
    share = counts.double() / counts.sum(dim=1, keepdim=True)
    mean = share @ values
    variance = share @ values.square() - mean.square()
    return mean.tolist(), variance.clamp_min(0).sqrt().tolist()


def kept_moments(identity: str, batches: Iterable[UInt8[Tensor, "_ c h w"]]) -> Moments:
    """The moments of these batches, from the cache if they were computed; identity says all that determines them."""
    name = f"moments-{hashlib.sha256(identity.encode()).hexdigest()[:16]}.json"
    if (path := cached(name)) is not None:
        content = json.loads(path.read_text(encoding="utf-8"))
        return content["mean"], content["std"]
    mean, std = byte_moments(batches)
    with suppress(OSError, DataError):  # without a writable cache they are computed again next time
        write_whole(cache_to_write() / name, json.dumps({"mean": mean, "std": std, "of": identity}))
    return mean, std


def words(key: Sequence[int], count: int) -> UInt64[np.ndarray, " n"]:
    """Random 64-bit words; numpy guarantees that SeedSequence never changes, unlike its generators.

    >>> words([0, 1, 2], 1)
    array([3071860871404845570], dtype=uint64)
    """
    return np.random.SeedSequence(list(key)).generate_state(count, np.uint64)


def uniforms(key: Sequence[int], count: int) -> Float64[np.ndarray, " n"]:
    """Random numbers in [0, 1)."""
    return (words(key, count) >> np.uint64(11)) * 2.0**-53


def generator(*key: int) -> torch.Generator:
    """A CPU generator that depends only on the key, so that the draws are the same for every device."""
    return torch.Generator().manual_seed(int(np.random.SeedSequence(key).generate_state(1, np.uint32)[0]))


def share_of(name: str, salt: str) -> float:
    """A number in [0, 1) that depends only on the name and the salt.

    >>> round(share_of("train/cat/1.png", "validation"), 3)
    0.604
    """
    return int.from_bytes(hashlib.sha256(f"{salt}:{name}".encode(errors="surrogateescape")).digest()[:8]) / 2**64


def part_of(name: str, *, validation: float, test: float = 0.0) -> Part:
    """The part of a name, with these expected shares; it does not depend on other names, so files may be added."""
    share = share_of(name, "held out")
    if share < test:
        return "test"
    return "validation" if share < test + validation else "train"


def held_out(count: int, share: float) -> tuple[list[int], list[int]]:
    """The indices below count that remain, and a share (at least one) that is held out; they depend on the count."""
    out = set(sorted(range(count), key=lambda index: share_of(str(index), "held out"))[: max(1, round(share * count))])
    return [index for index in range(count) if index not in out], sorted(out)


# The modules import this one, so they are imported when they are needed.
OPENED_BY: dict[Kind, str] = {
    "digits": "ars.data.digits:DigitsOnPhotographs",
    "cifar_backgrounds": "ars.data.cifar10:cifar_on_backgrounds",
    "celeba": "ars.data.celeba:celeba",
    "imagenet": "ars.data.imagenet:imagenet",
    "folder": "ars.data.folder:folder",
}


def open_benchmark(settings: Data, device: torch.device | None = None) -> Benchmark:
    """The benchmark, with its tensors or batches on the device."""
    module, name = OPENED_BY[settings.kind].split(":")
    opened: Benchmark = getattr(import_module(module), name)(**settings.options, device=device)
    return opened


Opener = Callable[[Data, torch.device], Benchmark]
"""A function that opens a benchmark: open_benchmark or a BenchmarkCache."""


class BenchmarkCache:
    """Opens benchmarks at the new places of moved data, and keeps the last one for the next call."""

    def __init__(self, moved: Mapping[str, str | None]) -> None:
        self._moved = moved
        self._last: tuple[Data, torch.device, Benchmark] | None = None

    def __call__(self, data: Data, device: torch.device) -> Benchmark:
        """The benchmark, which is opened only once for repeated calls."""
        data = data.at(self._moved)
        if self._last is None or self._last[:2] != (data, device):
            self._last = None  # frees memory before the next one is opened
            self._last = data, device, open_benchmark(data, device)
        return self._last[2]
