"""How a certification was started: from settings to the manifest beside the records, and back; loads no torch."""

import json
from dataclasses import fields
from pathlib import Path
from typing import Any

from ars.certification.settings import CertifySettings
from ars.runs.paths import records_folder
from ars.runs.records import RecordError
from ars.runs.shards import SETTINGS, SHARD_SIZE, Layout, Manifest, read_manifest, unreadable
from ars.runs.test_images import ImageStats

_OF_LAYOUT = {"examples", "every"}


def make_manifest(
    settings: CertifySettings,
    *,
    model: str,
    images: ImageStats,
    files: str,
    weights: str,
    order: str,
    shard_size: int | None,
    begun: Manifest | None,
) -> Manifest:
    """The manifest of these settings; the default shard size is that of the begun records."""
    size = shard_size if shard_size is not None else begun.layout.shard_size if begun else SHARD_SIZE
    others = {name: value for name, value in settings.recorded().items() if name not in _OF_LAYOUT}
    # through JSON, so that it equals what is read back: tuples become lists
    layout = Layout(settings.examples, settings.every, size)
    return Manifest(layout, json.loads(json.dumps(others)), model, images, files, weights, order)


def begun_settings(run: Path, name: str) -> CertifySettings | None:
    """The settings that the records of a run were started with; None if there are no records."""
    folder = records_folder(run, name)
    manifest = read_manifest(folder)
    if manifest is None:
        return None
    expected = {field.name for field in fields(CertifySettings)} - _OF_LAYOUT
    unknown = ({"exact"} | manifest.settings.keys()) ^ expected
    if unknown:
        raise RecordError(
            f"{folder / SETTINGS} was written by another version: {sorted(unknown)[0]} is missing or unknown; "
            "certify under another --name"
        )
    others: dict[str, Any] = {
        name: tuple(value) if isinstance(value, list) else value for name, value in manifest.settings.items()
    }
    try:
        return CertifySettings(examples=manifest.layout.examples, every=manifest.layout.every, **others)
    except (TypeError, ValueError) as error:
        raise unreadable(folder / SETTINGS, error) from error
