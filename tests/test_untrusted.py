"""Files that others wrote: limits on size, depth and aliases, and numbers that mean what they look like."""

import gzip
import zipfile

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ars.untrusted import (
    MOST_BYTES,
    MOST_IN_A_LINE,
    dump_yaml,
    parse_json,
    parse_yaml,
    read_arrays,
    read_lines,
    read_text,
)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("1e-3", 0.001), ("1.5", 1.5), (".5", 0.5), ("-3", -3), ("1_000", 1000), ("0x1F", 31),
        ("010", 8), ("1:2:3", "1:2:3"), ("08", "08"),
        ("1:30.5", "1:30.5"), ("true", True), ("null", None), ("[1, a]", [1, "a"]), (".inf", float("inf")),
    ],
)  # fmt: skip
def test_yaml_means_what_it_looks_like(text, value):
    found = parse_yaml(text)
    assert found == value
    assert type(found) is type(value)


@given(
    st.recursive(
        st.none()
        | st.booleans()
        | st.integers()
        | st.floats(allow_nan=False)
        | st.text("eo:- 1089._+x", max_size=6)
        | st.sampled_from(["no", "1e5", "0918", "0o17", ".5e1", "=", "~"]),
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text("abc", max_size=3), inner, max_size=3),
        max_leaves=8,
    )
)
def test_what_the_library_writes_is_read_back(value):
    """Texts that look like something else are quoted: 1e5, 08, 0o17, no."""
    assert parse_yaml(dump_yaml(value)) == value


def nine_fold(levels=9):
    """A few hundred bytes that stand for 9^levels values."""
    lines = ["a0: &a0 [x]"]
    lines += [f"a{level}: &a{level} [{', '.join([f'*a{level - 1}'] * 9)}]" for level in range(1, levels + 1)]
    return "\n".join(lines)


@pytest.mark.parametrize(
    ("text", "named"),
    [
        (nine_fold(), "aliases"), ("a: &a [*a]", "aliases"), ("[" * 3000, "nested"), ("a: [", "YAML"),
        ("!!python/object/apply:os.system [ls]", "YAML"), ("a: 1\n b: 2", "YAML"),
        ("!!bool x", "YAML"), ("!!int ''", "YAML"), ("!!timestamp x", "YAML"),
    ],
    ids=["nine-fold", "circle", "deep", "open", "code", "indented", "bool", "int", "time"],
)  # fmt: skip
def test_hostile_yaml_is_one_sentence(text, named):
    with pytest.raises(ValueError, match=named) as caught:
        parse_yaml(text)
    assert "\n" not in str(caught.value)


def test_hostile_json_is_one_sentence():
    with pytest.raises(ValueError, match="nested"):
        parse_json("[" * 200_000)


def test_a_file_that_is_too_large_is_not_read(tmp_path):
    path = tmp_path / "recipe.yaml"
    with path.open("wb") as file:
        file.truncate(MOST_BYTES + 1)
    with pytest.raises(ValueError, match="64 MB"):
        read_text(path)


def test_one_endless_line_is_not_read(tmp_path):
    path = tmp_path / "records.jsonl.gz"
    path.write_bytes(gzip.compress(b"{}\n" + b" " * (8 * MOST_IN_A_LINE)))
    lines = read_lines(path)
    assert next(lines) == "{}\n"
    with pytest.raises(ValueError, match="line"):
        next(lines)


def test_arrays_that_would_fill_the_memory_are_not_unpacked(tmp_path, monkeypatch):
    path = tmp_path / "stages.npz"
    zeros = np.zeros((2**10, 2**10), dtype=np.uint8, order="F")
    np.savez_compressed(path, input=zeros)
    assert np.array_equal(read_arrays(path)["input"], zeros)
    monkeypatch.setattr("ars.untrusted.MOST_UNPACKED", 2**20)
    assert path.stat().st_size < 2**15
    with pytest.raises(ValueError, match="memory"):
        read_arrays(path)


def npy(header, content=b""):
    return b"\x93NUMPY\x01\x00" + len(header).to_bytes(2, "little") + header + content


@pytest.mark.parametrize(
    ("content", "named"),
    [
        (b"no array", "magic"), (npy(b"{'descr': '|u1', 'fortran_order': False, 'shape': (\x00,)}"), "header"),
        (npy(b"{'descr': '|O', 'fortran_order': False, 'shape': (1,)}", bytes(8)), "objects"),
        (npy(b"{'descr': '|u1', 'fortran_order': False, 'shape': (1000000000000,)}", bytes(8)), "reshape"),
    ],
    ids=["no array", "no tuple", "objects", "larger than it is"],
)  # fmt: skip
def test_an_array_is_what_its_bytes_are(tmp_path, content, named):
    """NumPy's own reader would allocate what a header says, and raise errors of a dozen kinds."""
    with zipfile.ZipFile(tmp_path / "stages.npz", "w") as archive:
        archive.writestr("input.npy", content)
    with pytest.raises(ValueError, match=named):
        read_arrays(tmp_path / "stages.npz")
