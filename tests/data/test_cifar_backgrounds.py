import hashlib
import shutil
import subprocess
import sys
from collections import Counter

import numpy as np
import pytest
import torch
from PIL import Image

from ars.data import cifar10
from ars.data.backgrounds import FORMER, KNOWN, load_backgrounds
from ars.data.cifar10 import load_cifar10
from ars.data.cifar_backgrounds import cifar_on_backgrounds, compose_cifar
from ars.data.errors import DataError
from ars.data.files import Files
from ars.data.locations import BACKGROUNDS, cache_folders, locate
from ars.data.moments import byte_moments
from ars.data.packs import SUFFIX
from ars.data.pasting import border_slots

SIDE = 32


@pytest.fixture
def make(tmp_path, write_cifar, write_backgrounds):
    """A small benchmark at k, its batches of 60 images."""
    layout = write_cifar(tmp_path, rows=60)
    scenes = write_backgrounds(tmp_path / "scenes")

    def make(k, seed=0, padding=0):
        cifar = load_cifar10(tmp_path, layout)
        onto = load_backgrounds(str(scenes), k) if k > SIDE else None
        return compose_cifar(cifar, onto, seed=seed, padding=padding)

    return make


def windows_of(image, patch):
    """The slots at which the patch stands in the image."""
    views = image.unfold(1, SIDE, 1).unfold(2, SIDE, 1)
    return [tuple(slot) for slot in (views == patch[:, None, None]).flatten(3).all(3).all(0).nonzero().tolist()]


@pytest.mark.parametrize("k", [32, 33, 40, 48])
def test_a_test_input_is_its_image_once_along_the_border_of_a_test_background(make, k):
    benchmark = make(k)
    images, labels = benchmark.examples("test", range(60))
    material = benchmark._material["test"]
    allowed = {tuple(slot) for slot in border_slots(k - SIDE).tolist()}
    for index, image in enumerate((images * 255).round().to(torch.uint8)):
        [(top, left)] = windows_of(image, material.images[index])
        assert (top, left) in allowed
        if k > SIDE:
            rest = torch.ones(k, k, dtype=torch.bool)
            rest[top : top + SIDE, left : left + SIDE] = False
            assert any(torch.equal(image[:, rest], background[:, rest]) for background in material.backgrounds)
    assert torch.equal(labels, material.labels)
    assert images.shape == (60, *benchmark.shape) == (60, 3, k, k)


def test_boxes_are_where_the_images_are(make):
    benchmark = make(48)
    images, _ = benchmark.examples("test", range(10))
    patches = benchmark._material["test"].images
    for index, (top, left, height, width) in enumerate(benchmark.boxes("test", range(10)).tolist()):
        shown = (images[index] * 255).round().to(torch.uint8)
        assert torch.equal(shown[:, top : top + height, left : left + width], patches[index])
    assert make(32).boxes("test", [0]) is None


def test_a_test_input_depends_on_its_index_and_the_seed_alone(make):
    benchmark = make(48)
    together, labels = benchmark.examples("test", range(60))
    for index in (0, 31, 59):
        alone, label = benchmark.examples("test", [index])
        assert torch.equal(alone[0], together[index])
        assert label[0] == labels[index]
    assert torch.equal(benchmark.examples("test", [5, 3, 3])[0], together[[5, 3, 3]])
    assert torch.equal(make(48).examples("test", range(60))[0], together)
    assert torch.equal(benchmark.to(torch.device("cpu")).examples("test", range(60))[0], together)
    assert not torch.equal(make(48, seed=1).examples("test", range(60))[0], together)
    assert benchmark.examples("test", [])[0].shape == (0, 3, 48, 48)


def test_every_slot_is_reached_equally_often(make):
    benchmark = make(36)
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


def test_training_flips_each_image_for_itself_and_testing_none(make):
    benchmark = make(32)
    patches = benchmark._material["train"].images
    batch, _ = next(benchmark.train_bytes(0, seed=0, batch_size=100))
    plain = [any(torch.equal(image, patch) for patch in patches) for image in batch]
    mirrored = [any(torch.equal(image.flip(2), patch) for patch in patches) for image in batch]
    assert all(a != b for a, b in zip(plain, mirrored, strict=True))
    assert 25 < sum(mirrored) < 75


def test_random_crops_shift_each_training_image_for_itself_and_nothing_else(make):
    plain, cropped = make(32), make(32, padding=2)
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


def test_random_crops_are_refused_on_backgrounds(make):
    with pytest.raises(ValueError, match="crops with padding are for images without backgrounds"):
        make(48, padding=4)


def test_an_epoch_shows_every_image_once_and_can_start_in_the_middle(make):
    benchmark = make(40)
    whole = list(benchmark.train_batches(3, seed=5, batch_size=20))
    assert len(whole) == benchmark.train_size() // 20 == 5
    for start in range(6):
        rest = list(benchmark.train_batches(3, seed=5, batch_size=20, start=start))
        assert len(rest) == 5 - start
        for (a, la), (b, lb) in zip(whole[start:], rest, strict=True):
            assert torch.equal(a, b)
            assert torch.equal(la, lb)
    for epoch, seed in ((4, 5), (3, 6)):
        assert not torch.equal(next(benchmark.train_batches(epoch, seed=seed, batch_size=20))[0], whole[0][0])
    [(_, labels)] = benchmark.train_batches(0, seed=0, batch_size=benchmark.train_size())
    assert sorted(labels.tolist()) == sorted(benchmark._material["train"].labels.tolist())


