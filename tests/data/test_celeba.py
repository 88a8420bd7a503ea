import hashlib
import zipfile

import numpy as np
import pytest
import torch
from PIL import Image, ImageDraw

from ars.data.celeba import MARGIN, SIDE, celeba
from ars.data.settings import DataError

COUNT = 40
ATTRIBUTES = ("Bald", "Mouth_Slightly_Open", "Smiling")
POINTS = ("lefteye", "righteye", "nose", "leftmouth", "rightmouth")
COLUMNS = [f"{point}_{axis}" for point in POINTS for axis in "xy"]
COLORS = {"lefteye": (255, 0, 0), "righteye": (255, 0, 0), "leftmouth": (0, 255, 0), "rightmouth": (0, 255, 0)}
ALIGNED = {
    "lefteye": (69, 111),
    "righteye": (108, 112),
    "nose": (88, 135),
    "leftmouth": (73, 152),
    "rightmouth": (105, 153),
}
GOLDEN = "b2c32e79924819c38c4852948323d626c9fbe1cb1d7a7bc0df06fed504cdd14a"


def wild_face(number):
    """A size and landmarks of a picture in the wild: the face anywhere in it."""
    random = np.random.default_rng(number)
    width, height = (int(side) for side in random.integers(300, 500, size=2))
    x, y = int(random.integers(40, width - 140)), int(random.integers(40, height - 140))
    return (width, height), {name: (x + px - 50, y + py - 90) for name, (px, py) in ALIGNED.items()}


def aligned_face(number):
    shift = np.random.default_rng(number).integers(-2, 3, size=2)
    return (178, 218), {name: (px + int(shift[0]), py + int(shift[1])) for name, (px, py) in ALIGNED.items()}


def plain_face(number):
    """A face in the wild without a random number in it."""
    size = (400 + 3 * number, 420 - 2 * number)
    return size, {name: (px + 7 * number % 90, py + 11 * number % 80) for name, (px, py) in ALIGNED.items()}


def name_of(number):
    return f"{number + 1:06}.jpg"


def draw(path, size, points, **options):
    """Grey, with a red square at each eye and a green one at each corner of the mouth."""
    path.parent.mkdir(parents=True, exist_ok=True)
    picture = Image.new("RGB", size, (128, 128, 128))
    for name, (x, y) in points.items():
        if name in COLORS:
            ImageDraw.Draw(picture).rectangle((x - 3, y - 3, x + 3, y + 3), fill=COLORS[name])
    picture.save(path, **{"quality": 95, **options})


@pytest.fixture
def write(tmp_path):
    """CelebA in its public layout."""

    def write(pictures, landmarks=None, *, folder="img_celeba", file="list_landmarks_celeba.txt", below=""):
        root = tmp_path / "celeba"
        (root / below).mkdir(parents=True, exist_ok=True)
        for number in range(COUNT):
            draw(root / folder / name_of(number), *pictures(number))
        points = [(landmarks or pictures)(number)[1].values() for number in range(COUNT)]
        rows = [f"{name_of(n)} " + " ".join(f"{x} {y}" for x, y in points[n]) for n in range(COUNT)]
        (root / below / file).write_text("\n".join([str(COUNT), " ".join(COLUMNS), *rows]) + "\n")
        rows = [f"{name_of(n)}  {-1} {1 if n % 3 == 0 else -1:2} {1:2}" for n in range(COUNT)]
        (root / below / "list_attr_celeba.txt").write_text("\n".join([str(COUNT), " ".join(ATTRIBUTES), *rows]) + "\n")
        rows = [f"{name_of(n)} {0 if n < 24 else 1 if n < 30 else 2}" for n in range(COUNT)]
        (root / below / "list_eval_partition.txt").write_text("\n".join(rows) + "\n")
        return root

    return write


