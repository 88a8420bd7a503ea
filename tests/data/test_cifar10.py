import os
import pickle

import numpy as np
import pytest
import torch

from ars.data.cifar10 import CLASSES, FOLDER, PICKLED, PUBLISHED, ROW, TEST, Layout, load_cifar10
from ars.data.cifar10_pickled import rows_of_pickle
from ars.data.errors import DataError


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


def test_a_batch_of_the_wrong_length_is_refused(tmp_path, write_cifar):
    layout = write_cifar(tmp_path)
    path = tmp_path / FOLDER / "data_batch_1.bin"
    path.write_bytes(path.read_bytes()[:-1])
    with pytest.raises(
        DataError, match=r"data_batch_1.bin has 15,364 bytes, expected are 5 rows of 3,073 .* 15,365; rem"
    ):
        load_cifar10(tmp_path, layout)


def test_a_batch_with_a_changed_byte_is_refused(tmp_path, write_cifar):
    layout = write_cifar(tmp_path)
    path = tmp_path / FOLDER / f"{TEST}.bin"
    path.write_bytes(b"\0" + path.read_bytes()[1:])
    changed = Layout({**layout.sha1, TEST: "0" * 40}, layout.rows)
    with pytest.raises(DataError, match=r"test_batch\.bin has the SHA-1 [0-9a-f]{40}, that of test_batch is 0{40}"):
        load_cifar10(tmp_path, changed)


def test_a_missing_batch_or_root_is_named(tmp_path, write_cifar):
    with pytest.raises(DataError, match=r"expected as .*bin/\*\.bin, found no test_batch\.bin; run 'ars data get"):
        load_cifar10(tmp_path)
    layout = write_cifar(tmp_path)
    (tmp_path / FOLDER / "data_batch_2.bin").unlink()
    with pytest.raises(DataError, match=r"data_batch_2\.bin is missing"):
        load_cifar10(tmp_path, layout)


def test_the_published_checksums_are_asked_for_by_default(tmp_path, write_cifar):
    write_cifar(tmp_path)
    with pytest.raises(DataError, match="10,000 rows"):
        load_cifar10(tmp_path)
    assert len(PUBLISHED.sha1) == 6


def pickled(path, rows, protocol):
    table = np.frombuffer(rows, np.uint8).reshape(-1, ROW)
    batch = {
        "batch_label": "a batch",
        "labels": table[:, 0].tolist(),
        "data": table[:, 1:].copy(),
        "filenames": ["labels"],
    }
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(pickle.dumps(batch, protocol=protocol))
    return path


def pickled_by_python_2(path, rows):
    """As Python 2 wrote the published files: byte strings, the array before the labels."""
    table = np.frombuffer(rows, np.uint8).reshape(-1, ROW)
    pixels = table[:, 1:].tobytes()
    labels = b"".join(b"K" + bytes([label]) for label in table[:, 0])
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(
        b"\x80\x02}q\x01(U\x04dataq\x02cnumpy.core.multiarray\n_reconstruct\nq\x03cnumpy\nndarray\nq\x04K\0\x85U\x01b\x87Rq\x05"
        + b"(K\x01K\x05M\0\x0c\x86cnumpy\ndtype\nU\x02u1K\0K\x01\x87R\x89T"
        + len(pixels).to_bytes(4, "little") + pixels + b"tbU\x06labelsq\x06]q\x07(" + labels
        + b"eU\x0bbatch_labelq\x08U\x05batchq\x09u."
    )  # fmt: skip
    return path


@pytest.mark.parametrize("protocol", [2, 3, 4, 5])
def test_a_pickled_batch_has_the_rows_of_the_binary_one(tmp_path, write_cifar, protocol):
    layout = write_cifar(tmp_path)
    rows = (tmp_path / FOLDER / f"{TEST}.bin").read_bytes()
    assert rows_of_pickle(pickled(tmp_path / PICKLED / TEST, rows, protocol), TEST, layout) == rows


def test_a_batch_that_python_2_pickled_has_the_rows_of_the_binary_one(tmp_path, write_cifar):
    layout = write_cifar(tmp_path)
    rows = (tmp_path / FOLDER / f"{TEST}.bin").read_bytes()
    assert rows_of_pickle(pickled_by_python_2(tmp_path / PICKLED / TEST, rows), TEST, layout) == rows


class Trap:
    def __reduce__(self):
        return os.mkdir, ("sprung",)


def test_a_pickle_that_would_run_code_runs_none(tmp_path, write_cifar, monkeypatch):
    monkeypatch.chdir(tmp_path)
    layout = write_cifar(tmp_path)
    path = tmp_path / "trap"
    path.write_bytes(pickle.dumps({"data": Trap(), "labels": Trap()}))
    with pytest.raises(DataError, match=r"should list 5 labels .* found 0 labels and no such pixels"):
        rows_of_pickle(path, TEST, layout)
    assert not (tmp_path / "sprung").exists()


@pytest.mark.parametrize("content", [b"", b"text", b"\x80\x02}"])
def test_what_is_no_pickle_is_refused(tmp_path, write_cifar, content):
    layout = write_cifar(tmp_path)
    (tmp_path / "odd").write_bytes(content)
    with pytest.raises(DataError, match="odd cannot be read as a pickled CIFAR-10 batch"):
        rows_of_pickle(tmp_path / "odd", TEST, layout)


def test_the_pickled_layout_points_to_its_converter(tmp_path):
    (tmp_path / PICKLED).mkdir()
    (tmp_path / PICKLED / TEST).write_bytes(b"")
    with pytest.raises(DataError, match=r"pickled layout of CIFAR-10; .* 'ars data get cifar10 --from .*-py --root"):
        load_cifar10(tmp_path)