def test_the_parts_share_neither_images_nor_backgrounds(make):
    material = make(40)._material
    for kind in ("images", "backgrounds"):
        sets = [{image.numpy().tobytes() for image in getattr(material[part], kind)} for part in material]
        assert not sets[0] & sets[1]
        assert not sets[0] & sets[2]
        assert not sets[1] & sets[2]
        assert all(sets)
    assert len(material["train"].images) + len(material["validation"].images) == 120


def test_moments_are_those_of_training_inputs_and_are_kept(make, monkeypatch):
    benchmark = make(40)
    mean, std = benchmark.moments()
    images = torch.cat([batch for batch, _ in benchmark.train_batches(9, seed=1, batch_size=50)])
    assert images.mean(dim=(0, 2, 3)).tolist() == pytest.approx(mean, abs=0.01)
    assert images.std(dim=(0, 2, 3)).tolist() == pytest.approx(std, abs=0.01)
    again = make(40)
    monkeypatch.setattr("ars.data.moments.byte_moments", None)
    assert again.moments() == (mean, std)


def test_references_are_training_inputs_as_bytes(make):
    benchmark = make(40)
    references = benchmark.references()
    assert references.dtype == torch.uint8
    [(images, _)] = benchmark.train_batches(0, seed=0, batch_size=benchmark.train_size())
    assert torch.equal(references, (images * 255).round().to(torch.uint8))
    assert torch.equal(references, make(40).references())


def test_moments_are_exact():
    images = torch.from_numpy(np.random.default_rng(0).integers(256, size=(7, 3, 5, 4), dtype=np.uint8))
    mean, std = byte_moments([images[:3], images[3:]])
    assert mean == pytest.approx((images.double() / 255).mean(dim=(0, 2, 3)).tolist(), abs=1e-12)
    assert std == pytest.approx((images.double() / 255).std(dim=(0, 2, 3), correction=0).tolist(), abs=1e-12)


def test_the_title_names_the_backgrounds_and_k(make):
    assert make(40).title == "CIFAR-10 on backgrounds of scenes, k = 40"
    assert make(32).title == "CIFAR-10"


def test_backgrounds_are_resized_whole_and_packed_once(tmp_path, write_backgrounds):
    root = write_backgrounds(tmp_path / "scenes")
    scenes = load_backgrounds(str(root), 48)
    with Image.open(root / "test" / "002.jpg") as picture:
        expected = np.asarray(picture.resize((48, 48), Image.Resampling.BILINEAR))
    assert np.array_equal(scenes.test[2].permute(1, 2, 0).numpy(), expected)
    archive = shutil.make_archive(str(tmp_path / "zipped" / "scenes"), "zip", root)
    zipped = load_backgrounds(archive, 48)
    assert zipped.digest == scenes.digest  # the same names and contents: the same pack


def test_the_pack_is_enough_where_the_originals_are_not(tmp_path, monkeypatch, write_backgrounds):
    monkeypatch.setenv("ARS_DATA", str(tmp_path))
    root = write_backgrounds(tmp_path / "backgrounds")
    scenes = load_backgrounds(None, 48)
    shutil.rmtree(root)
    there = load_backgrounds(None, 48)
    assert torch.equal(there.test, scenes.test)
    assert (there.name, there.digest) == (scenes.name, scenes.digest)
    [pack] = cache_folders()[0].glob(f"*{SUFFIX}")
    assert pack.parent == tmp_path / "packs"
    assert torch.equal(load_backgrounds(str(pack), 48).train, scenes.train)
    with pytest.raises(DataError, match=r"should hold train images 3x64x64, found \(3, 48, 48\)"):
        load_backgrounds(str(pack), 64)
    with pytest.raises(DataError, match=r"background images were looked for as backgrounds or .* holds none of them"):
        load_backgrounds(None, 64)


def test_changed_backgrounds_get_a_pack_of_their_own(tmp_path, write_backgrounds, write_image):
    root = write_backgrounds(tmp_path / "scenes")
    before = load_backgrounds(str(root), 40)
    write_image(root / "train" / "new.png", (60, 60), seed=77)
    after = load_backgrounds(str(root), 40)
    assert len(after.train) == len(before.train) + 1
    assert after.digest != before.digest


def test_backgrounds_of_the_same_names_and_lengths_get_packs_of_their_own(tmp_path):
    for number, folder in enumerate(("here", "there")):
        for part in ("train", "test"):
            for name in range(2):
                path = tmp_path / folder / "scenes" / part / f"{name}.bmp"
                path.parent.mkdir(parents=True, exist_ok=True)
                Image.new("RGB", (40, 40), (90 * number, name, 0)).save(path)
    here, there = (load_backgrounds(str(tmp_path / folder / "scenes"), 40) for folder in ("here", "there"))
    assert here.test[0, 0].unique().tolist() == [0]
    assert there.test[0, 0].unique().tolist() == [90]


