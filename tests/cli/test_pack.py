"""ars pack, and sweeps where only packed results are kept."""

import shutil

import pytest

from ars.cli.main import main

from ..conftest import contents, records_of
from .swept import CELLS


@pytest.fixture
def pack(undisturbed, tmp_path):
    """The command that packs a sweep, of the undisturbed runs if no others are named."""

    def line(sweep, runs=undisturbed, out=tmp_path / "results"):
        return ["pack", str(sweep), "--runs", str(runs), "--out", str(out)]

    return line


@pytest.fixture
def packed(written, pack, tmp_path):
    assert main(pack(written)) == 0
    return tmp_path / "results" / "tiny"


@pytest.fixture
def other(written, tmp_path):
    """Writes another sweep file of the same name."""

    def write(keys):
        shutil.copy(written.with_name("base.yaml"), tmp_path)
        path = tmp_path / written.name
        path.write_text(f"recipe: base.yaml\ngroups: [{{methods: [cohen], sigma: [0.5], vote: 10{keys}}}]")
        return path

    return write


@pytest.mark.slow
def test_what_is_packed_can_be_certified_again(undisturbed, packed, tmp_path):
    assert [name for name in CELLS if (packed / name / "model.safetensors").exists()] == CELLS[:1]
    assert main(["certify", str(packed / CELLS[0]), "--name", "again", "--device", "cpu"]) == 0
    assert records_of(packed / CELLS[0], "again") == records_of(undisturbed / CELLS[0])
    text = b"".join(path.read_bytes() for path in packed.rglob("*.*") if path.suffix in (".json", ".yaml", ".jsonl"))
    assert str(tmp_path).encode() not in text
    assert str(undisturbed).encode() not in text


def test_how_many_cells_were_packed_is_told_and_none_is_an_error(written, pack, tmp_path, printed, refused):
    assert "2 of 2 cells" in printed(pack(written)).out
    (tmp_path / "file").touch()
    for options, words in (({"runs": tmp_path / "none", "out": tmp_path / "x"}, "no cell of tiny"),
                           ({"out": tmp_path / "file"}, "is a file")):  # fmt: skip
        assert words in refused(pack(written, **options))
    assert not (tmp_path / "x").exists()


def test_another_sweep_of_the_same_name_does_not_replace_what_is_packed(packed, other, pack, tmp_path, refused):
    before, path = contents(packed), other(", override: {train.max_steps: 1}")
    assert main(["sweep", str(path), "--out", str(tmp_path / "runs"), "--device", "cpu"]) == 0
    said = refused(pack(path, runs=tmp_path / "runs"))
    assert said.startswith(f"ars: {packed / CELLS[0]} holds a run of another recipe")
    assert contents(packed) == before


def test_cells_that_the_sweep_file_does_not_name_stay_and_are_told(packed, other, pack, printed):
    path = other("")
    last = printed(pack(path)).out.splitlines()[-1]
    assert str(path) in last
    assert last.endswith(CELLS[1])
    assert (packed / CELLS[1] / "recipe.yaml").exists()


def test_a_sweep_makes_what_is_not_packed_yet(written, packed, tmp_path, printed):
    elsewhere = ["sweep", str(written), "--out", str(tmp_path / "runs"), "--packed", str(packed.parent)]
    assert printed(elsewhere).out.splitlines()[1:] == [f"  {name}: done, packed" for name in CELLS]
    assert not (tmp_path / "runs").exists()
    (packed / CELLS[0] / "recipe.yaml").unlink()
    lines = printed([*elsewhere, "--device", "cpu"]).out.splitlines()
    assert lines[-2:] == [f"  {CELLS[0]}: done", f"  {CELLS[1]}: done, packed"]
    assert [path.name for path in (tmp_path / "runs").glob("[!.]*")] == CELLS[:1]
