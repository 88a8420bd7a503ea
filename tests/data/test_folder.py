import shutil

import pytest
import torch
from PIL import Image

from ars.data.benchmark import PARTS
from ars.data.crops import read_fitted
from ars.data.decoding import DecodedImages, DecodingPool, cores
from ars.data.folder import folder
from ars.data.image_files import read_image
from ars.data.pasted import PastedImages
from ars.data.settings import DataError


@pytest.fixture
def root(tmp_path, write_classes):
    return write_classes(tmp_path / "pets", count=30)


def test_classes_are_the_folders(root):
    benchmark = folder(root=str(root), size=24, workers=0)
    assert isinstance(benchmark, DecodedImages)
    assert list(benchmark.class_names) == ["cat", "dog"]
    assert benchmark.shape == (3, 24, 24)
    assert benchmark.title == "pets"
    parts = [benchmark._pictures.names[part].tolist() for part in PARTS]
    assert all(parts)
    assert len({name for names in parts for name in names}) == 60
    _, labels = benchmark.examples("test", range(benchmark.size("test")))
    assert [name.startswith(b"dog") for name in benchmark._pictures.names["test"].tolist()] == labels.bool().tolist()


def test_an_image_of_the_size_is_left_alone(tmp_path, write_image):
    for number in range(30):
        for name in ("cat", "dog"):
            write_image(tmp_path / "pets" / name / f"{number}.png", (32, 32), seed=number)
    benchmark = folder(root=str(tmp_path / "pets"), size=32, workers=0)
    for part in ("validation", "test"):
        images, _ = benchmark.examples(part, range(benchmark.size(part)))
        for image, name in zip(images, benchmark._pictures.names[part].tolist(), strict=True):
            assert torch.equal(image, read_image(tmp_path / "pets" / name.decode()))


def test_a_large_jpeg_is_decoded_in_full_for_testing(tmp_path, write_image):
    for number in range(4):
        for name in ("cat", "dog"):
            write_image(tmp_path / "test" / name / f"{number}.jpg", (200, 160), seed=number)
    benchmark = folder(root=str(tmp_path), size=16, workers=0)
    images, _ = benchmark.examples("test", range(8))
    for image, name in zip(images, benchmark.chosen.files, strict=True):
        assert torch.equal(image, read_fitted(tmp_path / name, (16, 16))[0])


@pytest.mark.filterwarnings("ignore:This DataLoader will create")
def test_neither_workers_nor_interruptions_change_a_pixel(root, monkeypatch):
    started, start_loader = [], DecodingPool._start
    monkeypatch.setattr(DecodingPool, "_start", lambda pool: started.append(1) or start_loader(pool))
    alone, one, four = (folder(root=str(root), size=24, workers=workers) for workers in (0, 1, 4))
    batches = [images for images, _ in alone.train_batches(2, seed=3, batch_size=8)]
    test, labels = alone.examples("validation", list(range(alone.size("validation"))) * 30)
    assert len(test) > 64  # enough to be worth asking the workers
    for other in (one, four):
        again = [images for images, _ in other.train_batches(2, seed=3, batch_size=8)]
        assert all(torch.equal(a, b) for a, b in zip(batches, again, strict=True))
        same_test, same_labels = other.examples("validation", list(range(alone.size("validation"))) * 30)
        assert torch.equal(test, same_test)
        assert torch.equal(labels, same_labels)
    halfway = four.train_batches(2, seed=3, batch_size=8)
    next(halfway)
    halfway.close()
    for start in (1, 3):
        rest = [images for images, _ in four.train_batches(2, seed=3, batch_size=8, start=start)]
        assert all(torch.equal(a, b) for a, b in zip(batches[start:], rest, strict=True))
    assert len(started) == 3  # one for each benchmark, whose workers stay alive
    first, second = (one.train_batches(0, seed=0, batch_size=8) for _ in range(2))
    assert all(torch.equal(a, b) for (a, _), (b, _) in zip(first, second, strict=True))
    assert len(started) == 4  # two at the same time


