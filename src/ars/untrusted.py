"""Text that others may have written: YAML, JSON and its files, read without surprises.

Sizes are limited before anything is read. What cannot be parsed is a ValueError with one sentence. No text runs code.
"""

import gzip
import io
import json
import re
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import yaml
from numpy.lib.format import read_array_header_1_0, read_array_header_2_0, read_magic
from numpy.typing import NDArray

MOST_BYTES = 64 * 2**20
"""Of a text file that is no list of records, which may have kilobytes per image."""
MOST_IN_A_LINE = 2**20
MOST_UNPACKED = 4 * 2**30
"""Of arrays in one file, or of a shard of records."""


def read_text(path: Path, most: int = MOST_BYTES) -> str:
    """The text of a file that is not too large."""
    size = path.stat().st_size
    if size > most:
        raise ValueError(f"it has {size / 2**20:,.0f} MB, more than the {most // 2**20:,} MB of any such file")
    return path.read_text(encoding="utf-8")


def read_lines(path: Path) -> Iterator[str]:
    """The lines of a text file that is compressed with gzip; none is too long."""
    with gzip.open(path, "rt", encoding="utf-8") as file:
        while line := file.readline(MOST_IN_A_LINE):
            if len(line) == MOST_IN_A_LINE:
                raise ValueError(f"it has a line of {MOST_IN_A_LINE:,} characters or more")
            yield line


def read_arrays(path: Path) -> dict[str, NDArray[Any]]:
    """The arrays of an npz file by their names; no object is ever loaded."""
    try:
        with zipfile.ZipFile(path) as archive:
            size = sum(entry.file_size for entry in archive.infolist())
            if size > MOST_UNPACKED:
                raise ValueError(
                    f"it would take {size / 2**30:,.1f} GB of memory, more than {MOST_UNPACKED / 2**30:g} GB"
                )
            return {name.removesuffix(".npy"): _array(archive.read(name)) for name in archive.namelist()}
    except ValueError:
        raise
    except FileNotFoundError as error:
        raise ValueError("it is not there") from error
    except Exception as error:  # zipfile and NumPy have a dozen kinds for damaged files, tokenize's among them
        raise ValueError(f"it is damaged: {error}") from error


def _array(content: bytes) -> NDArray[Any]:
    """The array of an npy file; its size is that of its bytes, whatever its header says."""
    file = io.BytesIO(content)
    header = {(1, 0): read_array_header_1_0, (2, 0): read_array_header_2_0}[read_magic(file)]
    shape, by_columns, kind = header(file)
    if kind.hasobject:
        raise ValueError("it holds objects, not numbers")
    values: NDArray[Any] = np.frombuffer(content, kind, offset=file.tell())
    return values.reshape(shape, order="F" if by_columns else "C")


def parse_json(text: str) -> Any:
    """The value of a JSON text."""
    try:
        return json.loads(text)
    except RecursionError as error:
        raise ValueError("it is nested too deeply") from error


class PlainLoader(yaml.SafeLoader):
    """YAML without aliases, which grow without limit; 1e-3 is a number and 1:2:3 is none, as in YAML 1.2."""

    def compose_node(self, parent: yaml.Node | None, index: Any) -> yaml.Node | None:
        """The node, unless it is an alias."""
        if self.check_event(yaml.AliasEvent):
            mark = self.peek_event().start_mark  # type: ignore[no-untyped-call]
            raise yaml.MarkedYAMLError(problem="aliases (*name) are not read", problem_mark=mark)
        node: yaml.Node | None = super().compose_node(parent, index)
        return node


NUMBERS = {
    "tag:yaml.org,2002:int": r"[-+]?(0|[1-9][0-9_]*|0x[0-9a-fA-F_]+|0[0-7_]+|0b[01_]+)",
    "tag:yaml.org,2002:float": r"[-+]?(([0-9][0-9_]*\.[0-9_]*|\.[0-9][0-9_]*)([eE][-+]?[0-9]+)?"
    r"|[0-9][0-9_]*[eE][-+]?[0-9]+|\.(inf|Inf|INF))|\.(nan|NaN|NAN)",
}
PlainLoader.yaml_implicit_resolvers = {
    first: [(tag, pattern) for tag, pattern in resolvers if tag not in NUMBERS]
    for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
}


class PlainDumper(yaml.SafeDumper):
    """Quotes every text that either version of YAML would take for something else."""


for _tag, _pattern in NUMBERS.items():
    for _kind in (PlainLoader, PlainDumper):
        _kind.add_implicit_resolver(_tag, re.compile(f"^(?:{_pattern})$"), list("-+.0123456789"))


def dump_yaml(content: Any) -> str:
    """A YAML text from which parse_yaml reads the same content, with its keys in their order."""
    text: str = yaml.dump(content, Dumper=PlainDumper, sort_keys=False)
    return text


def parse_yaml(text: str, loader: type[PlainLoader] = PlainLoader) -> Any:
    """The value of a YAML text."""
    try:
        return yaml.load(text, loader)
    except RecursionError as error:
        raise ValueError("it is nested too deeply") from error
    except yaml.YAMLError as error:
        raise ValueError(f"it is not valid YAML: {' '.join(str(error).split())}") from error
    except (KeyError, IndexError, AttributeError) as error:  # a tag such as !!bool on a text that is none
        raise ValueError("it is not valid YAML: a value does not fit its tag") from error
