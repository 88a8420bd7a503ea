import os

import pytest

from ars.runs.lock import TakenError, locked


def test_one_process_at_a_time_works_in_a_folder_at_one_kind_of_work(tmp_path):
    with locked(tmp_path / "new", "train"):
        with pytest.raises(TakenError, match="another ars train"), locked(tmp_path / "new", "train"):
            pass
        with locked(tmp_path / "new", "vote"):
            pass
    with locked(tmp_path / "new", "train"):
        pass


@pytest.mark.parametrize(("name", "words"), [("file", "is a file"), ("caf\udce9", "UTF-8")])
def test_a_place_that_cannot_be_a_folder_of_runs_is_refused(tmp_path, name, words):
    (tmp_path / "file").touch()
    with pytest.raises(TakenError, match=words), locked(tmp_path / name, "train"):
        pass
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


def test_what_a_killed_process_left_is_removed_with_the_lock(tmp_path):
    old, new = tmp_path / "start" / ".model.safetensors.0a1b2c3d.part", tmp_path / ".vote.json.0a1b2c3d.part"
    old.parent.mkdir()
    for path in (old, new):
        path.write_text("half")
    os.utime(old, (0, 0))
    with locked(tmp_path, "vote"):
        assert not old.exists()
        assert new.exists()  # another process may be writing it
