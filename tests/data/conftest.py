"""Small files in the public layouts, written by the tests themselves."""

import hashlib
import os

import numpy as np
import pytest
from PIL import Image

from ars.data.backgrounds import load_backgrounds
from ars.data.cifar10 import FOLDER, TEST, Layout, compose_cifar, load_cifar10

REAL = os.environ.get("ARS_DATA")
BATCHES = ("data_batch_1", "data_batch_2", TEST)


@pytest.fixture(autouse=True)
def no_data(monkeypatch, tmp_path_factory):
    """No data folder and a fresh cache, unless a test asks for the real data."""
    monkeypatch.delenv("ARS_DATA", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path_factory.mktemp("cache")))


@pytest.fixture
def real_data(monkeypatch, no_data):
    if REAL is None:
        pytest.skip("ARS_DATA is not set")
    monkeypatch.setenv("ARS_DATA", REAL)


@pytest.fixture
def write_image():
    """Write a picture of noise."""

    def write(path, size=(20, 16), *, seed=0):
        path.parent.mkdir(parents=True, exist_ok=True)
        width, height = size
        Image.fromarray(np.random.default_rng(seed).integers(256, size=(height, width, 3), dtype=np.uint8)).save(path)
        return path

    return write


@pytest.fixture
def write_cifar():
    """Write three tiny batches in the binary layout; returns their layout."""

    def write(root, rows=5):
        random = np.random.default_rng(1)
        (root / FOLDER).mkdir(parents=True, exist_ok=True)
        sha1 = {}
        for name in BATCHES:
            labels = random.integers(10, size=(rows, 1), dtype=np.uint8)
            content = np.concatenate([labels, random.integers(256, size=(rows, 3072), dtype=np.uint8)], 1).tobytes()
            (root / FOLDER / f"{name}.bin").write_bytes(content)
            sha1[name] = hashlib.sha1(content).hexdigest()
        return Layout(sha1, rows)

    return write


@pytest.fixture
def write_backgrounds(write_image):
    """Write a folder of backgrounds with train/ and test/."""

    def write(root, train=8, test=4):
        for part, count in (("train", train), ("test", test)):
            for number in range(count):
                write_image(root / part / f"{number:03}.jpg", (50, 40), seed=100 * (part == "test") + number)
        return root

    return write


@pytest.fixture
def write_classes(write_image):
    """Write class folders; each picture has a size and a seed of its own."""

    def write(root, classes=("cat", "dog"), count=6):
        for label, name in enumerate(classes):
            for number in range(count):
                write_image(root / name / f"{name}_{number}.JPEG", (40 + number, 30), seed=10 * label + number)
        return root

    return write


@pytest.fixture
def make_cifar(tmp_path, write_cifar, write_backgrounds):
    """A small CIFAR-10 on backgrounds at k, its batches of 60 images."""
    layout = write_cifar(tmp_path, rows=60)
    scenes = write_backgrounds(tmp_path / "scenes")

    def make(k, seed=0, padding=0):
        cifar = load_cifar10(tmp_path, layout)
        onto = load_backgrounds(str(scenes), k) if k > 32 else None
        return compose_cifar(cifar, onto, seed=seed, padding=padding)

    return make
