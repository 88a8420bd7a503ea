"""What every benchmark offers: random training batches, and fixed validation and test inputs."""

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

import torch
from jaxtyping import Float, Int, Shaped
from torch import Tensor

Split = Literal["validation", "test"]
Part = Literal["train", "validation", "test"]
PARTS: tuple[Part, ...] = ("train", "validation", "test")
ALL_ROWS = slice(None)
Labelled = tuple[Float[Tensor, "b c h w"], Int[Tensor, " b"]]
NAMED = 8  # classes that are named in full


@dataclass(frozen=True)
class Chosen:
    """The test images of a folder of one's own: how they were chosen, in words, the file of each, a digest of all.

    order names the order that they are in.
    """

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
    """The name that stands beside every number."""
    class_names: Sequence[str]
    shape: tuple[int, int, int]
    """Channels, height, width of an input."""
    chosen: Chosen | None = None

    @abstractmethod
    def train_batches(
        self, epoch: int, *, seed: int, batch_size: int, start: int = 0, rows: slice = ALL_ROWS
    ) -> Iterator[Labelled]:
        """The batches of one epoch from number start on, a pure function of (seed, epoch, batch_size).

        Only these rows of each batch are made, the same as in the whole batch: processes that train together share it.
        """

    def references(self) -> Shaped[Tensor, "n c h w"]:
        """Fixed training inputs that stand for the training set, in [0, 1] or as bytes: one fixed epoch's."""
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
        """The classes of these inputs; a benchmark whose inputs take long to make tells them without making any."""
        return self.examples(split, indices)[1]

    def boxes(self, split: Split, indices: Sequence[int]) -> Int[Tensor, "b 4"] | None:
        """Top, left, height and width of what is to be recognised in these inputs, where the benchmark knows."""
        return None

    @abstractmethod
    def moments(self) -> tuple[list[float], list[float]]:
        """Mean and standard deviation of each channel over training inputs, for normalisation."""

    @abstractmethod
    def to(self, device: torch.device) -> "Benchmark":
        """The same benchmark with its tensors on the device."""

    def check_indices(self, split: Split, indices: Sequence[int]) -> None:
        """Refuse indices that the split does not have."""
        if not all(0 <= index < self.size(split) for index in indices):
            raise ValueError(f"{self.title}: {split} indices run from 0 to {self.size(split) - 1}, got {list(indices)}")


def name_classes(names: Sequence[str]) -> str:
    """The classes by number; of many, the first and the last.

    >>> name_classes(["cat", "dog"]), name_classes([f"n{number}" for number in range(1000)])
    ('0 cat, 1 dog', '0 n0, 1 n1, 2 n2, 3 n3, 4 n4, 5 n5, 6 n6, ..., 999 n999')
    """
    numbered = [name if name == str(number) else f"{number} {name}" for number, name in enumerate(names)]
    return ", ".join(numbered if len(names) <= NAMED else [*numbered[: NAMED - 1], "...", numbered[-1]])
