import subprocess
import sys

import pytest
import torch

from ars.certification.writing import WriteError
from ars.data.errors import DataError
from ars.data.packs import checksum_path, read_pack, sha256_of, write_pack

CODE = """
import sys, torch
from pathlib import Path
from ars.data.packs import write_pack
train = torch.arange(48, dtype=torch.uint8).view(4, 3, 2, 2)
tensors = {"train": train, "test": torch.zeros_like(train)}
print(write_pack(Path(sys.argv[1]), tensors, {"name": "scenes", "side": 2, "filter": "bilinear"}).sha256)
"""


@pytest.fixture
def path(tmp_path):
    subprocess.run([sys.executable, "-c", CODE, str(tmp_path / "a" / "pack.safetensors")], check=True)
    return tmp_path / "a" / "pack.safetensors"


def test_a_pack_comes_back_as_it_was_written(path):
    pack = read_pack(path)
    assert torch.equal(pack.tensors["train"], torch.arange(48, dtype=torch.uint8).view(4, 3, 2, 2))
    assert pack.about == {"name": "scenes", "side": 2, "filter": "bilinear"}
    assert checksum_path(path).read_text() == f"{pack.sha256}  {path.name}\n"
    assert pack.sha256 == sha256_of(path)
    assert sorted(other.name for other in path.parent.iterdir()) == [path.name, checksum_path(path).name]


def test_its_bytes_do_not_depend_on_the_process(path, tmp_path):
    again = subprocess.run(
        [sys.executable, "-c", CODE, str(tmp_path / "b.safetensors")], capture_output=True, text=True
    )
    assert again.stdout.strip() == read_pack(path).sha256


def test_it_can_be_read_by_whoever_may_read_its_checksum(path):
    assert path.stat().st_mode == checksum_path(path).stat().st_mode


@pytest.mark.parametrize("position", [0, 9, -1])
def test_a_changed_byte_is_seen(path, position):
    content = bytearray(path.read_bytes())
    content[position] ^= 1
    path.write_bytes(content)
    with pytest.raises(DataError, match=r"has the SHA-256 .*, expected is .*; copy the pack again"):
        read_pack(path)


def test_half_a_pack_is_refused(path):
    path.write_bytes(path.read_bytes()[:-5])
    with pytest.raises(DataError, match="SHA-256"):
        read_pack(path)
    checksum_path(path).unlink()
    with pytest.raises(DataError, match=r"a pack is two files, .*sha256 is missing; copy both"):
        read_pack(path)


def test_what_is_no_pack_is_refused_even_with_a_checksum(tmp_path):
    path = tmp_path / "x.safetensors"
    path.write_text("text")
    checksum_path(path).write_text(f"{sha256_of(path)}  {path.name}\n")
    with pytest.raises(DataError, match="is not a pack"):
        read_pack(path)


def test_a_failed_write_leaves_the_old_pack(path):
    before = path.read_bytes()
    with pytest.raises(TypeError):
        write_pack(path, {"train": torch.zeros(1, 3, 2, 2, dtype=torch.uint8)}, {"what JSON cannot say": object()})
    assert path.read_bytes() == before
    assert len(list(path.parent.iterdir())) == 2
    read_pack(path)


def test_a_full_disk_is_one_sentence_and_leaves_the_old_pack(path, monkeypatch):
    before = path.read_bytes()

    def full(*arguments):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.fsync", full)
    with pytest.raises(WriteError, match="No space left on device") as caught:
        write_pack(path, {"train": torch.zeros(1, 3, 2, 2, dtype=torch.uint8)}, {})
    assert str(caught.value).count("cannot write") == 1
    assert path.read_bytes() == before
    assert len(list(path.parent.iterdir())) == 2
