"""Files with mistakes in them: valid content with bytes, values or parts changed, as a random generator says."""

import gzip
import io
import json
import struct
import zipfile
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from copy import deepcopy
from random import Random
from typing import Any

import yaml

Change = Callable[[Random], bytes]
"""Makes a file with mistakes."""

VALUES: list[Any] = [
    None, True, False, 0, 1, -1, 2, 255, 2**31, 2**32, 2**63, -(2**63), 10**30, 0.5, -0.5, 1e-320, 1e308, float("inf"),
    float("nan"), "", "a", "0.5", "nan", "../a", "/a", "a\nb", "\x1b[31m", "\x00", "\u202e", "\ud800", "[red]", "=1+1",
    "<script>", "9" * 5000, "a" * 70_000, [], {}, [[]], [0], [None], [0.5, "a"], [1] * 2000, {"a": 1}, {"": {}}, [{}],
    [[[[[[[[1]]]]]]]],
]  # fmt: skip
PIECES = [
    b"", b"\x00", b"\xff", b"\xff\xff\xff\xff", b"\x00\x00\x00\x80", b"\xff\xff\xff\x7f", b"\xed\xa0\x80", b"\n", b"\r",
    b'"', b"'", b"[", b"]", b"{", b"}", b",", b":", b"-", b"&a ", b"*a", b"!!int ", b"1e999", b"NaN", b"null", b"-1",
    b"9" * 5000, b"[" * 3000, b"{a: " * 500, b"\x1b[2J", b"# ", b"%", b"? ", b"| ", b"\t", b"0x", b"1:2",
]  # fmt: skip


def edit_bytes(content: bytes, random: Random) -> bytes:
    """The content with bytes replaced, inserted, removed, repeated or cut in a few places."""
    for _ in range(random.randint(1, 4)):
        piece = random.choice(PIECES) if random.random() < 0.5 else random.randbytes(random.randint(1, 4))
        at, length = random.randint(0, len(content)), max(1, len(piece))
        before, after = content[:at], content[at:]
        how = random.randint(0, 8)
        content = (
            before + piece + after[length:] if how < 3
            else before + piece + after if how < 5
            else before + after[length:] if how < 7
            else before + after[: 16 * length] + after if how < 8
            else before
        )  # fmt: skip
    return content


def edit_tree(tree: Any, random: Random) -> Any:
    """The tree of a JSON text with values replaced, nested, removed or repeated; changes the tree."""
    for _ in range(random.randint(1, 3)):
        top = [tree]
        holder, key = random.choice(list(_slots(top)))
        how = random.randint(0, 5)
        if how < 3:
            holder[key] = deepcopy(random.choice(VALUES))
        elif how < 4:
            holder[key] = [holder[key]]
        elif how < 5 and holder is not top:
            del holder[key]
        elif isinstance(holder, dict):
            holder[str(random.choice(VALUES))[:50]] = holder[key]
        tree = top[0]
    return tree


def _slots(tree: Any) -> Iterator[tuple[Any, Any]]:
    for key in list(tree) if isinstance(tree, dict) else range(len(tree)):
        yield tree, key
        if isinstance(tree[key], dict | list):
            yield from _slots(tree[key])


def changed_bytes(content: bytes) -> Change:
    """Content with changed bytes."""
    return lambda random: edit_bytes(content, random)


def one_of(*changes: Change) -> Change:
    """One of several kinds of change."""
    return lambda random: random.choice(changes)(random)


def changed_json(text: str) -> Change:
    """A JSON text with changed values or bytes."""
    return one_of(lambda random: json.dumps(edit_tree(json.loads(text), random)).encode(), changed_bytes(text.encode()))


def changed_yaml(text: str) -> Change:
    """A YAML text with changed values or bytes."""
    tree = json.dumps(yaml.safe_load(text))

    def changed(random: Random) -> bytes:
        return yaml.safe_dump(edit_tree(json.loads(tree), random), allow_unicode=True).encode(errors="replace")

    return one_of(changed, changed_bytes(text.encode()))


def changed_lines(text: str) -> Change:
    """JSON lines, one of which has changed values, or all of which have changed bytes."""
    lines = [line.encode() for line in text.splitlines()]
    changes = [changed_json(line.decode()) for line in lines]

    def changed(random: Random) -> bytes:
        at = random.randint(0, len(lines) - 1)
        return b"\n".join([*lines[:at], changes[at](random), *lines[at + 1 :], b""])

    return one_of(changed, changed_bytes(text.encode()))


def changed_gzip(inner: bytes, change: Change) -> Change:
    """A compressed file with changed content, or changed itself."""
    return one_of(lambda random: gzip.compress(change(random), 1), changed_bytes(gzip.compress(inner, 1)))


def changed_tensors(content: bytes) -> Change:
    """A safetensors file with changed values in its header, or changed bytes anywhere."""
    [length] = struct.unpack("<Q", content[:8])
    header, data = changed_json(content[8 : 8 + length].decode()), content[8 + length :]

    def changed(random: Random) -> bytes:
        new = header(random)
        return struct.pack("<Q", len(new)) + new + data

    return one_of(changed, changed_bytes(content))


def changed_zip(files: Mapping[str, bytes], names: Sequence[str], change: Callable[[bytes], Change]) -> Change:
    """An archive in which a file has another name or content, or which has changed bytes."""

    def archive(parts: Mapping[str, bytes]) -> bytes:
        out = io.BytesIO()
        with zipfile.ZipFile(out, "w") as made:
            for name, data in parts.items():
                made.writestr(name, data)
        return out.getvalue()

    def changed(random: Random) -> bytes:
        at = random.choice(sorted(files))
        name = at if random.random() < 0.5 else random.choice(names)
        return archive({**{other: files[other] for other in files if other != at}, name: change(files[at])(random)})

    return one_of(changed, changed_bytes(archive(files)))


def changed_png(content: bytes) -> Change:
    """A PNG with changed bytes in its chunks, whose checksums are right, or changed bytes anywhere."""

    def with_checksums(random: Random) -> bytes:
        changed = edit_bytes(content, random)
        out, at = changed[:8], 8
        while at + 8 <= len(changed):
            size = min(int.from_bytes(changed[at : at + 4], "big"), max(0, len(changed) - at - 12))
            body = changed[at + 4 : at + 8 + size]
            out += struct.pack(">I", size) + body + struct.pack(">I", zlib.crc32(body))
            at += 12 + size
        return out

    return one_of(with_checksums, changed_bytes(content))
