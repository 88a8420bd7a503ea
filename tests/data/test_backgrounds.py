import shutil

import numpy as np
import pytest
import torch
from PIL import Image
from safetensors.torch import save

from ars.data.backgrounds import (
    FORMER,
    KNOWN,
    SUFFIX,
    checksum_path,
    load_backgrounds,
    read_pack,
    sha256_of,
    write_pack,
)
from ars.data.files import Files
from ars.data.locate import BACKGROUNDS, cache_folders, locate
from ars.data.settings import DataError

TRAIN = torch.arange(48, dtype=torch.uint8).view(4, 3, 2, 2)
ABOUT = {"name": "scenes", "side": 2, "filter": "bilinear"}


@pytest.fixture
def path(tmp_path):
    write_pack(tmp_path / "a" / "pack.safetensors", {"train": TRAIN, "test": torch.zeros_like(TRAIN)}, ABOUT)
    return tmp_path / "a" / "pack.safetensors"


def test_a_pack_comes_back_as_it_was_written(path):
    pack = read_pack(path)
    assert torch.equal(pack.tensors["train"], TRAIN)
    assert pack.about == ABOUT
    assert checksum_path(path).read_text() == f"{pack.sha256}  {path.name}\n"
    assert pack.sha256 == sha256_of(path)
    assert path.stat().st_mode == checksum_path(path).stat().st_mode
    assert sorted(other.name for other in path.parent.iterdir()) == [path.name, checksum_path(path).name]


def test_its_bytes_are_the_same_each_time(path):
    """The hash maps of safetensors have an order of their own each time."""
    pack = read_pack(path)
    assert {write_pack(path, pack.tensors, ABOUT).sha256 for _ in range(8)} == {pack.sha256}


@pytest.mark.parametrize("damage", [lambda content: content[:-5], lambda content: content[:-1] + b"x"])
def test_a_changed_or_incomplete_pack_is_refused(path, damage):
    path.write_bytes(damage(path.read_bytes()))
    with pytest.raises(DataError, match="SHA-256"):
        read_pack(path)
    checksum_path(path).unlink()
    with pytest.raises(DataError, match="sha256 is missing"):
        read_pack(path)


@pytest.mark.parametrize(
    "content",
    [
        b"text", save({"train": TRAIN}, {"about": "[1]"}), save({"train": TRAIN}, {"about": "{"}),
        save({"train": TRAIN.float()}, {"about": "{}"}), save({"train": TRAIN[0]}, {"about": "{}"}),
    ],
    ids=["text", "list", "cut", "floats", "one image"],
)  # fmt: skip
def test_what_is_no_pack_is_refused_even_with_a_checksum(tmp_path, content):
    path = tmp_path / "x.safetensors"
    path.write_bytes(content)
    checksum_path(path).write_text(f"{sha256_of(path)}  {path.name}\n")
    with pytest.raises(DataError, match="is not a pack"):
        read_pack(path)


def test_backgrounds_are_resized_whole_and_packed_once(tmp_path, write_backgrounds):
    root = write_backgrounds(tmp_path / "scenes")
    scenes = load_backgrounds(str(root), 48)
    with Image.open(root / "test" / "002.jpg") as picture:
        expected = np.asarray(picture.resize((48, 48), Image.Resampling.BILINEAR))
    assert np.array_equal(scenes.parts["test"][2].permute(1, 2, 0).numpy(), expected)
    archive = shutil.make_archive(str(tmp_path / "zipped" / "scenes"), "zip", root)
    zipped = load_backgrounds(archive, 48)
    assert zipped.digest == scenes.digest  # the same names and contents: the same pack


def test_the_pack_is_enough_where_the_originals_are_not(tmp_path, monkeypatch, write_backgrounds):
    monkeypatch.setenv("ARS_DATA", str(tmp_path))
    root = write_backgrounds(tmp_path / "backgrounds")
    scenes = load_backgrounds(None, 48)
    shutil.rmtree(root)
    there = load_backgrounds(None, 48)
    assert torch.equal(there.parts["test"], scenes.parts["test"])
    assert (there.name, there.digest) == (scenes.name, scenes.digest)
    [pack] = cache_folders()[0].glob(f"*{SUFFIX}")
    assert pack.parent == tmp_path / "packs"
    assert torch.equal(load_backgrounds(str(pack), 48).parts["train"], scenes.parts["train"])
    with pytest.raises(DataError, match="64x64"):
        load_backgrounds(str(pack), 64)
    with pytest.raises(DataError, match="background images"):
        load_backgrounds(None, 64)


@pytest.mark.usefixtures("real_data")
def test_packs_of_the_scenes_keep_their_name():
    files = Files(locate(None, BACKGROUNDS, what="", key=""))
    assert KNOWN[FORMER[files.digest(files.images("train") + files.images("test"))]] == "scene backgrounds"


def test_too_few_backgrounds_are_refused(tmp_path, write_backgrounds):
    root = write_backgrounds(tmp_path / "few", train=1)
    with pytest.raises(DataError, match="train/, found 1"):
        load_backgrounds(str(root), 40)
    with pytest.raises(DataError, match=r"data\.backgrounds names .*nowhere"):
        load_backgrounds(str(tmp_path / "nowhere"), 40)


def test_an_unreadable_background_is_named(tmp_path, write_backgrounds):
    root = write_backgrounds(tmp_path / "scenes")
    (root / "train" / "x.jpg").write_text("no image")
    with pytest.raises(DataError, match=r"scenes/train/x\.jpg"):
        load_backgrounds(str(root), 40)
    assert not list(cache_folders()[0].glob(f"*{SUFFIX}*"))