@pytest.mark.parametrize("workers", [0, 2])
def test_inputs_that_workers_share_come_in_the_order_asked_for(root, monkeypatch, workers):
    benchmark = folder(root=str(root), size=24, workers=workers)
    indices = [2, 0, 1]
    alone = [benchmark.examples("test", [index]) for index in indices]
    monkeypatch.setattr("ars.data.decoding.AT_ONCE", 1)
    images, labels = benchmark.examples("test", indices)
    assert torch.equal(images, torch.cat([image for image, _ in alone]))
    assert torch.equal(labels, torch.cat([label for _, label in alone]))


@pytest.mark.parametrize("workers", [0, 2])
def test_decoding_takes_nothing_from_the_global_generator(root, workers):
    """Moments are computed between the seed and the weights of a new model, or read from the cache."""
    benchmark = folder(root=str(root), size=24, workers=workers)
    torch.manual_seed(0)
    wanted = torch.rand(3)
    torch.manual_seed(0)
    for _ in range(2):  # workers that are started, and workers that are there
        next(benchmark.train_batches(0, seed=0, batch_size=8))
    benchmark.examples("validation", [0])
    assert torch.equal(torch.rand(3), wanted)


def test_training_views_change_with_epoch_and_seed(root):
    benchmark = folder(root=str(root), size=24, workers=0)
    size = benchmark.train_size()

    def views(epoch, seed):
        """Of every training image, in no order: a view that is shown again would be in both sets."""
        [(images, _)] = benchmark.train_batches(epoch, seed=seed, batch_size=size)
        return {image.numpy().tobytes() for image in images}

    first = views(0, 0)
    assert len(first) == size
    assert first == views(0, 0)
    assert not first & views(1, 0)
    assert not first & views(0, 1)


def test_train_and_test_folders_are_kept_apart(tmp_path, write_classes):
    write_classes(tmp_path / "pets" / "train", count=30)
    write_classes(tmp_path / "pets" / "val", count=4)
    archive = shutil.make_archive(str(tmp_path / "pets"), "zip", tmp_path, "pets")
    for root in (tmp_path / "pets", archive):
        benchmark = folder(root=str(root), size=24, workers=0)
        assert benchmark.size("test") == 8
        assert benchmark.train_size() + benchmark.size("validation") == 60
        assert benchmark.size("validation") > 0


@pytest.mark.parametrize("top", ["test", "val"])
def test_test_images_alone_are_enough_until_training_asks_for_more(tmp_path, write_classes, top):
    write_classes(tmp_path / "pets" / top, count=3)
    inside = shutil.make_archive(str(tmp_path / "inside"), "zip", tmp_path / "pets")
    wrapped = shutil.make_archive(str(tmp_path / "wrapped"), "zip", tmp_path, "pets")
    for root in (tmp_path / "pets", inside, wrapped):
        benchmark = folder(root=str(root), size=24, workers=0)
        assert (benchmark.train_size(), benchmark.size("validation"), benchmark.size("test")) == (0, 0, 6)
        labels = benchmark.examples("test", range(6))[1].tolist()
        assert [sorted(labels[at : at + 2]) for at in (0, 2, 4)] == [[0, 1]] * 3  # the classes in turn
        assert benchmark.labels("test", [4, 1, 3]).tolist() == [labels[index] for index in (4, 1, 3)]
        assert benchmark.check() == 6
        for ask in (benchmark.moments, benchmark.references):
            with pytest.raises(DataError, match="train part"):
                ask()
        with pytest.raises(DataError, match="validation part"):
            benchmark.examples("validation", [0])


def test_any_images_can_be_pasted_on_backgrounds(root, tmp_path, write_backgrounds):
    scenes = write_backgrounds(tmp_path / "scenes")
    options = {"root": str(root), "size": 48, "backgrounds": str(scenes), "pasted": 16}
    benchmark = folder(**options, workers=2)
    assert isinstance(benchmark, PastedImages)
    assert benchmark.title == "pets, 16x16 on backgrounds of scenes, k = 48"
    assert benchmark.shape == (3, 48, 48)
    images, labels = benchmark.examples("test", range(benchmark.size("test")))
    assert torch.equal(benchmark.labels("test", range(1, len(labels))), labels[1:])
    patch = benchmark._material["test"].images[0]
    views = (images[0] * 255).round().to(torch.uint8).unfold(1, 16, 1).unfold(2, 16, 1)
    assert (views == patch[:, None, None]).flatten(3).all(3).all(0).sum() == 1
    assert torch.equal(folder(**options, workers=0).examples("test", [0])[0][0], images[0])
    with pytest.raises(DataError, match=r"data\.pasted"):
        folder(**{**options, "pasted": 64}, workers=0)


