"""The arguments of a method's builder: the settings of its recipe, and the inputs that it is built for."""

from collections.abc import Mapping, Sequence
from typing import Any, Literal, Protocol

from jaxtyping import Shaped
from torch import Tensor


class MaskSettings(Protocol):
    """A recipe's settings of the mask network."""

    @property
    def width(self) -> int:
        """Base channels."""


class MethodSettings(Protocol):
    """A recipe's settings of its method; every Recipe fits."""

    @property
    def sigma(self) -> float:
        """The noise budget."""

    @property
    def share(self) -> float | Literal["learned"]:
        """The share of the budget for the first of two steps."""

    @property
    def beta(self) -> float | None:
        """The shape of generalised normal noise; None means the paper's."""

    @property
    def mask(self) -> MaskSettings:
        """The mask network."""

    @property
    def options(self) -> Mapping[str, Any]:
        """The options of a registered method."""


class Inputs(Protocol):
    """The inputs that a model is built for; every Benchmark fits."""

    @property
    def shape(self) -> tuple[int, int, int]:
        """Channels, height, width."""

    @property
    def class_names(self) -> Sequence[str]:
        """The classes in the order of their labels."""

    def moments(self) -> tuple[list[float], list[float]]:
        """Mean and standard deviation of each channel."""

    def references(self) -> Shaped[Tensor, "n c h w"]:
        """Training inputs that noise is measured from."""
