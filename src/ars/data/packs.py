"""Packs: images decoded once into uint8 tensors, in one file with its SHA-256 beside it. The pack is what travels.

Decoders and resizers differ between versions, so a benchmark that were decoded anew elsewhere would have other test
inputs. A pack's bytes depend on its tensors and its description alone.
"""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from jaxtyping import UInt8
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor

from ars.certification.writing import whole
from ars.data.errors import DataError

SUFFIX = ".safetensors"


@dataclass(frozen=True)
class Pack:
    """Named uint8 tensors, what they are, and the SHA-256 of their file."""

    tensors: Mapping[str, UInt8[Tensor, "n c h w"]]
    about: Mapping[str, Any]
    sha256: str


def write_pack(path: Path, tensors: Mapping[str, Tensor], about: Mapping[str, Any]) -> Pack:
    """Write a pack and its .sha256 (as sha256sum does) through temporary files; what is there is whole."""
    # the checksum is there first: without its pack it counts for nothing
    with whole(path) as pack, whole(checksum_path(path)) as beside:
        # One key: the order of several would differ from process to process, and the file's digest with it.
        save_file(dict(tensors), pack, metadata={"about": json.dumps(about, sort_keys=True)})
        digest = sha256_of(pack)
        beside.write_text(f"{digest}  {path.name}\n", encoding="ascii")
        pack.chmod(beside.stat().st_mode)  # safetensors writes for the user alone; a data folder is often shared
    return Pack(dict(tensors), dict(about), digest)


def read_pack(path: Path) -> Pack:
    """Read a pack whose bytes have the SHA-256 that lies beside it."""
    beside = checksum_path(path)
    if not path.is_file() or not beside.is_file():
        missing = beside if path.is_file() else path
        raise DataError(f"a pack is two files, {path.name} and {beside.name}, but {missing} is missing; copy both")
    expected, digest = beside.read_text(encoding="ascii", errors="replace").split(" ")[0].strip(), sha256_of(path)
    if digest != expected:
        raise DataError(
            f"{path} has the SHA-256 {digest}, expected is {expected[:64]!r} as in {beside.name}; "
            "copy the pack again, or remove both files to have it made again"
        )
    try:
        with safe_open(path, framework="pt") as file:
            about = json.loads((file.metadata() or {}).get("about", "{}"))
            return Pack({name: file.get_tensor(name) for name in file.keys()}, about, digest)  # noqa: SIM118
    except (SafetensorError, OSError, ValueError) as error:
        raise DataError(f"{path} is not a pack ({error}); remove it to have it made again") from error


def checksum_path(path: Path) -> Path:
    """Where the SHA-256 of a pack lies."""
    return path.with_name(f"{path.name}.sha256")


def sha256_of(path: Path) -> str:
    """The SHA-256 of a file."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
