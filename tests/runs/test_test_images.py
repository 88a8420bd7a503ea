import pytest

from ars.runs.records import RecordError
from ars.runs.test_images import check_files, keep_files, read_files

NAMES = ("cat/1.png", "dog/1.png")


def test_the_names_of_files_are_kept_once_and_others_are_refused(tmp_path):
    assert read_files(tmp_path) == ()
    check_files(tmp_path, NAMES)  # none were kept
    keep_files(tmp_path, NAMES)
    keep_files(tmp_path, ("other.png",))
    assert read_files(tmp_path) == NAMES
    check_files(tmp_path, NAMES)
    with pytest.raises(RecordError, match=r"cat/1\.png .*cat/2\.png"):
        check_files(tmp_path, ("cat/2.png", "dog/1.png"))
    with pytest.raises(RecordError, match="another order"):
        check_files(tmp_path, NAMES[::-1])


@pytest.mark.parametrize("content", ["", "{}", "[1]"])
def test_damaged_names_are_refused(tmp_path, content):
    (tmp_path / "files.json").write_text(content)
    with pytest.raises(RecordError, match=r"files\.json cannot be read"):
        read_files(tmp_path)
