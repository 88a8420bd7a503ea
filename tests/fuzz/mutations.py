"""Files with mistakes in them: valid content with bytes, values or parts changed, as hypothesis strategies."""

import gzip
import io
import json
import struct
import zipfile
import zlib
from collections.abc import Callable, Mapping
from copy import deepcopy
from typing import Any

import yaml
from hypothesis import strategies as st

VALUES: list[Any] = [
    None, True, False, 0, 1, -1, 2, 255, 2**31, 2**32, 2**63, -(2**63), 10**30, 0.5, -0.5, 1e-320, 1e308, float("inf"),
    float("nan"), "", "a", "0.5", "nan", "../a", "/a", "a\nb", "\x1b[31m", "\x00", "‮", "\ud800", "[red]", "=1+1",
    "<script>", "9" * 5000, "a" * 70_000, [], {}, [[]], [0], [None], [0.5, "a"], [1] * 2000, {"a": 1}, {"": {}}, [{}],
    [[[[[[[[1]]]]]]]],
]  # fmt: skip
PIECES = [
    b"", b"\x00", b"\xff", b"\xff\xff\xff\xff", b"\x00\x00\x00\x80", b"\xff\xff\xff\x7f", b"\xed\xa0\x80", b"\n", b"\r",
    b'"', b"'", b"[", b"]", b"{", b"}", b",", b":", b"-", b"&a ", b"*a", b"!!int ", b"1e999", b"NaN", b"null", b"-1",
    b"9" * 5000, b"[" * 3000, b"{a: " * 500, b"\x1b[2J", b"# ", b"%", b"? ", b"| ", b"\t", "‮".encode(), b"0x", b"1:2",
]  # fmt: skip
place = st.integers(0, 2**16 - 1)
pieces = st.integers(0, len(PIECES) - 1).map(PIECES.__getitem__)
values = st.integers(0, len(VALUES) - 1).map(VALUES.__getitem__)
byte_edits = st.lists(
    st.tuples(place, st.sampled_from(["put", "insert", "drop", "cut", "repeat"]), pieces | st.binary(max_size=4)),
    min_size=1,
    max_size=4,
)
tree_edits = st.lists(
    st.tuples(place, st.sampled_from(["set", "set", "drop", "add", "wrap"]), values),
    min_size=1,
    max_size=3,
)


def edit_bytes(content: bytes, edits: list[tuple[int, str, bytes]]) -> bytes:
    """The content with bytes replaced, inserted, removed or repeated."""
    for where, how, piece in edits:
        at = where * len(content) >> 16
        before, after = content[:at], content[at:]
        length = max(1, len(piece))
        content = {
            "put": lambda b=before, a=after, n=length, p=piece: b + p + a[n:],
            "insert": lambda b=before, a=after, p=piece: b + p + a,
            "drop": lambda b=before, a=after, n=length: b + a[n:],
            "cut": lambda b=before: b,
            "repeat": lambda b=before, a=after, n=length: b + a[: 16 * n] + a,
        }[how]()
    return content


def edit_tree(tree: Any, edits: list[tuple[int, str, Any]]) -> Any:
    """The tree of a JSON text with values replaced, removed, added or nested; changes the tree."""
    for where, how, value in edits:
        top = [tree]
        slots = list(_slots(top))
        holder, key = slots[where % len(slots)]
        if how == "set":
            holder[key] = deepcopy(value)
        elif how == "wrap":
            holder[key] = [holder[key]]
        elif how == "drop" and holder is not top:
            del holder[key]
        elif how == "add" and isinstance(holder, dict):
            holder[str(value)[:50]] = holder[key]
        tree = top[0]
    return tree


def _slots(tree: Any) -> Any:
    for key in list(tree) if isinstance(tree, dict) else range(len(tree)):
        yield tree, key
        if isinstance(tree[key], dict | list):
            yield from _slots(tree[key])


def changed_bytes(content: bytes) -> st.SearchStrategy[bytes]:
    """Content with changed bytes."""
    return byte_edits.map(lambda edits: edit_bytes(content, edits))


def changed_json(text: str) -> st.SearchStrategy[bytes]:
    """A JSON text with changed values or bytes."""
    trees = tree_edits.map(lambda edits: json.dumps(edit_tree(json.loads(text), edits)).encode())
    return trees | changed_bytes(text.encode())


def changed_yaml(text: str) -> st.SearchStrategy[bytes]:
    """A YAML text with changed values or bytes."""
    tree = json.dumps(yaml.safe_load(text))
    trees = tree_edits.map(
        lambda edits: yaml.safe_dump(edit_tree(json.loads(tree), edits), allow_unicode=True).encode(errors="replace")
    )
    return trees | changed_bytes(text.encode())


def changed_lines(text: str) -> st.SearchStrategy[bytes]:
    """JSON lines, one of which has changed values, or all of which have changed bytes."""
    lines = text.splitlines()
    one = st.tuples(st.integers(0, len(lines) - 1), st.sampled_from(lines).flatmap(changed_json))
    swapped = one.map(
        lambda pair: b"\n".join([*_encoded(lines[: pair[0]]), pair[1], *_encoded(lines[pair[0] + 1 :]), b""])
    )
    return swapped | changed_bytes(text.encode())


def _encoded(lines: list[str]) -> list[bytes]:
    return [line.encode() for line in lines]


def changed_gzip(inner: bytes, changed: st.SearchStrategy[bytes]) -> st.SearchStrategy[bytes]:
    """A compressed file with changed content, or changed itself."""
    return changed.map(lambda content: gzip.compress(content, 1)) | changed_bytes(gzip.compress(inner, 1))


def changed_tensors(content: bytes) -> st.SearchStrategy[bytes]:
    """A safetensors file with changed values in its header, or changed bytes anywhere."""
    [length] = struct.unpack("<Q", content[:8])
    header, data = content[8 : 8 + length].decode(), content[8 + length :]

    def with_header(new: bytes) -> bytes:
        return struct.pack("<Q", len(new)) + new + data

    return changed_json(header).map(with_header) | changed_bytes(content)


def changed_zip(
    files: Mapping[str, bytes], names: list[str], changed: Callable[[bytes], Any]
) -> st.SearchStrategy[bytes]:
    """An archive in which a file has another name or content, or which has changed bytes."""

    def archive(edit: tuple[str, str, bytes]) -> bytes:
        old, new, content = edit
        out = io.BytesIO()
        with zipfile.ZipFile(out, "w") as made:
            for name, data in files.items():
                made.writestr(new if name == old else name, content if name == old else data)
        return out.getvalue()

    first = next(iter(files))
    whole = archive((first, first, files[first]))
    parts = st.sampled_from(sorted(files)).flatmap(
        lambda name: st.tuples(st.just(name), st.just(name) | st.sampled_from(names), changed(files[name]))
    )
    return parts.map(archive) | changed_bytes(whole)


def changed_png(content: bytes) -> st.SearchStrategy[bytes]:
    """A PNG with changed bytes in its chunks, whose checksums are right, or changed bytes anywhere."""

    def with_checksums(changed: bytes) -> bytes:
        out, at = changed[:8], 8
        while at + 8 <= len(changed):
            size = min(int.from_bytes(changed[at : at + 4], "big"), max(0, len(changed) - at - 12))
            body = changed[at + 4 : at + 8 + size]
            out += struct.pack(">I", size) + body + struct.pack(">I", zlib.crc32(body))
            at += 12 + size
        return out

    return changed_bytes(content).map(with_checksums) | changed_bytes(content)
