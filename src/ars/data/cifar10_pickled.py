"""The pickled layout of CIFAR-10, read without unpickling.

A pickle is a program; even a restricted unpickler runs it, and its safety rests on what the allowed classes do. Here
the program is only listed (pickletools.genops disassembles and executes nothing), and the two constants that matter
are taken from the listing: the one long byte string of pixels, and the integers of the list that follows the key
"labels". Should the listing be read wrongly, the published SHA-1 of the rows says so.
"""

import pickletools
from pathlib import Path

import numpy as np

from ars.data.cifar10 import PUBLISHED, ROW, Layout, check_rows
from ars.data.errors import DataError

# What may stand between the key "labels" and its last integer: marks, memo entries and the list itself.
_INTEGERS = {"INT", "BININT", "BININT1", "BININT2", "LONG", "LONG1", "LONG4"}
_WITHIN_LIST = {"EMPTY_LIST", "MARK", "APPEND", "APPENDS", "PUT", "BINPUT", "LONG_BINPUT", "MEMOIZE", "FRAME"}


def rows_of_pickle(path: Path, name: str, layout: Layout = PUBLISHED) -> bytes:
    """The rows of the binary layout from a pickled batch, checked against their published SHA-1."""
    pixels: bytes | None = None
    labels: list[int] = []
    in_labels = False
    try:
        for opcode, argument, _ in pickletools.genops(path.read_bytes()):
            if isinstance(argument, str | bytes | bytearray) and opcode.name not in _WITHIN_LIST:
                in_labels = argument in ("labels", b"labels")
                if len(argument) == layout.rows * (ROW - 1):
                    pixels = argument.encode("latin-1") if isinstance(argument, str) else bytes(argument)
            elif in_labels and opcode.name in _INTEGERS and argument is not None:
                labels.append(int(argument))
            elif opcode.name not in _WITHIN_LIST:
                in_labels = False
    except (ValueError, OSError) as error:
        raise DataError(f"{path} cannot be read as a pickled CIFAR-10 batch: {error}") from error
    if pixels is None or len(labels) != layout.rows or not all(0 <= label < 10 for label in labels):
        raise DataError(
            f"{path} should list {layout.rows:,} labels from 0 to 9 and {layout.rows * (ROW - 1):,} bytes of pixels, "
            f"found {len(labels):,} labels and {'the' if pixels is not None else 'no such'} pixels; download it again"
        )
    table = np.frombuffer(pixels, dtype=np.uint8).reshape(layout.rows, ROW - 1)
    rows = np.concatenate([np.array(labels, dtype=np.uint8)[:, None], table], axis=1).tobytes()
    check_rows(rows, name, layout, found=str(path))
    return rows
