"""Records as they are committed: all shards of a certification in one compressed file beside its settings.json."""

import gzip
import zlib
from pathlib import Path

from ars.certification.records import Record, RecordError
from ars.certification.run_folder import PACKED
from ars.certification.shards import Merged, check_model, merge, name_images, read_manifest


def read_certification(folder: Path, *, partial: bool = False) -> Merged:
    """The records of certify/<name>, packed or in shards; refuses what is not complete unless partial is asked for."""
    path = folder / PACKED
    if not path.exists():
        return merge(folder, partial=partial)
    manifest = read_manifest(folder)
    if manifest is None:
        raise RecordError(f"{path} lies there without its settings.json; copy that too")
    records = sorted(_read(path), key=lambda record: record.certificate.index)
    if not records:
        raise RecordError(f"{path} holds no records; pack them again")
    indices = [record.certificate.index for record in records]
    wanted = manifest.layout.indices
    if len(set(indices)) < len(indices) or not set(indices) <= set(wanted):
        raise RecordError(f"{path} must hold images of {wanted} once each, got {name_images(tuple(indices), 1)}")
    check_model(path, records, manifest)
    missing = tuple(index for index in wanted if index not in set(indices))
    if missing and not partial:
        raise RecordError(f"{path} has {len(indices)} of {len(wanted)} images; take what is there with --partial")
    return Merged(manifest, tuple(records), missing)


def _read(path: Path) -> list[Record]:
    try:
        with gzip.open(path, "rt", encoding="utf-8") as file:
            return [Record.from_json(line) for line in file]
    except (OSError, EOFError, zlib.error, KeyError, TypeError, ValueError) as error:
        raise RecordError(f"{path} does not hold certification records ({error}); pack them again") from error
