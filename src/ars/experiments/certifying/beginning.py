"""How a certification was begun: between a recipe's settings and the manifest beside the records; loads no torch."""

import json
from dataclasses import asdict, fields
from pathlib import Path
from typing import Any

from ars.certification.records import RecordError
from ars.certification.run_folder import records_folder
from ars.certification.seen_images import Look
from ars.certification.shards import SETTINGS, SHARD_SIZE, Layout, Manifest, read_manifest, unreadable
from ars.experiments.recipe import CertifySettings

_OF_LAYOUT = {"examples", "every"}


def make_manifest(
    settings: CertifySettings,
    *,
    model: str,
    images: Look,
    files: str,
    weights: str,
    order: str,
    shard_size: int | None,
    begun: Manifest | None,
) -> Manifest:
    """The manifest of these settings; a shard size that is not given is that of what was begun."""
    size = shard_size if shard_size is not None else begun.layout.shard_size if begun else SHARD_SIZE
    own = {name: value for name, value in asdict(settings).items() if name not in _OF_LAYOUT}
    # through JSON, as it will be read back: tuples become lists
    layout = Layout(settings.examples, settings.every, size)
    return Manifest(layout, json.loads(json.dumps(own)), model, images, files, weights, order)


def begun_settings(run: Path, name: str) -> CertifySettings | None:
    """The settings that the records of a run were begun with; None where there are none."""
    folder = records_folder(run, name)
    manifest = read_manifest(folder)
    if manifest is None:
        return None
    unknown = manifest.settings.keys() ^ ({field.name for field in fields(CertifySettings)} - _OF_LAYOUT)
    if unknown:
        raise RecordError(
            f"{folder / SETTINGS} was written by another version: {sorted(unknown)[0]} is missing or unknown; "
            "certify under another --name"
        )
    own: dict[str, Any] = {
        name: tuple(value) if isinstance(value, list) else value for name, value in manifest.settings.items()
    }
    try:
        return CertifySettings(examples=manifest.layout.examples, every=manifest.layout.every, **own)
    except (TypeError, ValueError) as error:
        raise unreadable(folder / SETTINGS, error) from error
