"""manifest.json: which record files every table and figure was made from, with their SHA-256."""

import hashlib
import json
import re
from collections.abc import Mapping, Sequence
from pathlib import Path

MANIFEST = "manifest.json"


def make_manifest(root: Path, origins: Mapping[str, Sequence[Path]]) -> str:
    """The manifest's text: sources by their path below results/ with their digests, outputs with their sources."""
    sources = {path: _digest(path) for paths in origins.values() for path in paths}
    names = {path: path.relative_to(root).as_posix() for path in sources}
    content = {
        "made_by": "ars results",
        "sources": {names[path]: sources[path] for path in sorted(sources, key=lambda path: names[path])},
        "outputs": {name: sorted({names[path] for path in origins[name]}) for name in sorted(origins)},
    }
    return json.dumps(content, indent=1, ensure_ascii=False) + "\n"


def read_outputs(folder: Path) -> list[str]:
    """The tables and figures that a folder's manifest names; none where there is none that can be read."""
    try:
        content = json.loads((folder / MANIFEST).read_bytes())
        names = [str(name) for name in content["outputs"]]
    except (OSError, ValueError, KeyError, TypeError):
        return []
    return [name for name in names if re.fullmatch(r"(tables|figures)/[^/]+", name)]


def _digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()
