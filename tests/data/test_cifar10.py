import numpy as np
import pytest
import torch

from ars.data.cifar10 import CLASSES, FOLDER, PICKLED, PUBLISHED, ROW, TEST, load_cifar10
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


def test_the_published_checksums_are_asked_for_by_default(tmp_path, write_cifar):
    write_cifar(tmp_path)
    with pytest.raises(DataError, match="10,000 rows"):
        load_cifar10(tmp_path)
    assert len(PUBLISHED.sha1) == 6


def test_the_pickled_layout_points_to_its_converter(tmp_path):
    (tmp_path / PICKLED).mkdir()
    (tmp_path / PICKLED / TEST).write_bytes(b"")
    with pytest.raises(DataError, match="ars data get cifar10 --from"):
        load_cifar10(tmp_path)
