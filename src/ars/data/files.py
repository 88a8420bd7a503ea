"""The files of a folder or a zip archive, read through one interface."""

import hashlib
import lzma
import os
import struct
import zipfile
import zlib
from collections.abc import Iterable, Sequence
from itertools import chain
from pathlib import Path
from typing import Any

from ars.data.settings import DataError

IMAGE_SUFFIXES = (".jpg", ".jpeg", ".png", ".bmp", ".gif", ".tif", ".tiff", ".webp", ".ppm", ".pgm")
LARGEST_FILE = 512 << 20  # bytes of one image or table
DAMAGED = (
    OSError, ValueError, EOFError, NotImplementedError, zipfile.BadZipFile, zlib.error, lzma.LZMAError, struct.error,
)  # fmt: skip
"""What zipfile raises for a damaged archive."""
READ_WHOLE = 256 << 20  # bytes that a digest may read, a second or so


class Files:
    """File names, relative to the folder or archive and with forward slashes, and their bytes.

    An archive that holds a single folder is read as that folder; wrapped is its name. The object can be pickled for
    other processes, and each opens the archive itself.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._archive: tuple[int, zipfile.ZipFile] | None = None
        self._prefix = ""
        self.wrapped = ""
        if path.is_dir():
            return
        if not zipfile.is_zipfile(path):
            if path.is_file() and path.suffix.lower() == ".zip":
                raise _broken(path)
            found = "a file of another kind" if path.exists() else "nothing"
            raise DataError(f"{path} must be a folder or a zip archive, found {found}")
        tops = {name.split("/", 1)[0] for name in self._zip().namelist() if not _hidden(name)}
        if len(tops) == 1 and all("/" in name for name in self._zip().namelist() if not _hidden(name)):
            [self.wrapped] = tops
            self._prefix = f"{self.wrapped}/"

    def names(self, under: str = "") -> list[str]:
        """All files under a folder, sorted, without hidden ones."""
        if self.path.is_dir():
            listed = []
            for place, _, files in os.walk(self.path / under, followlinks=True):
                inside = Path(place).relative_to(self.path).as_posix()
                listed += files if inside == "." else [f"{inside}/{file}" for file in files]
        else:
            listed = [name.removeprefix(self._prefix) for name in self._zip().namelist() if not name.endswith("/")]
            listed = [name for name in listed if name.startswith(f"{under}/" if under else "")]
        return sorted(name for name in listed if not _hidden(name))

    def images(self, under: str = "") -> list[str]:
        """All files under a folder with the suffix of an image."""
        return [name for name in self.names(under) if name.lower().endswith(IMAGE_SUFFIXES)]

    def folders(self, under: str = "") -> list[str]:
        """The names of the folders directly below a folder, including empty ones."""
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
            if (length := self._length(name)) > LARGEST_FILE:
                raise DataError(f"{name} in {self.path} has {length / 2**20:,.0f} MB, which no image or table has")
            return (self.path / name).read_bytes() if self.path.is_dir() else self._zip().read(self._prefix + name)
        except (FileNotFoundError, KeyError):
            raise DataError(f"{self.path} holds no {name}") from None
        except DataError:
            raise
        except RuntimeError as error:  # a password, or an unsupported compression
            advice = "unpack the archive and use the folder"
            raise DataError(f"{name} in {self.path} cannot be unpacked ({error}); {advice}") from error
        except DAMAGED as error:
            raise DataError(f"{name} in {self.path} is damaged ({error}); download the archive again") from error

    def digest(self, names: Iterable[str]) -> str:
        """A digest of names, lengths and CRC-32s, which is the same for a folder and its archive.

        An archive lists CRC-32s, while the files of a folder are read. If that would take long, the digest of a folder
        uses its path and the modification times of its files instead.
        """
        names = list(names)
        if self.path.is_dir() and sum(map(self._length, names)) > READ_WHOLE:
            times = (f"{name} {self._length(name)} {(self.path / name).stat().st_mtime_ns}\n" for name in names)
            return _digest(chain([f"{self.path.resolve()}\n"], times))
        return _digest(f"{name} {self._length(name)} {self._crc(name)}\n" for name in names)

    def content_digest(self, names: Sequence[str]) -> str:
        """A digest that does not depend on the place of the files; if reading takes long, of names and lengths only."""
        read = sum(map(self._length, names)) <= READ_WHOLE
        return _digest(f"{name} {self._length(name)} {self._crc(name) if read else ''}\n" for name in names)

    def _length(self, name: str) -> int:
        in_folder = self.path.is_dir()
        return (self.path / name).stat().st_size if in_folder else self._zip().getinfo(self._prefix + name).file_size

    def _crc(self, name: str) -> str:
        in_folder = self.path.is_dir()
        return f"{zlib.crc32(self.read(name)) if in_folder else self._zip().getinfo(self._prefix + name).CRC:08x}"

    def _zip(self) -> zipfile.ZipFile:
        if self._archive is None or self._archive[0] != os.getpid():
            try:  # a forked process must not share the file offset
                self._archive = (os.getpid(), zipfile.ZipFile(self.path))
            except DAMAGED as error:
                raise _broken(self.path) from error
        return self._archive[1]

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_archive": None}


def _broken(path: Path) -> DataError:
    return DataError(f"{path} is a damaged or incomplete zip archive; download it again")


def _hidden(name: str) -> bool:
    return any(part.startswith((".", "__MACOSX")) for part in name.split("/"))


def _digest(lines: Iterable[str]) -> str:
    return hashlib.sha256("".join(lines).encode(errors="surrogateescape")).hexdigest()
