"""Benchmarks that decode their images when they are needed: CelebA, ImageNet, any folder."""

import os
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from jaxtyping import Int64, Shaped, UInt8
from PIL import Image
from torch import Tensor
from torch.utils.data import DataLoader, Dataset

from ars.data.benchmark import ALL_ROWS, PARTS, ByteImages, Chosen, Labelled, LabelledBytes, Part, Split, generator
from ars.data.files import Files
from ars.data.image_files import open_upright, to_unit
from ars.data.settings import DataError

Labels = Int64[np.ndarray, " n"]
Names = Shaped[np.ndarray, " n"]
AT_ONCE = 64  # up to this many examples are decoded in the calling process instead of the workers


@dataclass(frozen=True)
class Pictures(ABC):
    """Labelled pictures in files; can be pickled for other processes."""

    files: Files
    names: Mapping[Part, Names]
    labels: Mapping[Part, Labels]

    def open(self, part: Part, index: int) -> tuple[Image.Image, str]:
        """A picture in its own mode, and its path for messages."""
        name = self.names[part][index].decode(errors="surrogateescape")
        path = f"{self.files.path}/{name}"
        return open_upright(self.files.read(name), path), path

    @abstractmethod
    def view(self, part: Part, index: int, key: Sequence[int]) -> UInt8[np.ndarray, "c h w"]:
        """The model's view of a picture; everything random about it is hashed from the key."""


def as_array(names: Sequence[str]) -> Names:
    """Names as bytes: reference counts would cause a million Python strings to be copied into every worker."""
    return np.array([name.encode(errors="surrogateescape") for name in names], dtype=np.bytes_)


@dataclass(frozen=True)
class Request:
    """A batch to decode; the picture with this index gets the key (*key, index)."""

    part: Part
    indices: Sequence[int]
    key: tuple[int, ...]


@dataclass
class _Requests:
    """The queue of the loader, which is read at the start of each iteration."""

    queue: Iterable[Request] = ()

    def __iter__(self) -> Iterator[Request]:
        return iter(self.queue)


class _Decoder(Dataset[Any]):
    """Runs in a worker. An error is returned as its message, not as a traceback through two processes."""

    def __init__(self, pictures: Pictures) -> None:
        self.pictures = pictures

    def __getitem__(self, request: Request) -> Tensor | str:
        try:
            views = [self.pictures.view(request.part, index, (*request.key, index)) for index in request.indices]
        except DataError as error:
            return str(error)
        return torch.from_numpy(np.stack(views))


@dataclass
class DecodingPool:
    """Decodes requests in order. Idle loaders keep their workers alive for the next call."""

    pictures: Pictures
    workers: int
    pin: bool = False
    _idle: list[tuple[DataLoader[Any], _Requests]] = field(default_factory=list)

    def decode(self, queue: Iterable[Request]) -> Iterator[UInt8[Tensor, "b c h w"]]:
        """One tensor per request."""
        loader, requests = self._idle.pop() if self._idle else self._start()
        requests.queue = queue
        try:
            for batch in loader:
                if isinstance(batch, str):
                    raise DataError(batch)
                yield batch
        finally:
            self._idle.append((loader, requests))

    def decode_part(self, part: Part) -> Iterator[UInt8[Tensor, "b c h w"]]:
        """Every picture of a part, in order, in one fixed view."""
        count = len(self.pictures.labels[part])
        starts = range(0, count, AT_ONCE)
        return self.decode([Request(part, range(at, min(at + AT_ONCE, count)), (0, 0)) for at in starts])

    def _start(self) -> tuple[DataLoader[Any], _Requests]:
        requests = _Requests()
        loader: DataLoader[Any] = DataLoader(
            _Decoder(self.pictures),
            batch_size=None,  # each request is one item, a whole batch
            sampler=requests,
            num_workers=self.workers,
            persistent_workers=self.workers > 0,
            pin_memory=self.pin,
            generator=torch.Generator(),  # without one, each iteration would use the global generator
        )
        return loader, requests


class DecodedImages(ByteImages):
    """Pictures with random views in training and one fixed view per index in validation and testing.

    The random view of a training image is hashed from (seed, epoch, index), so the number of workers and interruptions
    change no pixel.
    """

    moments_batch = 100

    def __init__(
        self,
        pictures: Pictures,
        *,
        title: str,
        class_names: Sequence[str],
        size: tuple[int, int],
        channels: int = 3,
        seed: int = 0,
        digest: str = "",
        chosen: Chosen | None = None,
        workers: int | None = None,
        device: torch.device | None = None,
    ) -> None:
        """size is the height and width, workers the number of processes (default: one per core; 0: none).

        digest is for caches.
        """
        self.title, self.class_names, self.seed, self.digest = title, class_names, seed, digest
        self.shape, self.chosen = (channels, *size), chosen
        self.workers = cores() if workers is None else workers
        self._pictures = pictures
        self._here = DecodingPool(pictures, 0)
        self._put(device or torch.device("cpu"))
        self._need("test")

    def _put(self, device: torch.device) -> None:
        self.device = device
        self._labels = {part: torch.from_numpy(self._pictures.labels[part]).to(device) for part in PARTS}
        self._pool = DecodingPool(self._pictures, self.workers, pin=device.type == "cuda")

    def _need(self, part: Part) -> None:
        """Refuse a part without images; a benchmark with only test images is allowed until others are needed."""
        if not len(self._labels[part]):
            raise DataError(f"{self.title}: the {part} part should hold images, found none; add some")

    def train_bytes(
        self, epoch: int, *, seed: int, batch_size: int, start: int = 0, rows: slice = ALL_ROWS
    ) -> Iterator[LabelledBytes]:
        """The training batches as bytes, on the CPU."""
        self._need("train")
        order = torch.randperm(self.train_size(), generator=generator(seed, epoch)).numpy()
        starts = range(0, self.train_size() - batch_size + 1, batch_size)[start:]
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

    def check(self) -> int:
        """Decode every image once and return their number; an error names the first that cannot be decoded."""
        return sum(len(batch) for part in PARTS for batch in self._pool.decode_part(part))


def cores() -> int:
    """The cores that this process may use, shared among the processes that torchrun started on this machine."""
    total = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    sharing = os.environ.get("LOCAL_WORLD_SIZE", "1")
    return max(1, total // int(sharing)) if sharing.isdecimal() and int(sharing) else total
