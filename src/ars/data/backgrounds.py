"""Backgrounds: any folder with train/ and test/ images, or a zip of one, packed once at the side that is asked for.

Every image is decoded, turned the right way up, converted to RGB and resized to side x side (its aspect ratio is not
kept, as in the paper) with Pillow's antialiased bilinear filter.
"""

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import PIL
import torch
from jaxtyping import UInt8
from PIL import Image
from torch import Tensor

from ars.data.benchmark import Part
from ars.data.errors import DataError
from ars.data.files import Files
from ars.data.holding_out import held_out
from ars.data.images import decode
from ars.data.locations import BACKGROUNDS, cache_folders, cache_to_write, cached, find, locate
from ars.data.packs import SUFFIX, Pack, read_pack, write_pack

FILTER = "Pillow bilinear, antialiased"
HELD_OUT = 0.05
FEWEST = 2  # one training background is held out for validation, so one alone leaves none
# Known collections, by their listing in a pack, and what they are called wherever a number is shown.
SCENES = "0050aa0c1299a697044e5c385ade2a139ca6d0d72dd69bcc976986328f66f767"
KNOWN = {SCENES: "scene backgrounds"}
# Packs of the scenes have long been named by names and lengths alone; the digest of their contents stands for that.
FORMER = {"5a1b19330ae73969bb7dd2a8e0f101bc8719ca7ca57a1a9af436b3bb71f6197e": SCENES}


@dataclass(frozen=True)
class Backgrounds:
    """Square backgrounds for training and testing, what they are called, and the digest of their pack."""

    train: UInt8[Tensor, "n 3 k k"]
    test: UInt8[Tensor, "m 3 k k"]
    name: str
    digest: str

    def parts(self) -> dict[Part, UInt8[Tensor, "n 3 k k"]]:
        """The backgrounds of each part; those of validation are held out of the training side."""
        train, validation = held_out(len(self.train), HELD_OUT)
        return {"train": self.train[train], "validation": self.train[validation], "test": self.test}


def load_backgrounds(given: str | None, side: int) -> Backgrounds:
    """The backgrounds that the recipe or ARS_DATA names, from their pack; it is made where there is none yet.

    Given may be the folder, the zip or a pack itself. Without the originals, their only pack of this side will do.
    """
    pack = _find_pack(given, side)
    for part in ("train", "test"):
        shape = tuple(pack.tensors[part].shape[1:]) if part in pack.tensors else None
        if shape != (3, side, side):
            raise DataError(f"the pack of backgrounds should hold {part} images 3x{side}x{side}, found {shape}")
    name = KNOWN.get(str(pack.about.get("listing")), f"backgrounds of {pack.about.get('source')}")
    return Backgrounds(pack.tensors["train"], pack.tensors["test"], name, pack.sha256)


def _find_pack(given: str | None, side: int) -> Pack:
    if given is not None and given.endswith(SUFFIX):
        return read_pack(Path(given).expanduser())
    if given is None and find(BACKGROUNDS) is None:
        stems = dict.fromkeys(Path(name).stem for name in BACKGROUNDS)
        packs = [path for stem in stems for folder in cache_folders() for path in folder.glob(_pack_name(stem, side))]
        if len(packs) > 1:
            found = ", ".join(str(path) for path in packs)
            raise DataError(f"one pack of backgrounds at side {side} is expected, found {found}; give data.backgrounds")
        if packs:
            return read_pack(packs[0])
    path = locate(given, BACKGROUNDS, what="background images", key="data.backgrounds")
    files = Files(path)
    names = files.images("train") + files.images("test")
    content = files.digest(names)
    listing = FORMER.get(content, content)
    name = _pack_name(path.stem, side, listing[:8])
    if (kept := cached(name)) is not None:
        return read_pack(kept)
    about = {
        "source": path.stem,
        "side": side,
        "filter": FILTER,
        "pillow": PIL.__version__,
        "listing": listing,
    }
    tensors = {part: pack_images(files, _enough(files, part), side) for part in ("train", "test")}
    return write_pack(cache_to_write() / name, tensors, about)


def _enough(files: Files, part: str) -> list[str]:
    names = files.images(part)
    if len(names) < FEWEST:
        raise DataError(
            f"{files.path} should hold at least {FEWEST} background images below {part}/, found {len(names)}; "
            "backgrounds are a folder with train/ and test/, or a zip of one"
        )
    return names


def pack_images(files: Files, names: list[str], side: int) -> UInt8[Tensor, "n 3 k k"]:
    """Decode and resize once."""
    images = np.empty((len(names), 3, side, side), dtype=np.uint8)
    for index, name in enumerate(names):
        picture = decode(files.read(name), f"{files.path}/{name}")
        images[index] = np.asarray(picture.resize((side, side), Image.Resampling.BILINEAR)).transpose(2, 0, 1)
    return torch.from_numpy(images)


def _pack_name(stem: str, side: int, listing: str = "*") -> str:
    return f"{stem}-{side}-{listing}{SUFFIX}"
