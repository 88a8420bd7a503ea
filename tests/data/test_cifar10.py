"""The batches as they lie on disk, and the inputs that are composed of them."""

import hashlib
from collections import Counter

import numpy as np
import pytest
import torch

from ars.data.cifar10 import CLASSES, FOLDER, PICKLED, ROW, SIDE, TEST, cifar_on_backgrounds, load_cifar10
from ars.data.pasted import border_slots
from ars.data.settings import DataError


def test_images_and_labels_come_in_their_order(tmp_path, write_cifar):
    layout = write_cifar(tmp_path)
    cifar = load_cifar10(tmp_path, layout)
    assert cifar.train.shape == (10, 3, 32, 32)
    assert cifar.test.shape == (5, 3, 32, 32)
    row = np.frombuffer((tmp_path / FOLDER / "data_batch_2.bin").read_bytes(), np.uint8).reshape(5, ROW)[3]
    assert cifar.train_labels[8] == row[0]
    assert torch.equal(cifar.train[8, 1, 2], torch.from_numpy(row[1 + 1024 + 64 : 1 + 1024 + 96].copy()))
    same = load_cifar10(tmp_path / FOLDER, layout)
    assert torch.equal(same.test, cifar.test)


def test_the_classes_are_in_the_order_of_batches_meta_txt():
    assert " ".join(CLASSES) == "airplane automobile bird cat deer dog frog horse ship truck"


def test_a_batch_of_the_wrong_length_or_content_is_refused(tmp_path, write_cifar):
    layout = write_cifar(tmp_path)
    path = tmp_path / FOLDER / "data_batch_1.bin"
    whole = path.read_bytes()
    for damaged, told in ((whole[:-1], "15,364 bytes"), (whole[:-1] + bytes([whole[-1] ^ 1]), "SHA-1")):
        path.write_bytes(damaged)
        with pytest.raises(DataError, match=rf"data_batch_1\.bin has .*{told}"):
            load_cifar10(tmp_path, layout)


def test_a_missing_batch_or_root_is_named(tmp_path, write_cifar):
    with pytest.raises(DataError, match="ars data get"):
        load_cifar10(tmp_path)
    layout = write_cifar(tmp_path)
    (tmp_path / FOLDER / "data_batch_2.bin").unlink()
    with pytest.raises(DataError, match=r"data_batch_2\.bin"):
        load_cifar10(tmp_path, layout)


def test_the_pickled_layout_points_to_its_converter(tmp_path):
    (tmp_path / PICKLED).mkdir()
    (tmp_path / PICKLED / TEST).write_bytes(b"")
    with pytest.raises(DataError, match="ars data get cifar10 --from"):
        load_cifar10(tmp_path)


def windows_of(image, patch):
    """The slots at which the patch stands in the image."""
    views = image.unfold(1, SIDE, 1).unfold(2, SIDE, 1)
    return (views == patch[:, None, None]).flatten(3).all(3).all(0).nonzero().tolist()


@pytest.mark.parametrize("k", [32, 33, 40, 48])
def test_a_test_input_is_its_image_once_along_the_border_of_a_test_background(make_cifar, k):
    benchmark = make_cifar(k)
    images, labels = benchmark.examples("test", range(60))
    material = benchmark._material["test"]
    allowed = {tuple(slot) for slot in border_slots(k - SIDE).tolist()}
    boxes = benchmark.boxes("test", range(60))
    assert (boxes is None) == (k == SIDE)
    for index, image in enumerate((images * 255).round().to(torch.uint8)):
        [(top, left)] = windows_of(image, material.images[index])
        assert boxes is None or boxes[index].tolist() == [top, left, SIDE, SIDE]
        assert (top, left) in allowed
        if k > SIDE:
            rest = torch.ones(k, k, dtype=torch.bool)
            rest[top : top + SIDE, left : left + SIDE] = False
            assert any(torch.equal(image[:, rest], background[:, rest]) for background in material.backgrounds)
    assert torch.equal(labels, material.labels)
    assert images.shape == (60, *benchmark.shape) == (60, 3, k, k)
    assert benchmark.title == ("CIFAR-10" if k == SIDE else f"CIFAR-10 on backgrounds of scenes, k = {k}")


def test_every_slot_is_reached_equally_often(make_cifar):
    benchmark = make_cifar(36)
    slots = border_slots(4)
    patches = benchmark._material["train"].images
    random = torch.randint(2**40, (3, SIDE, SIDE), generator=torch.Generator().manual_seed(0))

    def mark(patch):  # a random sum tells every patch from everything else
        return (patch * random).sum(dim=(1, 2, 3))

    known = torch.cat([mark(patches), mark(patches.flip(3))])
    seen = Counter()
    for epoch in range(12):
        for images, _ in benchmark.train_bytes(epoch, seed=0, batch_size=59):
            for top, left in slots.tolist():
                window = images[:, :, top : top + SIDE, left : left + SIDE]
                seen[top, left] += int(torch.isin(mark(window), known).sum())
    assert sum(seen.values()) == 12 * 59 * 2
    expected = sum(seen.values()) / len(slots)
    chi_square = sum((count - expected) ** 2 / expected for count in seen.values())
    assert len(seen) == len(slots) == 16
    assert chi_square < 44.3  # the 0.9999 quantile at 15 degrees of freedom


