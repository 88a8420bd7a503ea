import zipfile

import numpy as np
import pytest
import torch
from PIL import Image

from ars.data.imagenet import imagenet
from ars.data.settings import DataError

WNIDS = ("n01440764", "n01443537", "n01484850")


@pytest.fixture
def root(tmp_path, write_classes):
    write_classes(tmp_path / "imagenet" / "train", WNIDS, count=60)
    write_classes(tmp_path / "imagenet" / "val", WNIDS, count=4)
    return tmp_path / "imagenet"


def flatten(root, file, line):
    """A flat val/ with a label file."""
    lines = []
    for path in sorted((root / "val").rglob("*.JPEG")):
        lines.append(line(path.stem, path.parent.name))
        path.rename(root / "val" / path.name)
        if not list(path.parent.iterdir()):
            path.parent.rmdir()
    (root / file).write_text("\n".join(lines) + "\n")


def test_class_folders_are_read_in_the_order_of_their_names(root):
    benchmark = imagenet(root=str(root), size=32, workers=0)
    assert benchmark.size("test") == 12
    assert benchmark.train_size() + benchmark.size("validation") == 180
    assert 0 < benchmark.size("validation") < 12
    _, labels = benchmark.examples("test", range(12))
    assert labels.tolist() == [0] * 4 + [1] * 4 + [2] * 4
    assert list(benchmark.class_names) == list(WNIDS)
    assert benchmark.title == "ImageNet"
    assert imagenet(root=str(root), workers=0).shape == (3, 224, 224)


def test_a_test_input_is_the_centre_of_224_after_the_short_side_is_brought_to_256(root):
    benchmark = imagenet(root=str(root), workers=0)
    images, _ = benchmark.examples("test", [0])
    with Image.open(root / benchmark._pictures.names["test"][0].decode()) as picture:
        assert picture.width > picture.height
        width = int(256 * picture.width / picture.height)
        left = round((width - 224) / 2)
        whole = picture.resize((width, 256), Image.Resampling.BILINEAR).crop((left, 16, left + 224, 240))
    difference = np.abs((images[0].permute(1, 2, 0) * 255).round().numpy() - np.asarray(whole).astype(int))
    assert difference.max() <= 1


@pytest.mark.parametrize(
    ("file", "line"),
    [
        ("LOC_val_solution.csv", lambda stem, wnid: f"{stem},{wnid} 1 2 3 4 {wnid} 5 6 7 8"),
        ("val.txt", lambda stem, wnid: f"{stem}.JPEG {WNIDS.index(wnid)}"),
        ("val/val_labels.txt", lambda stem, wnid: f"{stem}.JPEG {wnid}"),
    ],
)
def test_a_flat_validation_folder_has_a_label_file(root, file, line):
    images, labels = imagenet(root=str(root), size=32, workers=0).examples("test", range(12))
    flatten(root, file, line)
    flat, flat_labels = imagenet(root=str(root), size=32, workers=0).examples("test", range(12))
    assert torch.equal(flat, images)
    assert torch.equal(flat_labels, labels)


def test_a_flat_validation_folder_without_labels_is_refused(root):
    flatten(root, "other.txt", lambda stem, wnid: stem)
    with pytest.raises(DataError, match=r"LOC_val_solution\.csv"):
        imagenet(root=str(root))
    (root / "val.txt").write_text("nothing.JPEG 0\n")
    with pytest.raises(DataError, match="class of every file"):
        imagenet(root=str(root))


def test_classes_have_words_where_a_file_gives_them(root):
    (root / "LOC_synset_mapping.txt").write_text(f"{WNIDS[0]} tench, Tinca tinca\n{WNIDS[2]} great white shark, ...\n")
    assert list(imagenet(root=str(root)).class_names) == ["tench", WNIDS[1], "great white shark"]


def test_missing_parts_and_classes_are_named(root, write_image):
    write_image(root / "val" / "n09999999" / "x.JPEG")
    with pytest.raises(DataError, match="n09999999"):
        imagenet(root=str(root))
    with pytest.raises(DataError, match="train/"):
        imagenet(root=str(root / "val"))
    with pytest.raises(DataError, match="ARS_DATA is not set"):
        imagenet()


def test_a_sample_with_an_index_has_disjoint_parts(tmp_path, write_image):
    with zipfile.ZipFile(tmp_path / "sample.zip", "w") as archive:
        lines = ["file,label,wnid,name,orig_w,orig_h"]
        for label in range(20):
            path = write_image(tmp_path / "x.jpg", (48, 48), seed=label)
            archive.write(path, f"{label:04}_n{label:08}.jpg")
            lines.append(f"{label:04}_n{label:08}.jpg,{label},n{label:08},great_auk_{label},48,48")
        archive.writestr("index.csv", "\n".join(lines))
    benchmark = imagenet(root=str(tmp_path / "sample.zip"), size=32, workers=0)
    assert benchmark.title == "ImageNet sample (20 images, one a class: no accuracy claim)"
    assert (benchmark.train_size(), benchmark.size("validation"), benchmark.size("test")) == (16, 2, 2)
    assert benchmark.examples("test", [0, 1])[1].tolist() == [0, 10]
    assert benchmark.class_names[10] == "great auk 10"
