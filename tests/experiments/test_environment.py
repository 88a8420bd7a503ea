"""What environment.json says a run was made with."""

import json

import pytest
import torch

import ars
from ars.experiments import environment
from ars.experiments.environment import source_digest, write_environment


@pytest.fixture
def package(tmp_path, monkeypatch):
    """A package of its own in the place of ours."""
    (tmp_path / "ars" / "theory").mkdir(parents=True)
    (tmp_path / "ars" / "__init__.py").write_text("one = 1")
    (tmp_path / "ars" / "theory" / "noise.py").write_text("two = 2")
    monkeypatch.setattr(environment, "files", lambda name: tmp_path / name)
    return tmp_path / "ars"


def digest():
    source_digest.cache_clear()
    return source_digest()


@pytest.fixture(autouse=True)
def forgotten():
    yield
    source_digest.cache_clear()


def test_code_that_differs_in_anything_has_another_digest(package):
    digests = [digest()]
    (package / "theory" / "noise.py").write_text("two = 3")
    digests.append(digest())
    (package / "theory" / "noise.py").rename(package / "theory" / "masked.py")
    digests.append(digest())
    (package / "note.txt").write_text("no code")
    assert digest() == digests[-1]
    assert len(set(digests)) == 3


def test_a_run_says_by_which_code_and_on_what_it_was_made(tmp_path):
    write_environment(tmp_path, torch.device("cpu"))
    content = json.loads((tmp_path / "environment.json").read_text())
    assert (content["ars"], content["source"]) == (ars.__version__, digest())
    assert content["torch"] == torch.__version__
    assert "cores, " in content["device"]
    assert "cuda" not in content


def test_of_a_gpu_the_libraries_are_named(tmp_path, monkeypatch):
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda device: "a GPU")
    monkeypatch.setattr(torch.backends.cudnn, "version", lambda: 91000)
    write_environment(tmp_path, torch.device("cuda"))
    content = json.loads((tmp_path / "environment.json").read_text())
    assert (content["device"], content["cudnn"]) == ("a GPU", "91000")
    assert {"cuda", "source"} <= content.keys()
