from pathlib import Path

import pytest

from ars.runs.paths import records_folder


@pytest.mark.parametrize("name", ["", ".", "..", "a/b", "/tmp/x"])
def test_a_name_that_is_not_a_plain_folder_name_is_refused(name):
    with pytest.raises(ValueError, match="plain folder name"):
        records_folder(Path("run"), name)
