import multiprocessing
import os
import shutil
import zipfile
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

import pytest

from ars.data.files import Files
from ars.data.settings import DataError


@pytest.fixture
def folder(tmp_path):
    root = tmp_path / "photos"
    for name in ("train/b.jpg", "train/a.PNG", "test/c.jpeg", "test/notes.txt", ".hidden/d.jpg", "test/._c.jpeg"):
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_bytes(name.encode())
    (root / "empty").mkdir()
    return root


@pytest.fixture(params=["folder", "zip", "zip of a folder"])
def files(request, folder, tmp_path):
    if request.param == "folder":
        return Files(folder)
    root, base = (folder, None) if request.param == "zip" else (folder.parent, folder.name)
    return Files(tmp_path / shutil.make_archive(str(tmp_path / "archive"), "zip", root, base))


def test_a_folder_and_a_zip_of_it_read_the_same(files, folder):
    assert files.names() == ["test/c.jpeg", "test/notes.txt", "train/a.PNG", "train/b.jpg"]
    assert files.images("train") == ["train/a.PNG", "train/b.jpg"]
    assert files.images() == ["test/c.jpeg", "train/a.PNG", "train/b.jpg"]
    assert files.folders() == ["empty", "test", "train"]
    assert files.folders("train") == files.folders("nothing") == []
    assert files.read("train/b.jpg") == b"train/b.jpg"
    assert files.has("test/notes.txt")
    assert not files.has("notes.txt")
    assert files.digest(files.images()) == Files(folder).digest(Files(folder).images())


def test_a_digest_tells_files_of_the_same_names_and_lengths_apart(folder, tmp_path):
    other = tmp_path / "others" / "photos"
    shutil.copytree(folder, other)
    assert Files(other).digest(["train/b.jpg"]) == Files(folder).digest(["train/b.jpg"])
    (other / "train" / "b.jpg").write_bytes(b"train/B.jpg")
    archives = [shutil.make_archive(str(tmp_path / name), "zip", root) for name, root in (("a", folder), ("b", other))]
    for one, two in ((folder, other), [tmp_path / archive for archive in archives]):
        assert Files(one).digest(["train/b.jpg"]) != Files(two).digest(["train/b.jpg"])
        assert Files(one).digest(["train/a.PNG"]) == Files(two).digest(["train/a.PNG"])


def test_a_folder_too_large_to_read_is_told_by_its_place_and_times(folder, tmp_path, monkeypatch):
    monkeypatch.setattr("ars.data.files.READ_WHOLE", 20)
    monkeypatch.setattr(Files, "read", lambda *_: pytest.fail("read"))
    names = ["train/a.PNG", "train/b.jpg"]
    before = Files(folder).digest(names)
    assert Files(folder).digest(names) == before
    times = (folder / names[0]).stat()
    os.utime(folder / names[0], ns=(times.st_atime_ns, times.st_mtime_ns + 1))
    assert Files(folder).digest(names) != before
    os.utime(folder / names[0], ns=(times.st_atime_ns, times.st_mtime_ns))
    folder.rename(tmp_path / "moved")
    assert Files(tmp_path / "moved").digest(names) != before


def test_a_digest_of_the_content_alone_is_the_same_wherever_the_files_lie(folder, tmp_path, monkeypatch):
    shutil.copytree(folder, tmp_path / "moved")
    there, moved = Files(folder), Files(tmp_path / "moved")
    names, changed = there.names(), tmp_path / "moved" / "train" / "b.jpg"
    assert moved.content_digest(names) == there.content_digest(names)
    changed.write_bytes(b"train/B.jpg")
    assert moved.content_digest(names) != there.content_digest(names)
    monkeypatch.setattr("ars.data.files.READ_WHOLE", 20)
    monkeypatch.setattr(Files, "read", lambda *_: pytest.fail("read"))
    assert moved.content_digest(names) == there.content_digest(names)  # by names and lengths
    changed.write_bytes(b"longer than it was")
    assert moved.content_digest(names) != there.content_digest(names)


