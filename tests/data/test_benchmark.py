"""What holds of every benchmark, and which images are held out and in which order."""

from collections import Counter

import numpy as np
import pytest
import torch

from ars.data.benchmark import byte_moments, held_out, part_of
from ars.data.digits import DigitsOnPhotographs
from ars.data.folder import classes_in_turn, folder


@pytest.fixture(params=["digits", "folder", "CIFAR-10", "cropped CIFAR-10", "CIFAR-10 on backgrounds"])
def make(request, tmp_path, write_classes, make_cifar):
    """Make a benchmark with a seed; twice with the same seed gives the same one."""
    root = str(write_classes(tmp_path / "pets", count=30))
    return {
        "digits": lambda seed=0: DigitsOnPhotographs(passes=1, seed=seed),
        "folder": lambda seed=0: folder(root=root, size=24, workers=0, seed=seed),
        "CIFAR-10": lambda seed=0: make_cifar(32, seed),
        "cropped CIFAR-10": lambda seed=0: make_cifar(32, seed, padding=2),
        "CIFAR-10 on backgrounds": lambda seed=0: make_cifar(40, seed),
    }[request.param]


def equal(one, other):
    return len(one) == len(other) and all(
        torch.equal(a, b) and torch.equal(la, lb) for (a, la), (b, lb) in zip(one, other, strict=True)
    )


def test_inputs_are_images_in_the_unit_interval(make):
    benchmark = make()
    for split in ("validation", "test"):
        size = min(benchmark.size(split), 100)
        images, labels = benchmark.examples(split, range(size))
        assert images.shape == (size, *benchmark.shape)
        assert images.dtype == torch.float32
        assert images.min() >= 0
        assert images.max() <= 1
        assert torch.equal(benchmark.labels(split, range(size)), labels)
        assert set(labels.tolist()) <= set(range(len(benchmark.class_names)))


def test_a_test_input_depends_on_its_index_and_the_seed_alone(make):
    benchmark = make()
    size = min(benchmark.size("test"), 40)
    together = benchmark.examples("test", range(size))
    for index in (0, size // 2, size - 1):
        alone, label = benchmark.examples("test", [index])
        assert torch.equal(alone[0], together[0][index])
        assert label[0] == together[1][index]
    assert torch.equal(benchmark.examples("test", [2, 1, 1])[0], together[0][[2, 1, 1]])
    assert equal([make().examples("test", range(size))], [together])
    assert equal([benchmark.to(torch.device("cpu")).examples("test", range(size))], [together])


def test_an_epoch_follows_from_seed_and_number_and_can_start_in_the_middle(make):
    benchmark = make()
    size = benchmark.train_size() // 5
    whole = list(benchmark.train_batches(3, seed=5, batch_size=size))
    assert len(whole) == benchmark.train_size() // size
    for start in (1, 4):
        assert equal(whole[start:], list(benchmark.train_batches(3, seed=5, batch_size=size, start=start)))
    for epoch, seed in ((4, 5), (3, 6)):
        assert not torch.equal(next(benchmark.train_batches(epoch, seed=seed, batch_size=size))[0], whole[0][0])


def test_the_rows_of_a_batch_are_those_of_the_whole_batch(make):
    """Processes that train together share its images."""
    benchmark = make()
    (images, labels), *_ = benchmark.train_batches(2, seed=3, batch_size=8, start=1)
    for rows in (slice(4, 8), slice(0, None, 2), slice(1, None, 2)):
        mine, *_ = benchmark.train_batches(2, seed=3, batch_size=8, start=1, rows=rows)
        assert equal([mine], [(images[rows], labels[rows])])


def test_moments_are_those_of_training_inputs_and_the_same_again(make):
    benchmark = make()
    mean, std = benchmark.moments()
    images = torch.cat([batch for batch, _ in benchmark.train_batches(9, seed=1, batch_size=8)])
    assert images.mean(dim=(0, 2, 3)).tolist() == pytest.approx(mean, abs=0.04)
    assert images.std(dim=(0, 2, 3)).tolist() == pytest.approx(std, abs=0.04)
    assert make().moments() == (mean, std)


def test_moments_are_exact():
    images = torch.from_numpy(np.random.default_rng(0).integers(256, size=(7, 3, 5, 4), dtype=np.uint8))
    mean, std = byte_moments([images[:3], images[3:]])
    assert mean == pytest.approx((images.double() / 255).mean(dim=(0, 2, 3)).tolist(), abs=1e-12)
    assert std == pytest.approx((images.double() / 255).std(dim=(0, 2, 3), correction=0).tolist(), abs=1e-12)


@pytest.mark.parametrize("past", [0, -1])
def test_an_index_beyond_the_split_is_refused(make, past):
    benchmark = make()
    with pytest.raises(ValueError, match="test indices"):
        benchmark.examples("test", [past if past < 0 else benchmark.size("test")])


def test_what_is_held_out_never_changes():
    """A training that goes on, or that begins with weights of another, must leave out the same images."""
    stay, out = held_out(50, 0.1)
    assert out == [1, 5, 21, 26, 48]
    assert sorted([*stay, *out]) == list(range(50))
    parts = [part_of(str(number), validation=0.1, test=0.1) for number in range(30)]
    assert [number for number, part in enumerate(parts) if part == "test"] == [1, 5, 21, 24, 26]
    assert [number for number, part in enumerate(parts) if part == "validation"] == [7]
    assert part_of("caf\udce9.png", validation=0.1, test=0.1) == "validation"  # bytes that are no text


CLASSES = 8
NAMES = [f"{label}/{number:02d}.png" for label in range(CLASSES) for number in range(32)]
LABELS = [int(name[0]) for name in NAMES]


def test_the_first_names_are_of_all_classes_and_not_the_first_by_name():
    order = classes_in_turn(NAMES, LABELS)
    assert sorted(order) == list(range(len(NAMES)))
    for rounds in (1, 2, 5, 32):
        assert set(Counter(LABELS[index] for index in order[: CLASSES * rounds]).values()) == {rounds}
    first = [NAMES[index] for index in order if LABELS[index] == 0]
    assert sorted(first[:8]) != sorted(first)[:8]
    shuffled = sorted(range(len(NAMES)), key=lambda index: NAMES[index][::-1])
    again = classes_in_turn([NAMES[index] for index in shuffled], [LABELS[index] for index in shuffled])
    assert [NAMES[shuffled[index]] for index in again] == [NAMES[index] for index in order]


@pytest.mark.parametrize("every", [2, 3, 4, 7, 8, 9, 16])
def test_no_step_meets_the_same_classes_in_every_round(every):
    """With the classes of every round in one order, a step of 8 would meet one of 8 classes, and one of 4 two."""
    met = Counter(LABELS[index] for index in classes_in_turn(NAMES, LABELS)[::every])
    assert len(met) >= 6
    assert max(met.values()) <= 2.5 * met.total() / CLASSES