def test_folders_of_the_same_names_and_lengths_are_told_apart(tmp_path, write_backgrounds):
    scenes = write_backgrounds(tmp_path / "scenes")
    for number, place in enumerate(("here", "there")):
        for name in (f"{pet}/{index}.bmp" for pet in ("cat", "dog") for index in range(20)):
            path = tmp_path / place / "pets" / name
            path.parent.mkdir(parents=True, exist_ok=True)
            Image.new("RGB", (24, 24), (90 * number, 0, 0)).save(path)
    for options in ({"size": 24}, {"size": 48, "pasted": 24, "backgrounds": str(scenes)}):
        here, there = (folder(root=str(tmp_path / at / "pets"), workers=0, **options) for at in ("here", "there"))
        assert here.moments() != there.moments()
        assert not torch.equal(here.examples("test", [0])[0], there.examples("test", [0])[0])


def test_an_unreadable_file_is_named_and_skipped_only_if_asked(root, tmp_path, write_backgrounds):
    for name in ("cat/broken.jpg", "dog/text.png"):
        (root / name).write_text("no image")
    benchmark = folder(root=str(root), size=24, workers=2)
    with pytest.raises(DataError, match=r"(cat/broken.jpg|dog/text.png) cannot be read"):
        benchmark.check()
    with pytest.raises(DataError, match="cannot be read"):
        list(benchmark.train_batches(0, seed=0, batch_size=1))
    scenes = write_backgrounds(tmp_path / "scenes")
    with pytest.raises(DataError, match="cannot be read"):
        folder(root=str(root), size=48, backgrounds=str(scenes), pasted=16, workers=0)
    with pytest.warns(UserWarning, match="skipped: .*cannot be read") as caught:
        benchmark = folder(root=str(root), size=24, workers=2, skip_unreadable=True)
    assert len(caught) == 2
    assert benchmark.check() == 60


def test_what_is_missing_is_named(tmp_path, root, write_classes):
    write_classes(tmp_path / "parts" / "train", count=12)
    write_classes(tmp_path / "parts" / "test", classes=("cat", "dog", "fish"), count=2)
    write_classes(tmp_path / "few", count=1)
    (root / "fish").mkdir()
    for place, told in (
        (tmp_path / "nowhere", r"data\.root names .*nowhere"),
        (root, "pets/fish should hold images"),
        (root / "fish", "two class folders"),
        (tmp_path / "parts", "test/fish is a class that"),
        (tmp_path / "few", "below test/"),
    ):
        with pytest.raises(DataError, match=told):
            folder(root=str(place), size=24, workers=0)


@pytest.mark.parametrize("tops", [("test", "val"), ("Test", "Train"), ("misc", "test"), ("train", "valid")])
def test_parts_of_the_data_are_not_taken_for_classes(tmp_path, write_classes, tops):
    for top in tops:
        write_classes(tmp_path / "pets" / top, count=12)
    wrong = next(top for top in tops if top != "misc")
    archive = shutil.make_archive(str(tmp_path / "pets"), "zip", tmp_path, "pets")
    for root in (tmp_path / "pets", archive):
        with pytest.raises(DataError, match=rf"/{wrong} .* not a class"):
            folder(root=str(root), size=24, workers=0)


def test_processes_on_one_machine_share_its_cores(monkeypatch):
    monkeypatch.delenv("LOCAL_WORLD_SIZE", raising=False)
    every = cores()
    monkeypatch.setenv("LOCAL_WORLD_SIZE", str(2 * every))
    assert cores() == 1
