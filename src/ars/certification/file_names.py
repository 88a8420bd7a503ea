"""The files that the test images of a folder come from, kept beside the records of a certification: one an index."""

import json
from collections.abc import Sequence
from pathlib import Path

from ars.certification.records import RecordError
from ars.certification.run_folder import FILES
from ars.certification.shards import OTHER_ORDER
from ars.certification.writing import write_new


def check_files(folder: Path, names: Sequence[str]) -> None:
    """Refuse other names than those of the images that records were begun with; their number is in the manifest."""
    kept = read_files(folder)
    if len(kept) == len(names) and kept != tuple(names):
        if sorted(kept) == sorted(names):
            raise RecordError(f"{folder} holds records of {OTHER_ORDER}; certify under another --name")
        old, new = next((old, new) for old, new in zip(kept, names, strict=True) if old != new)
        raise RecordError(
            f"{folder} holds records of other images: {old} was where {new} is now; certify under another --name"
        )


def keep_files(folder: Path, names: Sequence[str]) -> None:
    """Write the names unless they are there."""
    write_new(folder / FILES, json.dumps(list(names), indent=0) + "\n")


def read_files(folder: Path) -> tuple[str, ...]:
    """The names by index; none where none were kept."""
    path = folder / FILES
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
        if not isinstance(content, list) or not all(isinstance(name, str) for name in content):
            raise ValueError("expected a list of names")
    except FileNotFoundError:
        return ()
    except (OSError, ValueError) as error:
        raise RecordError(f"{path} cannot be read ({error}); put a copy of it in its place, or remove it") from error
    return tuple(content)