@pytest.mark.usefixtures("real_data")
def test_packs_of_the_scenes_keep_their_name():
    files = Files(locate(None, BACKGROUNDS, what="", key=""))
    assert KNOWN[FORMER[files.digest(files.images("train") + files.images("test"))]] == "scene backgrounds"


def test_too_few_backgrounds_are_refused(tmp_path, write_backgrounds):
    root = write_backgrounds(tmp_path / "few", train=1)
    with pytest.raises(
        DataError, match=r"few should hold at least 2 background images below train/, found 1; backgrou"
    ):
        load_backgrounds(str(root), 40)
    with pytest.raises(DataError, match=r"data\.backgrounds names .*nowhere, where nothing is"):
        load_backgrounds(str(tmp_path / "nowhere"), 40)


def test_an_unreadable_background_is_named(tmp_path, write_backgrounds):
    root = write_backgrounds(tmp_path / "scenes")
    (root / "train" / "x.jpg").write_text("no image")
    with pytest.raises(DataError, match=r"scenes/train/x\.jpg cannot be read as an image"):
        load_backgrounds(str(root), 40)
    assert not list(cache_folders()[0].glob(f"*{SUFFIX}*"))


def test_what_makes_no_sense_is_refused(tmp_path, monkeypatch, write_cifar):
    with pytest.raises(DataError, match="need k >= 32, got k = 31"):
        cifar_on_backgrounds(k=31)
    with pytest.raises(DataError, match=r"plain CIFAR-10 and takes no backgrounds; leave data\.backgrounds out"):
        cifar_on_backgrounds(k=32, backgrounds="x")
    with pytest.raises(
        DataError, match=r"looked for as cifar-10-batches-bin .*, but ARS_DATA is not set; put .* data\.root"
    ):
        cifar_on_backgrounds(k=32)
    monkeypatch.setenv("ARS_DATA", str(tmp_path / "nowhere"))
    with pytest.raises(DataError, match=r"ARS_DATA names .*nowhere, which is not a folder"):
        cifar_on_backgrounds(k=32)
    monkeypatch.setenv("ARS_DATA", str(tmp_path))
    monkeypatch.setattr(cifar10, "PUBLISHED", write_cifar(tmp_path))
    with pytest.raises(DataError, match="10,000 rows"):  # the default was bound to the published layout
        cifar_on_backgrounds(k=32)


# Of the first 200 test inputs, seed 0, as float32 [200, 3, k, k].
SHA256 = {
    32: "84b45015b5b0114ec3bbd7f4d44976dea17e2514acb7930aff3cc2cacbb282f4",
    48: "a7a6c8b6ae09faeed7e38a62cb619591bb79e122c159a28ef33e251917705cbe",
    64: "f305c2210066c7b8f65b559f73bd69daa0fed6de3d23d68dd752bf7541eb006d",
    96: "267fc8905889f29ad9f7e1ee01adbc75a8ccd974942fc8b5b5b2f92a4bdd2cb6",
}
CODE = """
import hashlib, sys
from ars.data.cifar_backgrounds import cifar_on_backgrounds
k, start, end = map(int, sys.argv[1:])
images, _ = cifar_on_backgrounds(k=k).examples("test", range(start, end))
sys.stdout.buffer.write(images.numpy().tobytes())
"""


@pytest.mark.usefixtures("real_data")
@pytest.mark.parametrize("k", SHA256)
def test_the_real_test_inputs_are_the_recorded_ones(k):
    benchmark = cifar_on_backgrounds(k=k)
    images, _ = benchmark.examples("test", range(200))
    assert hashlib.sha256(images.numpy().tobytes()).hexdigest() == SHA256[k]
    if k > SIDE:
        assert benchmark.title == f"CIFAR-10 on scene backgrounds, k = {k}"


@pytest.mark.slow
@pytest.mark.usefixtures("real_data")
@pytest.mark.parametrize("workers", [1, 4])
def test_the_real_test_inputs_do_not_depend_on_how_many_processes_make_them(workers):
    each = 200 // workers
    commands = [[sys.executable, "-c", CODE, "64", str(start), str(start + each)] for start in range(0, 200, each)]
    running = [subprocess.Popen(command, stdout=subprocess.PIPE) for command in commands]
    assert hashlib.sha256(b"".join(process.communicate()[0] for process in running)).hexdigest() == SHA256[64]


def test_the_rows_of_a_batch_are_those_of_the_whole_batch(make):
    benchmark = make(40)
    (images, labels), *_ = benchmark.train_batches(2, seed=3, batch_size=8, start=1)
    for rows in (slice(4, 8), slice(0, None, 2), slice(1, None, 2)):
        (mine, my_labels), *_ = benchmark.train_batches(2, seed=3, batch_size=8, start=1, rows=rows)
        assert torch.equal(mine, images[rows])
        assert torch.equal(my_labels, labels[rows])
