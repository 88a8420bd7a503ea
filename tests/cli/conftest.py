import dataclasses
import os
import shutil
import subprocess
import sys
import time

import numpy as np
import pytest
from PIL import Image

from ars.cli.main import main
from ars.workflows.train import train_run

from ..conftest import CPU, TINY
from .swept import BASE, SWEEP

# a training on a folder of images, without its place
FOLDER = ["--data.kind=folder", "--data.size=16", "--data.workers=0", "--classifier.width=4", "--mask.width=2",
          "--train.batch_size=8", "--train.max_steps=1", "--train.precision=float32", "--device=cpu"]  # fmt: skip
# the recipe of the trained runs, on the command line
TINY_OPTIONS = ["--data.passes=1", "--classifier.width=4", "--mask.width=2", "--train.batch_size=256",
                "--train.precision=float32", "--device=cpu"]  # fmt: skip
ONE_STEP = [*TINY_OPTIONS, "--train.max_steps=1"]
QUICK = ["--n-select=20", "--n-estimate=60", "--precision=float32", "--device=cpu"]
FEW = ["--examples=4", *QUICK]
MODELS = """
import torch
from torch import nn
from ars import cohen

def linear(side, classes):
    torch.manual_seed(0)
    return nn.Sequential(nn.Flatten(), nn.Linear(3 * side**2, classes))

network, eight, pets, photos = linear(24, 10), linear(8, 8), linear(8, 2), linear(16, 2)
smoothed = cohen(network, sigma=0.5)
"""


@pytest.fixture
def run(trained, tmp_path):
    """A copy of the trained run without records."""
    return shutil.copytree(trained, tmp_path / "run", ignore=shutil.ignore_patterns("certify"))


@pytest.fixture(scope="session")
def cohen(tmp_path_factory):
    """A trained run without a mask, for reading only."""
    folder = tmp_path_factory.mktemp("runs") / "cohen"
    assert train_run(dataclasses.replace(TINY, method="cohen"), folder, device=CPU)
    return folder


@pytest.fixture(scope="session")
def written(tmp_path_factory):
    """The file of a small sweep, beside its recipe."""
    folder = tmp_path_factory.mktemp("sweep")
    (folder / "base.yaml").write_text(BASE)
    (folder / "tiny.yaml").write_text(SWEEP)
    return folder / "tiny.yaml"


@pytest.fixture(scope="session")
def undisturbed(written, tmp_path_factory):
    """The runs of that sweep, for reading only."""
    runs = tmp_path_factory.mktemp("undisturbed")
    assert main(["sweep", str(written), "--out", str(runs), "--device", "cpu"]) == 0
    return runs


@pytest.fixture
def desk(tmp_path, monkeypatch):
    """An empty current folder, whose modules can be imported; there is no data."""
    monkeypatch.delenv("ARS_DATA", raising=False)
    folder = tmp_path / "desk"
    folder.mkdir()
    monkeypatch.chdir(folder)
    monkeypatch.setattr(sys, "path", [str(folder), *sys.path])
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    before = set(sys.modules)
    yield folder
    for name in set(sys.modules) - before:
        if str(folder) in str(getattr(sys.modules[name], "__file__", "")):
            del sys.modules[name]


@pytest.fixture
def own(desk):
    """The user's models in the current folder."""
    (desk / "own_model.py").write_text(MODELS)
    return desk


@pytest.fixture
def pets(own):
    """Records of the user's own model on photos."""
    fill(own / "photos", images=20, side=8)
    line = ["certify", "--model=own_model:pets", "--sigma=0.5", "--data=folder:photos", "--data.size=8", *QUICK]
    assert main([*line, "--out=runs/pets", "--alpha=0.01"]) == 0
    return own / "runs" / "pets"


@pytest.fixture
def refused(capsys):
    """Run a command that refuses; the one line that it prints."""

    def call(arguments):
        capsys.readouterr()
        try:
            code = main(arguments)
        except SystemExit as ended:  # what argparse refuses
            code = ended.code
        assert code == 2
        [line] = [line for line in capsys.readouterr().err.splitlines() if line.startswith("ars")]
        return line

    return call


@pytest.fixture
def printed(capsys):
    """Run a command that succeeds; all that it prints."""

    def call(arguments):
        capsys.readouterr()
        assert main(arguments) == 0
        return capsys.readouterr()

    return call


@pytest.fixture
def ranks(monkeypatch):
    """Be one of several processes."""

    def become(**variables):
        for name, value in variables.items():
            monkeypatch.setenv(name, str(value))

    return become


def picture(path, width=24, height=24, seed=0, channels=3):
    """A file of random pixels."""
    path.parent.mkdir(parents=True, exist_ok=True)
    pixels = np.random.default_rng(seed).integers(0, 256, (height, width, channels), dtype=np.uint8)
    Image.fromarray(pixels).save(path)
    return path


def fill(folder, names=("cat", "dog"), seed=0, images=40, side=16):
    """A folder of each class with images in it."""
    for number in range(images):
        for place, name in enumerate(names):
            picture(folder / name / f"{number}.png", side, side, seed=[seed, number, place])
    return folder


def command(*arguments, **options):
    """Start ars in a process of its own."""
    line = [sys.executable, "-m", "ars", *map(str, arguments)]
    return subprocess.Popen(line, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, **options)


def wait_for(process, *patterns, under):
    """Wait until there are such files."""
    deadline = time.monotonic() + 120
    while not all(list(under.glob(pattern)) for pattern in patterns):
        assert time.monotonic() < deadline
        assert process.poll() is None, process.communicate()
        time.sleep(0.05)


def interrupt(*_, **__):
    raise KeyboardInterrupt


def signal_self(number):
    os.kill(os.getpid(), number)
