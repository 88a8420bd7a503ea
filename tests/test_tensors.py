import errno
import resource
from pathlib import Path

import pytest
import torch
from torch import nn

from ars.atomic import WriteError
from ars.tensors import CheckpointError, load_model, load_tensors, save_tensors


def test_tensors_and_header_come_back(tmp_path):
    tensors = {"a": torch.rand(3, 4), "b": torch.tensor(7)}
    save_tensors(tmp_path / "x.safetensors", tensors, {"step": 3})
    back, about = load_tensors(tmp_path / "x.safetensors")
    assert about == {"step": 3}
    assert all(torch.equal(back[name], tensors[name]) for name in tensors)


def test_a_file_may_be_read_by_whoever_may_read_others(tmp_path):
    (tmp_path / "other").touch()
    save_tensors(tmp_path / "x.safetensors", {"a": torch.ones(1)}, {})
    assert (tmp_path / "x.safetensors").stat().st_mode == (tmp_path / "other").stat().st_mode


@pytest.fixture
def small_disk():
    """No file may grow beyond 1,000 bytes: the write itself comes back short, as on a full disk."""
    usual = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1000, usual[1]))
    yield
    resource.setrlimit(resource.RLIMIT_FSIZE, usual)


def test_a_full_disk_keeps_the_old_file_and_leaves_no_part(tmp_path, small_disk):
    path = tmp_path / "x.safetensors"
    save_tensors(path, {"a": torch.ones(1)}, {})
    old = path.read_bytes()
    with pytest.raises(WriteError, match="free disk space"):
        save_tensors(path, {"a": torch.zeros(10_000)}, {})
    assert path.read_bytes() == old
    assert [file.name for file in tmp_path.iterdir()] == ["x.safetensors"]


@pytest.mark.parametrize("content", [b"", b"no tensors here", b"\x80\x04\x95pickle"])
def test_something_else_is_refused(tmp_path, content):
    path = tmp_path / "x.safetensors"
    path.write_bytes(content)
    with pytest.raises(CheckpointError, match="damaged"):
        load_tensors(path)
    with pytest.raises(CheckpointError, match="no checkpoint at"):
        load_tensors(tmp_path / "missing.safetensors")


def test_weights_of_another_shape_or_name_are_refused(tmp_path):
    model = nn.Linear(3, 2)
    path = tmp_path / "x.safetensors"
    with pytest.raises(CheckpointError, match=r"1 tensors .* weight"):
        load_model(model, {"weight": torch.zeros(2, 4), "bias": torch.zeros(2)}, path)
    with pytest.raises(CheckpointError, match="bias"):
        load_model(model, {"weight": torch.zeros(2, 3)}, path)


def test_a_file_that_may_not_be_read_is_not_called_damaged(tmp_path, monkeypatch):
    path = tmp_path / "x.safetensors"
    save_tensors(path, {"a": torch.zeros(3)}, {})

    def refuse(*arguments, **options):
        raise PermissionError(errno.EACCES, "Permission denied", str(path))

    monkeypatch.setattr(Path, "open", refuse)  # whoever runs the tests may read everything
    with pytest.raises(PermissionError):
        load_tensors(path)