@pytest.mark.parametrize(
    ("face", "folder", "file", "kind"),
    [
        (wild_face, "img_celeba", "list_landmarks_celeba.txt", "in-the-wild"),
        (aligned_face, "Img/img_align_celeba", "list_landmarks_align_celeba.txt", "aligned"),
    ],
)
def test_the_mouth_is_in_every_crop(write, face, folder, file, kind):
    root = write(face, folder=folder, file=file, below="Anno")
    benchmark = celeba(root=str(root), workers=0)
    assert benchmark.shape == (3, SIDE, SIDE)
    assert (benchmark.train_size(), benchmark.size("validation"), benchmark.size("test")) == (24, 6, 10)
    assert benchmark.title == f"CelebA (40 {kind} images), mouth slightly open"
    batches = [images for epoch in range(3) for images, _ in benchmark.train_batches(epoch, seed=0, batch_size=24)]
    for image in torch.cat([*batches, benchmark.examples("test", range(10))[0]]):
        assert both_lie_inside((image[1] > 0.8) & (image[0] < 0.3))


def both_lie_inside(marked):
    """Whether two marks are seen, apart from each other, with their centres at least MARGIN inside."""
    rows, columns = marked.nonzero().unbind(1)
    half = 7  # of a mark, and the rounding of the crop
    inside = all(axis.min() >= MARGIN - half and axis.max() <= SIDE - MARGIN + half for axis in (rows, columns))
    return inside and columns.max() - columns.min() > 10


def test_crops_are_random_in_training_and_fixed_in_testing(write):
    root = write(wild_face)
    benchmark = celeba(root=str(root), workers=0)
    first, second = (
        {image.numpy().tobytes() for image in next(benchmark.train_batches(epoch, seed=0, batch_size=24))[0]}
        for epoch in (0, 1)
    )
    assert len(first) == len(second) == 24
    assert not first & second  # of all pictures, whatever their order
    fixed, labels = benchmark.examples("test", range(10))
    assert torch.equal(celeba(root=str(root), workers=0).examples("test", [7, 2])[0], fixed[[7, 2]])
    assert not torch.equal(celeba(root=str(root), workers=0, seed=1).examples("test", range(10))[0], fixed)
    assert labels.tolist() == [int(number % 3 == 0) for number in range(30, 40)]
    assert list(benchmark.class_names) == ["not mouth slightly open", "mouth slightly open"]


def test_the_fixed_crop_of_an_index_never_changes(write):
    """Committed records name their inputs by index alone. Without loss, so that no JPEG decoder matters."""
    root = write(plain_face)
    for number in range(COUNT):
        draw(root / "img_celeba" / name_of(number), *plain_face(number), format="PNG")
    benchmark = celeba(root=str(root), workers=0)
    pixels = (benchmark.examples("test", range(10))[0] * 255).round().to(torch.uint8)
    assert hashlib.sha256(pixels.numpy().tobytes()).hexdigest() == GOLDEN


def test_other_attributes_and_features_go_by_name(write):
    root = write(wild_face)
    benchmark = celeba(root=str(root), attribute="bald", feature="eyes", workers=0)
    images, labels = benchmark.examples("test", range(10))
    assert labels.sum() == 0
    for image in images:
        assert both_lie_inside((image[0] > 0.8) & (image[1] < 0.3))
    with pytest.raises(DataError, match="Handsome"):
        celeba(root=str(root), attribute="Handsome")
    with pytest.raises(DataError, match="ears"):
        celeba(root=str(root), feature="ears")


@pytest.mark.parametrize(
    ("pictures", "landmarks", "folder", "file", "told"),
    [
        (wild_face, aligned_face, "img_celeba", "list_landmarks_align_celeba.txt",
         r"found img_celeba/ and list_landmarks_align_celeba\.txt"),
        (wild_face, aligned_face, "img_celeba", "list_landmarks_celeba.txt",
         r"miss the face; put list_landmarks_celeba\.txt there"),
        (aligned_face, wild_face, "img_align_celeba", "list_landmarks_align_celeba.txt",
         r"miss the face; put list_landmarks_align_celeba\.txt there"),
    ],
    ids=["other file", "aligned under the other name", "wild under the other name"],
)  # fmt: skip
def test_landmarks_of_the_other_pictures_are_refused(write, pictures, landmarks, folder, file, told):
    root = write(pictures, landmarks, folder=folder, file=file)
    with pytest.raises(DataError, match=told):
        celeba(root=str(root))


