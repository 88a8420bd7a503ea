"""A network of another library as a classifier of images in [0, 1]: what belongs behind the noise is part of it."""

from collections.abc import Sequence
from copy import copy

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional as F

from ars.models import Normalize

Size = tuple[int, int]


class Adapted(nn.Module):
    """choose(logits(network(normalise(enlarge(x))))): images in [0, 1] to logits, ready to be smoothed.

    The certificate speaks of x, the image that the loader hands over. Shrinking and cropping happen before x, because
    they are no functions of x. A smaller x of the network's proportions is enlarged behind the noise.
    """

    def __init__(
        self,
        network: nn.Module,
        *,
        mean: Sequence[float],
        std: Sequence[float],
        size: Size | None = None,
        interpolation: str = "bilinear",
        class_names: Sequence[str] = (),
        loading: str = "",
    ) -> None:
        """size is the height and width of the network's input; None: any. loading says how the library makes it."""
        super().__init__()
        self.enlarge = Enlarge(size, interpolation) if size else nn.Identity()
        self.normalize = Normalize(mean, std)
        self.network = network
        self.choose: nn.Module = nn.Identity()
        self.class_names = tuple(class_names)
        self.loading = loading

    def forward(self, x: Float[Tensor, "b c h w"]) -> Float[Tensor, "b classes"]:
        """The logits of images of the network's size, or of smaller ones."""
        output = self.network(self.normalize(self.enlarge(x)))
        logits: Tensor = self.choose(getattr(output, "logits", output))
        return logits

    @property
    def image(self) -> str:
        """Which image a certificate speaks of."""
        channels, size = self.normalize.mean.shape[1], self.enlarge.size if isinstance(self.enlarge, Enlarge) else None
        shape = f"{channels}x{size[0]}x{size[1]} in [0, 1], or smaller ones" if size else f"of {channels} channels"
        made = f"; the model's own loader makes them so: {self.loading}" if self.loading else ""
        return f"images {shape}{made}"

    def of_classes(self, names: Sequence[str]) -> "Adapted":
        """The same network, which it shares, with the logits of these classes, in this order."""
        for name in names:
            if (times := self.class_names.count(name)) != 1:
                raise ValueError(f"the network has {times} classes called {name!r}, expected one; rename the class")
        chosen = copy(self)
        chosen._modules = dict(self._modules)
        chosen.choose = nn.Sequential(self.choose, Choose([self.class_names.index(name) for name in names]))
        chosen.class_names = tuple(names)
        return chosen


class Enlarge(nn.Module):
    """Images of the network's proportions to its size; larger ones and other proportions are refused."""

    def __init__(self, size: Size, interpolation: str) -> None:
        super().__init__()
        self.size, self.interpolation = size, interpolation

    def forward(self, x: Float[Tensor, "b c h w"]) -> Float[Tensor, "b c H W"]:
        """The interpolation of Pillow, without its rounding to bytes."""
        (height, width), (wanted_height, wanted_width) = x.shape[-2:], self.size
        if (height, width) == self.size:
            return x
        if height > wanted_height or width > wanted_width or height * wanted_width != width * wanted_height:
            raise ValueError(
                f"the network takes {wanted_height}x{wanted_width} images, got {height}x{width}; only smaller images "
                "of the same proportions are enlarged behind the noise, so shrink or crop them in the loader "
                "(--data.size)"
            )
        if self.interpolation == "nearest":
            return F.interpolate(x, self.size, mode="nearest-exact")
        if self.interpolation not in ("bilinear", "bicubic"):
            raise ValueError(
                f"the model's own loader enlarges images by {self.interpolation} interpolation, which torch lacks; "
                f"hand over images of {wanted_height}x{wanted_width}"
            )
        return F.interpolate(x, self.size, mode=self.interpolation, antialias=True)  # bicubic with Pillow's constant


class Choose(nn.Module):
    """Some of the logits, in another order."""

    def __init__(self, classes: Sequence[int]) -> None:
        super().__init__()
        self.classes = tuple(classes)

    def forward(self, logits: Float[Tensor, "b all"]) -> Float[Tensor, "b some"]:
        """The logits of the chosen classes."""
        return logits[:, self.classes]


def check_separated(theirs: Tensor, own: Tensor, name: str) -> None:
    """Refuse preprocessing that is more than scaling and normalising."""
    if theirs.shape != own.shape or not torch.allclose(theirs, own, atol=1e-4):
        raise ValueError(
            f"the preprocessing of {name} does more to the pixels than scale and normalise them, so it cannot be "
            "separated from the network; write a module from images in [0, 1] to logits that does all of it"
        )