def test_files_can_be_sent_to_another_process(files):
    expected = files.read("train/b.jpg")
    with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn")) as other:
        assert other.submit(files.read, "train/b.jpg").result() == expected


@pytest.mark.parametrize(
    "damage", [lambda whole: whole[:300], lambda whole: b"", lambda whole: whole.replace(b"PK\x01\x02", b"PK??")]
)
def test_a_damaged_archive_is_called_that(folder, tmp_path, damage):
    archive = Path(shutil.make_archive(str(tmp_path / "half"), "zip", folder))
    archive.write_bytes(damage(archive.read_bytes()))
    with pytest.raises(DataError, match=r"half\.zip is a damaged"):
        Files(archive)


@pytest.mark.parametrize(
    ("offset", "value", "told"),
    [(6, 1, "password"), (8, 97, "not supported")],
    ids=["encrypted", "compressed otherwise"],
)
def test_an_archive_that_python_cannot_unpack_is_told_so(tmp_path, offset, value, told):
    path = tmp_path / "x.zip"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("a.png", b"abc")
    content = bytearray(path.read_bytes())
    content[content.index(b"PK\x03\x04") + offset] = content[content.index(b"PK\x01\x02") + offset + 2] = value
    path.write_bytes(content)
    with pytest.raises(DataError, match=rf"a\.png in .*x\.zip .*{told}"):
        Files(path).read("a.png")


@pytest.mark.parametrize("method", [zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED])
def test_a_damaged_file_of_an_archive_is_named(tmp_path, method):
    with zipfile.ZipFile(tmp_path / "x.zip", "w", method) as archive:
        archive.writestr("a.png", bytes(range(256)) * 20)
    content = bytearray((tmp_path / "x.zip").read_bytes())
    for place in range(30 + len("a.png"), content.index(b"PK\x01\x02")):
        content[place] ^= 0xFF
    (tmp_path / "x.zip").write_bytes(content)
    with pytest.raises(DataError, match=r"a\.png in .*x\.zip is damaged"):
        Files(tmp_path / "x.zip").read("a.png")


def test_a_link_to_nothing_is_named_when_it_is_read(tmp_path):
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere" / "a.png").touch()
    (tmp_path / "photos").mkdir()
    (tmp_path / "photos" / "linked").symlink_to(tmp_path / "elsewhere")
    (tmp_path / "photos" / "nothing.png").symlink_to("none")
    files = Files(tmp_path / "photos")
    assert files.images() == ["linked/a.png", "nothing.png"]
    with pytest.raises(DataError, match=r"holds no nothing\.png"):
        files.read("nothing.png")


def test_what_is_not_there_is_named(files, tmp_path):
    with pytest.raises(DataError, match=r"holds no train/z\.jpg"):
        files.read("train/z.jpg")
    with pytest.raises(DataError, match="found nothing"):
        Files(tmp_path / "nowhere")
    (tmp_path / "text.dat").write_text("no archive")
    with pytest.raises(DataError, match="another kind"):
        Files(tmp_path / "text.dat")


def test_an_entry_that_would_fill_the_memory_is_not_unpacked(tmp_path, monkeypatch):
    path = tmp_path / "images.zip"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("a.png", bytes(2**20))
    monkeypatch.setattr("ars.data.files.LARGEST_FILE", 2**19)
    with pytest.raises(DataError, match=r"a\.png"):
        Files(path).read("a.png")


def test_an_archive_of_a_future_version_or_with_a_wild_offset_is_damaged(tmp_path):
    path = tmp_path / "photos.zip"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("cat/1.png", b"one")
    data = path.read_bytes()
    entry = data.index(b"PK\x01\x02")
    path.write_bytes(data[: entry + 6] + b"\xff" + data[entry + 7 :])  # the version that is needed to read it
    with pytest.raises(DataError, match="damaged"):
        Files(path)
    path.write_bytes(data[: entry + 42] + b"\xff\xff\xff\x7f" + data[entry + 46 :])  # where the file begins
    with pytest.raises(DataError, match="damaged"):
        Files(path).read("1.png")
