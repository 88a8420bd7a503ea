"""The files of a folder or of a zip archive, read the same way."""

import hashlib
import os
import zipfile
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from ars.data.errors import DataError

IMAGE_SUFFIXES = (".jpg", ".jpeg", ".png", ".bmp", ".gif", ".tif", ".tiff", ".webp", ".ppm", ".pgm")


class Files:
    """Names, relative to the folder or archive and with forward slashes, and their bytes.

    An archive that holds nothing but one folder is read as that folder. Can be sent to other processes: each opens
    the archive for itself.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._archive: tuple[int, zipfile.ZipFile] | None = None
        self._prefix = ""
        if path.is_dir():
            return
        if not zipfile.is_zipfile(path):
            found = "a file of another kind" if path.exists() else "nothing"
            raise DataError(f"{path} must be a folder or a zip archive, found {found}")
        tops = {name.split("/", 1)[0] for name in self._zip().namelist() if not _hidden(name)}
        if len(tops) == 1 and all("/" in name for name in self._zip().namelist() if not _hidden(name)):
            self._prefix = f"{tops.pop()}/"

    def names(self, under: str = "") -> list[str]:
        """All files under a folder, sorted, hidden ones left out."""
        if self.path.is_dir():
            found = sorted(_walk(self.path / under, under))
        else:
            listed = (name.removeprefix(self._prefix) for name in self._zip().namelist() if not name.endswith("/"))
            found = sorted(name for name in listed if name.startswith(f"{under}/" if under else ""))
        return [name for name in found if not _hidden(name)]

    def images(self, under: str = "") -> list[str]:
        """All files under a folder whose names end like an image's."""
        return [name for name in self.names(under) if name.lower().endswith(IMAGE_SUFFIXES)]

    def folders(self, under: str = "") -> list[str]:
        """The names of the folders directly below a folder, empty ones too."""
        if self.path.is_dir():
            folder = self.path / under
            found = {entry.name for entry in os.scandir(folder) if entry.is_dir()} if folder.is_dir() else set()
        else:
            prefix = self._prefix + (f"{under}/" if under else "")
            inside = (name.removeprefix(prefix) for name in self._zip().namelist() if name.startswith(prefix))
            found = {name.split("/")[0] for name in inside if "/" in name}
        return sorted(name for name in found if not _hidden(name))

    def has(self, name: str) -> bool:
        """Whether there is a file of this name."""
        if self.path.is_dir():
            return (self.path / name).is_file()
        return self._prefix + name in self._zip().NameToInfo

    def read(self, name: str) -> bytes:
        """The bytes of a file."""
        try:
            if self.path.is_dir():
                return (self.path / name).read_bytes()
            return self._zip().read(self._prefix + name)
        except (FileNotFoundError, KeyError):
            raise DataError(f"{self.path} holds no {name}") from None
        except zipfile.BadZipFile as error:
            raise DataError(f"{name} in {self.path} is damaged ({error}); get the archive again") from error

    def length(self, name: str) -> int:
        """How many bytes a file has."""
        if self.path.is_dir():
            return (self.path / name).stat().st_size
        return self._zip().getinfo(self._prefix + name).file_size

    def digest(self, names: Iterable[str]) -> str:
        """A digest of names and lengths: the same for a folder and for the archive of it."""
        lines = (f"{name} {self.length(name)}\n" for name in names)
        return hashlib.sha256("".join(lines).encode()).hexdigest()

    def _zip(self) -> zipfile.ZipFile:
        if self._archive is None or self._archive[0] != os.getpid():
            self._archive = (os.getpid(), zipfile.ZipFile(self.path))  # a forked process must not share the file offset
        return self._archive[1]

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_archive": None}


def _hidden(name: str) -> bool:
    return any(part.startswith((".", "__MACOSX")) for part in name.split("/"))


def _walk(folder: Path, prefix: str) -> Iterable[str]:
    try:
        entries = list(os.scandir(folder))
    except FileNotFoundError:
        return
    for entry in entries:
        name = f"{prefix}/{entry.name}" if prefix else entry.name
        if entry.is_dir():
            yield from _walk(Path(entry.path), name)
        else:
            yield name
