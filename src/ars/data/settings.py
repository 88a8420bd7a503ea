"""The kinds of data and their keys in recipes; loads no torch."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal


class DataError(ValueError):
    """Data that is missing, damaged or in the wrong layout: what was expected, what was found, what to do."""


class DataWarning(UserWarning):
    """Data that is skipped on request: what, and why."""


Kind = Literal["digits", "cifar_backgrounds", "celeba", "imagenet", "folder"]

Augment = Literal["none", "flip", "crop"]

PLACES = ("root", "backgrounds")
"""The keys with the place of the data."""

# The keys of each kind besides kind and seed, with their defaults.
KEYS: dict[Kind, dict[str, Any]] = {
    "digits": {"passes": 8},
    "cifar_backgrounds": {"size": 32, "root": None, "backgrounds": None, "padding": 0},
    "celeba": {"root": None, "attribute": "Mouth_Slightly_Open", "feature": "mouth", "workers": None},
    "imagenet": {"size": 224, "root": None, "workers": None},
    "folder": {
        "size": 64,
        "root": None,
        "backgrounds": None,
        "pasted": None,
        "skip_unreadable": False,
        "workers": None,
        "channels": 3,
        "width": None,
        "augment": "crop",
    },
}
LATER: dict[str, Any] = {"channels": 3, "width": None, "augment": "crop"}
"""Keys that earlier versions lack, with their defaults: they count, and are written, only where they differ."""


@dataclass(frozen=True, eq=False)
class Data:
    """The benchmark. A key that its kind does not have is refused; a missing key has the kind's default.

    Args:
        kind: digits (on photographs; embedded), cifar_backgrounds, celeba, imagenet or folder (your own class folders).
        seed: seed of the test inputs, together with their indices.
        passes: digits: how often an epoch shows each training digit.
        size: side of an input: k of cifar_backgrounds (32 is plain CIFAR-10), imagenet, folder.
        root: the folder or zip with the data, relative to the current folder; without it, except for kind folder, the
            data is searched in the folder that ARS_DATA names.
        backgrounds: cifar_backgrounds, folder: a folder with train/ and test/, a zip of one, or a pack.
        padding: cifar_backgrounds at size 32: random crops in training after padding by this many pixels (Cohen: 4).
        pasted: folder: side of the images that are pasted on backgrounds.
        attribute: celeba: the name of the attribute to predict.
        feature: celeba: the feature that every crop contains: mouth, eyes, nose or face.
        skip_unreadable: folder: leave out files that cannot be read, with a warning, instead of refusing the folder.
        channels: folder: 3 for RGB, 1 for grey: noise and L2 radii are those of one number per pixel.
        width: folder: the width of an input if it is not square; size is then its height.
        augment: folder: what training shows: crop (random crops, flipped or not), flip, or none (test views).
        workers: decoding processes (celeba, imagenet, folder); they change no pixel. null: one per core.
    """

    kind: Kind = "digits"
    seed: int = 0
    passes: int | None = None
    size: int | None = None
    root: str | None = None
    backgrounds: str | None = None
    padding: int | None = None
    pasted: int | None = None
    attribute: str | None = None
    feature: str | None = None
    skip_unreadable: bool | None = None
    workers: int | None = None
    channels: int | None = None
    width: int | None = None
    augment: Augment | None = None

    def __post_init__(self) -> None:
        if self.kind not in KEYS:
            raise ValueError(f"data.kind must be one of {', '.join(KEYS)}, got {self.kind}")
        keys = KEYS[self.kind]
        for name in self.__dataclass_fields__:
            if name not in ("kind", "seed", *keys) and getattr(self, name) is not None:
                hint = f"; --data.{name} null removes it from a recipe"
                hint = "; its inputs have one size, so leave it out" if name == "size" else hint
                raise ValueError(f"data.kind {self.kind} has no key {name!r}; it has seed, {', '.join(keys)}{hint}")
        for name in PLACES:
            if getattr(self, name) == "":
                raise ValueError(f"data.{name} is empty; give a folder or a zip archive, '.' for the current folder")
        if self.kind == "folder" and self.root is None:
            raise ValueError("data.kind folder needs data.root, the folder with a folder of images for each class")
        if self.kind == "folder" and (self.backgrounds is None) != (self.pasted is None):
            raise ValueError("to paste images of a folder on backgrounds, give both data.backgrounds and data.pasted")
        if self.channels not in (None, 1, 3):
            raise ValueError(f"data.channels must be 1 (grey) or 3 (RGB), got {self.channels}")
        later = next((name for name in LATER if getattr(self, name) not in (None, LATER[name])), None)
        if later and self.backgrounds is not None:
            raise ValueError(f"data.{later} is for images without backgrounds; leave it or data.backgrounds out")
        for name, least in (
            ("seed", 0),
            ("passes", 1),
            ("size", 1),
            ("width", 1),
            ("padding", 0),
            ("pasted", 1),
            ("workers", 0),
        ):
            value = getattr(self, name)
            if value is not None and value < least:
                raise ValueError(f"data.{name} must be at least {least}, got {value}")
        if self.kind == "cifar_backgrounds" and self.padding and self.options["size"] > 32:
            raise ValueError(
                "data.padding is for plain CIFAR-10 (size 32); images on backgrounds already have random places, so "
                "set it to 0"
            )

    def absolute(self) -> "Data":
        """The same data with absolute paths."""
        given = {place: path for place in PLACES if (path := getattr(self, place))}
        return self.at({place: str(Path(path).expanduser().resolve()) for place, path in given.items()})

    def at(self, places: Mapping[str, str | None]) -> "Data":
        """The same data at a new place; the keys of places are some of PLACES."""
        changes: dict[str, Any] = {**places}
        return replace(self, **changes)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Data) and (self.kind, self.options) == (other.kind, other.options)

    def __hash__(self) -> int:
        return hash((self.kind, *self.options.items()))

    @property
    def options(self) -> dict[str, Any]:
        """The seed and the keys of this kind, with the kind's defaults for missing ones."""
        given = {name: value for name in KEYS[self.kind] if (value := getattr(self, name)) is not None}
        return {"seed": self.seed, **KEYS[self.kind], **given}

    @property
    def recorded(self) -> dict[str, Any]:
        """The options as recipes hold them."""
        return {name: value for name, value in self.options.items() if name not in LATER or value != LATER[name]}


def with_later(data: Mapping[str, Any]) -> dict[str, Any]:
    """The data part of a recipe with the keys that it lacks because they have their defaults."""
    later = LATER.items() if data.get("kind") == "folder" else ()
    return {**dict(later), **data}
