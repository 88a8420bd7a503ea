"""Backgrounds: any folder with train/ and test/ images, or a zip of one, packed once for each side.

Every image is decoded, rotated according to its EXIF orientation, converted to RGB, and resized to side x side with
Pillow's antialiased bilinear filter. As in the paper, the aspect ratio is not kept.
"""

import hashlib
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import PIL
import torch
from jaxtyping import UInt8
from PIL import Image
from safetensors.torch import save_file
from torch import Tensor

from ars.atomic import whole
from ars.data.benchmark import Part, held_out
from ars.data.files import Files
from ars.data.image_files import decode
from ars.data.locate import BACKGROUNDS, cache_folders, cache_to_write, cached, find, locate
from ars.data.settings import DataError
from ars.tensors import CheckpointError, load_tensors

SUFFIX = ".safetensors"
FILTER = "Pillow bilinear, antialiased"


@dataclass(frozen=True)
class Pack:
    """Named uint8 tensors with their description and the SHA-256 of their file."""

    tensors: Mapping[str, UInt8[Tensor, "n c h w"]]
    about: Mapping[str, Any]
    sha256: str


def write_pack(path: Path, tensors: Mapping[str, Tensor], about: Mapping[str, Any]) -> Pack:
    """Write a pack and its .sha256 (in the format of sha256sum) through temporary files."""
    # the checksum is renamed first: a checksum without its pack is ignored
    with whole(path) as pack, whole(checksum_path(path)) as beside:
        # one key, because the order of several would differ between processes, and with it the file's digest
        save_file(dict(tensors), pack, metadata={"about": json.dumps(about, sort_keys=True)})
        digest = sha256_of(pack)
        beside.write_text(f"{digest}  {path.name}\n", encoding="ascii")
        pack.chmod(beside.stat().st_mode)  # safetensors makes files that only their owner can read
    return Pack(dict(tensors), dict(about), digest)


def kept_pack(name: str, make: Callable[[], Mapping[str, Tensor]], *, source: str, side: int, listing: str) -> Pack:
    """The pack of this name and listing from the cache; made and written if it is not there."""
    path = f"{name}-{listing[:8]}{SUFFIX}"
    if (kept := cached(path)) is not None:
        return read_pack(kept)
    about = {"source": source, "side": side, "filter": FILTER, "pillow": PIL.__version__, "listing": listing}
    tensors = make()
    return write_pack(cache_to_write() / path, tensors, about)


def read_pack(path: Path) -> Pack:
    """Read a pack after checking its SHA-256."""
    beside = checksum_path(path)
    if not path.is_file() or not beside.is_file():
        missing = beside if path.is_file() else path
        raise DataError(f"a pack is two files, {path.name} and {beside.name}, but {missing} is missing; copy both")
    expected, digest = beside.read_text(encoding="ascii", errors="replace").split(" ")[0].strip(), sha256_of(path)
    if digest != expected:
        raise DataError(
            f"{path} has SHA-256 {digest}, but {beside.name} says {expected[:64]!r}; "
            "copy the pack again, or remove both files to rebuild it"
        )
    try:
        tensors, about = load_tensors(path)
    except CheckpointError as error:
        raise DataError(f"{path} is not a pack ({error.__cause__}); remove it to rebuild it") from error
    for name in (name for name, tensor in tensors.items() if tensor.dtype != torch.uint8 or tensor.ndim != 4):
        raise DataError(f"{path} is not a pack ({name} holds no 8-bit images); remove it to rebuild it")
    return Pack(tensors, about, digest)


def checksum_path(path: Path) -> Path:
    """The file with the SHA-256 of a pack."""
    return path.with_name(f"{path.name}.sha256")


def sha256_of(path: Path) -> str:
    """The SHA-256 of a file."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


HELD_OUT = 0.05
FEWEST = 2  # one training background is held out for validation, so one alone leaves none
# Known collections, by their listing in a pack, and their names in tables and figures.
SCENES = "0050aa0c1299a697044e5c385ade2a139ca6d0d72dd69bcc976986328f66f767"
KNOWN = {SCENES: "scene backgrounds"}
# Old packs of the scenes have a listing of names and lengths only; the digest of the contents maps to that listing.
FORMER = {"5a1b19330ae73969bb7dd2a8e0f101bc8719ca7ca57a1a9af436b3bb71f6197e": SCENES}


@dataclass(frozen=True)
class Backgrounds:
    """Square backgrounds of each part, their name, and the digest of their pack."""

    parts: Mapping[Part, UInt8[Tensor, "n 3 k k"]]
    name: str
    digest: str


def load_backgrounds(given: str | None, side: int) -> Backgrounds:
    """The backgrounds that the recipe or ARS_DATA names, from their pack, which is created if it does not exist.

    given may be the folder, the zip or a pack. Without the originals, their only pack of this side is used.
    """
    pack = _find_pack(given, side)
    for part in ("train", "test"):
        shape = tuple(pack.tensors[part].shape[1:]) if part in pack.tensors else None
        if shape != (3, side, side):
            raise DataError(f"the pack of backgrounds should hold {part} images 3x{side}x{side}, found {shape}")
    name = KNOWN.get(str(pack.about.get("listing")), f"backgrounds of {pack.about.get('source')}")
    every, test = pack.tensors["train"], pack.tensors["test"]
    train, validation = held_out(len(every), HELD_OUT)
    return Backgrounds({"train": every[train], "validation": every[validation], "test": test}, name, pack.sha256)


def _find_pack(given: str | None, side: int) -> Pack:
    if given is not None and given.endswith(SUFFIX):
        return read_pack(Path(given).expanduser())
    if given is None and find(BACKGROUNDS) is None:
        stems = dict.fromkeys(Path(name).stem for name in BACKGROUNDS)
        packs = [
            path for stem in stems for folder in cache_folders() for path in folder.glob(f"{stem}-{side}-*{SUFFIX}")
        ]
        if len(packs) > 1:
            found = ", ".join(str(path) for path in packs)
            raise DataError(f"expected one pack of backgrounds at side {side}, found {found}; give data.backgrounds")
        if packs:
            return read_pack(packs[0])
    path = locate(given, BACKGROUNDS, what="background images", key="data.backgrounds")
    files = Files(path)
    names = files.images("train") + files.images("test")
    content = files.digest(names)
    listing = FORMER.get(content, content)
    return kept_pack(
        f"{path.stem}-{side}",
        lambda: {part: _resized(files, part, side) for part in ("train", "test")},
        source=path.stem,
        side=side,
        listing=listing,
    )


def _resized(files: Files, part: str, side: int) -> UInt8[Tensor, "n 3 k k"]:
    names = files.images(part)
    if len(names) < FEWEST:
        raise DataError(
            f"{files.path} should hold at least {FEWEST} background images below {part}/, found {len(names)}; "
            "backgrounds are a folder with train/ and test/, or a zip of one"
        )
    images = np.empty((len(names), 3, side, side), dtype=np.uint8)
    for index, name in enumerate(names):
        picture = decode(files.read(name), f"{files.path}/{name}")
        images[index] = np.asarray(picture.resize((side, side), Image.Resampling.BILINEAR)).transpose(2, 0, 1)
    return torch.from_numpy(images)
