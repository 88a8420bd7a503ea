import errno
import os
import time

import pytest

from ars.atomic import STALE_SECONDS, WriteError, remove_stale, write_whole


def fail(code):
    def failing(*arguments, **options):
        raise OSError(code, os.strerror(code))

    return failing


def test_a_file_is_written_with_its_folders_and_replaced(tmp_path):
    path = tmp_path / "deep" / "er" / "a.txt"
    write_whole(path, "one\n")
    write_whole(path, "two: \u03c3\n")
    assert path.read_text(encoding="utf-8") == "two: \u03c3\n"
    assert [item.name for item in path.parent.iterdir()] == ["a.txt"]


@pytest.mark.parametrize("call", ["replace", "fsync"])
@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EROFS, errno.EDQUOT])
def test_a_failure_is_one_sentence_and_leaves_the_old_file(tmp_path, monkeypatch, call, code):
    path = tmp_path / "a.txt"
    write_whole(path, "old")
    monkeypatch.setattr(os, call, fail(code))
    with pytest.raises(WriteError, match=os.strerror(code)) as caught:
        write_whole(path, "new")
    assert "\n" not in str(caught.value)
    assert str(path) in str(caught.value)
    assert path.read_text() == "old"
    assert [item.name for item in tmp_path.iterdir()] == ["a.txt"]


def test_a_disk_that_fills_up_in_the_middle_of_a_file_leaves_the_old_one(tmp_path):
    """A real limit, in a process of its own: the write itself comes back short."""
    import subprocess
    import sys

    path = tmp_path / "a.txt"
    write_whole(path, "old")
    code = (
        "import resource, signal, sys\nfrom pathlib import Path\nfrom ars.atomic import write_whole\n"
        "signal.signal(signal.SIGXFSZ, signal.SIG_IGN)\nresource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))\n"
        f"write_whole(Path({str(path)!r}), 'x' * 100_000)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert "WriteError: cannot write" in done.stderr
    assert path.read_text() == "old"
    assert [item.name for item in tmp_path.iterdir()] == ["a.txt"]


def test_a_folder_that_cannot_be_made_is_one_sentence(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(WriteError, match="cannot write"):
        write_whole(tmp_path / "file" / "a.txt", "x")


def test_temporary_files_are_removed_once_nobody_can_be_writing_them(tmp_path):
    old, young, other = tmp_path / ".a.txt.1234.part", tmp_path / ".b.txt.5678.part", tmp_path / "mine.part"
    for path in (old, young, other):
        path.write_text("")
    past = time.time() - STALE_SECONDS - 1
    os.utime(old, (past, past))
    os.utime(other, (past, past))
    coming = tmp_path / ".c.txt.9abc.part"  # as a clock that was set back shows it
    coming.write_text("")
    os.utime(coming, (time.time() + STALE_SECONDS + 60,) * 2)
    remove_stale(tmp_path)
    assert {path.name for path in tmp_path.iterdir()} == {young.name, other.name}
    remove_stale(tmp_path / "nowhere")


def test_a_folder_in_the_place_of_a_file_is_said_to_be_in_the_way(tmp_path):
    (tmp_path / "x.json").mkdir()
    with pytest.raises(WriteError, match=r"x\.json: a folder is in the way; move it, or name another place$"):
        write_whole(tmp_path / "x.json", "{}")
    assert [path.name for path in tmp_path.iterdir()] == ["x.json"]
