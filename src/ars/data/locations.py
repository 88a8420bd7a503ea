"""Where data lies: the folder that ARS_DATA names, or what a recipe says; and where what is made from it is kept."""

import os
from collections.abc import Sequence
from pathlib import Path

from ars.data.errors import DataError

VARIABLE = "ARS_DATA"
# What is looked for in the data folder, first come first served.
CIFAR10 = ("cifar-10-batches-bin", "cifar-10-batches-py")
BACKGROUNDS = ("backgrounds", "backgrounds.zip", "bg96.zip", "bg96")
CELEBA = ("celeba", "celeba.zip", "celeba_8k.zip", "celeba_8k")
IMAGENET = ("imagenet", "imagenet.zip", "ILSVRC2012", "imagenet_sample1000.zip", "imagenet_sample1000")


def data_folder() -> Path | None:
    """The folder that ARS_DATA names, if it is set; naming a folder that is not there is an error."""
    value = os.environ.get(VARIABLE)
    if not value:
        return None
    folder = Path(value).expanduser()
    if not folder.is_dir():
        raise DataError(f"{VARIABLE} names {folder}, which is not a folder; make it or set {VARIABLE} to another")
    return folder


def find(names: Sequence[str]) -> Path | None:
    """The first of these names that lies in the data folder; an empty folder is nothing."""
    folder = data_folder()
    return next((folder / name for name in names if _holds_something(folder / name)), None) if folder else None


def _holds_something(path: Path) -> bool:
    return any(path.iterdir()) if path.is_dir() else path.exists()


def locate(given: str | None, names: Sequence[str], *, what: str, key: str) -> Path:
    """Where the data lies: the path that the recipe gives under key, or the first of names in the data folder."""
    if given is not None:
        path = Path(given).expanduser()
        if not path.exists():
            raise DataError(
                f"{key} names {path.absolute()}, where nothing is; {what} were expected there: put them there, or say "
                f"where they are ({key} in a recipe, --{key} PATH for a run or sweep)"
            )
        return path
    found = find(names)
    if found is None:
        folder = data_folder()
        where = f"{folder} ({VARIABLE}) holds none of them" if folder else f"{VARIABLE} is not set"
        raise DataError(
            f"{what} were looked for as {' or '.join(names)}, but {where}; put them there, or give {key} "
            "('ars data list' shows what each benchmark needs)"
        )
    return found


def cache_folders() -> list[Path]:
    """Where packs and moments are looked for and kept: beside the data, else in the user's cache."""
    base = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    folder = data_folder()
    return [*([folder / "packs"] if folder else []), base / "ars"]


def cache_to_write() -> Path:
    """The first cache folder that can be written to."""
    for folder in cache_folders():
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError:
            continue
        if os.access(folder, os.W_OK):
            return folder
    tried = " and ".join(str(folder) for folder in cache_folders())
    raise DataError(f"packs are kept in {tried}, but neither can be written to; set {VARIABLE} or XDG_CACHE_HOME")


def cached(name: str) -> Path | None:
    """A file of this name in one of the cache folders."""
    return next((folder / name for folder in cache_folders() if (folder / name).is_file()), None)