def test_a_landmark_outside_its_picture_is_named(write):
    def astray(number):
        size, points = wild_face(number)
        return size, {**points, "leftmouth": (size[0] + 5, 50)} if number == 33 else points

    benchmark = celeba(root=str(write(wild_face, astray)), workers=2)
    message = r"landmarks of \S*000034\.jpg"
    with pytest.raises(DataError, match=message):
        benchmark.examples("test", [3])
    with pytest.raises(DataError, match=message):
        benchmark.check()


def test_without_a_partition_identities_are_kept_apart(write):
    root = write(wild_face)
    (root / "list_eval_partition.txt").unlink()
    (root / "identity_CelebA.txt").write_text("".join(f"{name_of(n)} {n // 2}\n" for n in range(COUNT)))
    pictures = celeba(root=str(root), workers=0)._pictures
    identities = [{int(name[-10:-4]) - 1 >> 1 for name in names.tolist()} for names in pictures.names.values()]
    assert all(identities)
    assert sum(map(len, identities)) == len(set.union(*identities)) == COUNT // 2


def test_csv_files_are_read_too(write):
    root = write(wild_face)
    expected = celeba(root=str(root), workers=0).examples("test", range(10))
    for stem in ("list_attr_celeba", "list_landmarks_celeba", "list_eval_partition"):
        lines = [line.split() for line in (root / f"{stem}.txt").read_text().splitlines()]
        lines = [line for line in lines if line != [str(COUNT)]]
        if stem == "list_eval_partition":
            lines.insert(0, ["partition"])
        lines[0] = ["image_id", *lines[0]]
        (root / f"{stem}.csv").write_text("\n".join(",".join(line) for line in lines) + "\n")
        (root / f"{stem}.txt").unlink()
    got = celeba(root=str(root), workers=0).examples("test", range(10))
    assert torch.equal(got[0], expected[0])
    assert torch.equal(got[1], expected[1])


@pytest.mark.parametrize(
    "missing", ["list_attr_celeba.txt", "list_landmarks_celeba.txt", "img_celeba", "list_eval_partition.txt"]
)
def test_missing_files_are_named(write, missing):
    root = write(wild_face)
    (root / missing).rename(root / "elsewhere")
    wanted = "identity_CelebA.txt" if missing == "list_eval_partition.txt" else missing
    with pytest.raises(DataError, match=wanted):
        celeba(root=str(root))


@pytest.mark.parametrize(("after", "told"), [(" 1 ", "same length"), (" x", "numbers")])
def test_a_damaged_table_is_named(write, after, told):
    root = write(wild_face)
    path = root / "list_landmarks_celeba.txt"
    path.write_text(path.read_text().replace(name_of(5) + " ", name_of(5) + after, 1))
    with pytest.raises(DataError, match=rf"list_landmarks_celeba\.txt should hold .*{told}"):
        celeba(root=str(root))


def test_one_index_with_all_columns_will_do(tmp_path):
    lines = [",".join(["file", "split", "identity", *ATTRIBUTES, *COLUMNS, "score"])]
    with zipfile.ZipFile(tmp_path / "celeba.zip", "w") as archive:
        for number in range(COUNT):
            size, points = aligned_face(number)
            draw(tmp_path / "x.jpg", size, points)
            split = "test" if number % 4 == 0 else "train"
            archive.write(tmp_path / "x.jpg", f"{split}/{name_of(number)}")
            flat = [str(value) for point in points.values() for value in point]
            lines.append(",".join([f"{split}/{name_of(number)}", split, str(number), "1", "-1", "1", *flat, "2.3"]))
        archive.writestr("index.csv", "\n".join(lines))
    benchmark = celeba(root=str(tmp_path / "celeba.zip"), attribute="Smiling", workers=0)
    assert benchmark.size("test") == 10
    assert benchmark.size("validation") > 0
    assert benchmark.examples("test", range(10))[1].sum() == 10
