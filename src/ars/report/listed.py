"""The list of a report's files, by which the next report into the same folder knows the earlier one's."""

import hashlib
import json
from collections.abc import Iterable, Mapping
from pathlib import Path

from ars.certification.run_folder import digest_of

LIST = "report-files.json"


def make_list(contents: Mapping[str, bytes]) -> bytes:
    """The list's content: the name of every file with its SHA-256."""
    files = {name: hashlib.sha256(content).hexdigest() for name, content in contents.items()}
    return (json.dumps({"made_by": "ars report", "files": files}, indent=1) + "\n").encode()


def remove_listed(out: Path, *, written: Iterable[str]) -> None:
    """Remove the files of out that its list names, unless they were written now or are no longer as they were."""
    plain = ((name, digest) for name, digest in _listed(out / LIST).items() if Path(name).name == name)
    remove_others(out, [name for name, digest in plain if _unchanged(out / name, digest)], written=written)


def remove_others(out: Path, names: Iterable[str], *, written: Iterable[str]) -> None:
    """Remove files of out by their names, but none that was written now, be it by another name: A and a may be one."""
    now = [out / name for name in written]
    for path in (out / name for name in names):
        if path.is_file() and not any(path.samefile(other) for other in now):
            path.unlink()


def _listed(path: Path) -> dict[str, str]:
    """What the list says; nothing where there is none that can be read."""
    try:
        content = json.loads(path.read_bytes())
        return {str(name): str(digest) for name, digest in content["files"].items()}
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return {}


def _unchanged(path: Path, digest: str) -> bool:
    regular = path.is_file() and not path.is_symlink()
    return regular and digest_of(path) == digest
