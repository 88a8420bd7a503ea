"""Decoding in worker processes that stay alive between epochs; which worker decodes an image changes no pixel."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol, runtime_checkable

import numpy as np
import torch
from jaxtyping import Int64, UInt8
from torch import Tensor
from torch.utils.data import DataLoader, Dataset

from ars.data.benchmark import Part
from ars.data.errors import DataError


@runtime_checkable
class Pictures(Protocol):
    """Labelled pictures in files; can be sent to other processes."""

    def labels(self, part: Part) -> Int64[np.ndarray, " n"]:
        """The label of each picture of the part."""

    def view(self, part: Part, index: int, key: Sequence[int]) -> UInt8[np.ndarray, "3 h w"]:
        """What the model sees of a picture; all that is random about it is hashed from the key."""


@dataclass(frozen=True)
class Request:
    """A batch to decode: picture index gets the key (*key, index)."""

    part: Part
    indices: Sequence[int]
    key: tuple[int, ...]


@dataclass
class _Requests:
    """What the loader is to do next: read anew at the start of each iteration."""

    queue: Iterable[Request] = ()

    def __iter__(self) -> Iterator[Request]:
        return iter(self.queue)


class _Decoder(Dataset[Any]):
    """Runs in a worker. An error comes back as its sentence, not as a traceback through two processes."""

    def __init__(self, pictures: Pictures) -> None:
        self.pictures = pictures

    def __getitems__(self, request: Request) -> Tensor | str:
        try:
            views = [self.pictures.view(request.part, index, (*request.key, index)) for index in request.indices]
        except DataError as error:
            return str(error)
        return torch.from_numpy(np.stack(views))

    def __getitem__(self, request: Request) -> Tensor | str:
        return self.__getitems__(request)


@dataclass
class DecodingPool:
    """Decodes requests in order. Loaders that are not in use wait for the next call with their workers alive."""

    pictures: Pictures
    workers: int
    pin: bool = False
    _idle: list[tuple[DataLoader[Any], _Requests]] = field(default_factory=list)

    def decode(self, queue: Iterable[Request]) -> Iterator[UInt8[Tensor, "b 3 h w"]]:
        """One tensor a request."""
        loader, requests = self._idle.pop() if self._idle else self._start()
        requests.queue = queue
        try:
            for batch in loader:
                if isinstance(batch, str):
                    raise DataError(batch)
                yield batch
        finally:
            self._idle.append((loader, requests))

    def _start(self) -> tuple[DataLoader[Any], _Requests]:
        requests = _Requests()
        loader: DataLoader[Any] = DataLoader(
            _Decoder(self.pictures),
            batch_sampler=requests,  # type: ignore[arg-type]
            collate_fn=_as_it_is,
            num_workers=self.workers,
            persistent_workers=self.workers > 0,
            pin_memory=self.pin,
            generator=torch.Generator(),  # else each iteration would take a number from the global one
        )
        return loader, requests


def _as_it_is(batch: Any) -> Any:
    return batch