def test_training_flips_each_image_for_itself_and_testing_none(make_cifar):
    benchmark = make_cifar(32)
    patches = benchmark._material["train"].images
    batch, _ = next(benchmark.train_bytes(0, seed=0, batch_size=100))
    plain = [any(torch.equal(image, patch) for patch in patches) for image in batch]
    mirrored = [any(torch.equal(image.flip(2), patch) for patch in patches) for image in batch]
    assert all(a != b for a, b in zip(plain, mirrored, strict=True))
    assert 25 < sum(mirrored) < 75


def test_random_crops_shift_each_training_image_for_itself_and_nothing_else(make_cifar):
    plain, cropped = make_cifar(32), make_cifar(32, padding=2)
    [(shown, labels)] = cropped.train_batches(1, seed=3, batch_size=118)
    [(whole, same_labels)] = plain.train_batches(1, seed=3, batch_size=118)
    assert torch.equal(labels, same_labels)
    bordered = torch.nn.functional.pad(whole, (2, 2, 2, 2))
    places = Counter()
    for image, around in zip(shown, bordered, strict=True):
        [place] = [(top, left) for top in range(5) for left in range(5)
                   if torch.equal(image, around[:, top : top + SIDE, left : left + SIDE])]  # fmt: skip
        places[place] += 1
    assert {top for top, _ in places} == {left for _, left in places} == set(range(5))
    assert max(places.values()) < 20
    [(again, _)] = cropped.to(torch.device("cpu")).train_batches(1, seed=3, batch_size=118)
    assert torch.equal(again, shown)
    for split in ("validation", "test"):
        assert torch.equal(cropped.examples(split, [0])[0], plain.examples(split, [0])[0])
    assert torch.equal(cropped.references(), plain.references())
    assert cropped.moments() == plain.moments()


def test_the_parts_share_neither_images_nor_backgrounds(make_cifar):
    material = make_cifar(40)._material
    for kind in ("images", "backgrounds"):
        every = [image.numpy().tobytes() for part in material.values() for image in getattr(part, kind)]
        assert len(set(every)) == len(every)
        assert all(len(getattr(part, kind)) for part in material.values())
    assert len(material["train"].images) + len(material["validation"].images) == 120


def test_references_are_training_inputs_as_bytes_and_moments_are_read_from_the_cache(make_cifar, monkeypatch):
    benchmark = make_cifar(40)
    references = benchmark.references()
    assert references.dtype == torch.uint8
    [(images, _)] = benchmark.train_batches(0, seed=0, batch_size=benchmark.train_size())
    assert torch.equal(references, (images * 255).round().to(torch.uint8))
    expected = benchmark.moments()
    monkeypatch.setattr("ars.data.benchmark.byte_moments", None)
    assert make_cifar(40).moments() == expected


def test_what_makes_no_sense_is_refused(tmp_path, monkeypatch, write_cifar):
    with pytest.raises(DataError, match="k = 31"):
        cifar_on_backgrounds(size=31)
    with pytest.raises(DataError, match=r"data\.backgrounds"):
        cifar_on_backgrounds(size=32, backgrounds="x")
    with pytest.raises(DataError, match=r"cifar-10-batches-bin .* ARS_DATA is not set"):
        cifar_on_backgrounds(size=32)
    monkeypatch.setenv("ARS_DATA", str(tmp_path / "nowhere"))
    with pytest.raises(DataError, match=r"ARS_DATA names .*nowhere"):
        cifar_on_backgrounds(size=32)
    monkeypatch.setenv("ARS_DATA", str(tmp_path))
    write_cifar(tmp_path)
    with pytest.raises(DataError, match="10,000 rows"):  # of the published layout
        cifar_on_backgrounds(size=32)


# Of the first 200 test inputs, seed 0, as float32 [200, 3, k, k].
SHA256 = {
    32: "84b45015b5b0114ec3bbd7f4d44976dea17e2514acb7930aff3cc2cacbb282f4",
    48: "a7a6c8b6ae09faeed7e38a62cb619591bb79e122c159a28ef33e251917705cbe",
    64: "f305c2210066c7b8f65b559f73bd69daa0fed6de3d23d68dd752bf7541eb006d",
    96: "267fc8905889f29ad9f7e1ee01adbc75a8ccd974942fc8b5b5b2f92a4bdd2cb6",
}


@pytest.mark.usefixtures("real_data")
@pytest.mark.parametrize("k", SHA256)
def test_the_real_test_inputs_are_the_recorded_ones(k):
    benchmark = cifar_on_backgrounds(size=k)
    images, _ = benchmark.examples("test", range(200))
    assert hashlib.sha256(images.numpy().tobytes()).hexdigest() == SHA256[k]
    if k > SIDE:
        assert benchmark.title == f"CIFAR-10 on scene backgrounds, k = {k}"
