import dataclasses
import json
import shutil

import pytest

from ars.runs.vote_count import Tally
from ars.workflows.stages import save_average_masks
from ars.workflows.sweeps.file import Cell, Sweep

from ...conftest import CPU, TINY


def cell(**changes):
    """A cell of the trained run, if nothing is changed."""
    usual = {"name": "run", "recipe": TINY, "k": None, "weights": "float32", "vote": 100, "keep_weights": False}
    return Cell(**{**usual, **changes})


def certified(**changes):
    """The cell with other certification settings."""
    return cell(recipe=dataclasses.replace(TINY, certify=dataclasses.replace(TINY.certify, **changes)))


def sweep_of(folder, *cells, rough=(), **options):
    return Sweep("tiny", folder / "sweep.yaml", cells, rough, **options)


def voted(run, **changes):
    """Write the vote that the cell asks for."""
    model = json.loads((run / "certify/test/settings.json").read_text())["model"]
    tally = Tally(images=300, draws=100, correct=30, seed=0, seconds=3.0, precision="float32", model=model)
    (run / "vote.json").write_text(dataclasses.replace(tally, **changes).to_json())


@pytest.fixture
def run(trained, tmp_path):
    return shutil.copytree(trained, tmp_path / "run")


@pytest.fixture
def finished(run):
    """A run of which the cell lacks nothing."""
    voted(run)
    save_average_masks(run, TINY.certify, device=CPU)
    return run
