"""Records in fixed shards: consecutive images of the subset, one file per shard, each written as a whole.

certify/<name>/settings.json is the manifest: how all records are made, and which images belong to which shard.
certify/<name>/shard-00012.jsonl holds the records of shard 12. The images of a shard depend neither on the number of
processes nor on what is already done, so any process may write any shard at any time.
"""

import json
import shlex
import zlib
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from itertools import groupby
from pathlib import Path
from typing import Any, Self

from ars.atomic import write_new, write_whole
from ars.runs.paths import MAIN, PACKED
from ars.runs.records import Record, RecordError, read_records
from ars.runs.test_images import OTHER_ORDER, ImageStats, Judged, difference, read_stats
from ars.untrusted import parse_json, read_lines, read_text

SETTINGS = "settings.json"
MOST_EXAMPLES = 1_000_000
SHARD_SIZE = 10
MOST_NAMED = 4


class IncompleteError(RecordError):
    """A certification that has not finished."""


@dataclass(frozen=True)
class Layout:
    """The subset 0, every, 2 every, ... of the test images, cut into shards.

    >>> layout = Layout(examples=5, every=10, shard_size=2)
    >>> [list(layout.images(number)) for number in range(layout.shards)]
    [[0, 10], [20, 30], [40]]
    """

    examples: int
    every: int = 1
    shard_size: int = SHARD_SIZE

    def __post_init__(self) -> None:
        numbers = (self.examples, self.every, self.shard_size)
        whole = all(isinstance(number, int) for number in numbers)
        # image indices must be below 2^32
        if not whole or min(numbers) < 1 or self.examples > MOST_EXAMPLES or self.examples * self.every >= 2**32:
            raise ValueError(
                f"examples (at most {MOST_EXAMPLES:,}), every and shard_size must be whole numbers of at least 1, and "
                f"examples times every must be below 2^32, got {self.examples}, {self.every} and {self.shard_size}"
            )

    @property
    def indices(self) -> range:
        """All test images of the subset."""
        return range(0, self.examples * self.every, self.every)

    @property
    def shards(self) -> int:
        """The number of shards; the last may be shorter."""
        return -(-self.examples // self.shard_size)

    def images(self, number: int) -> range:
        """The test images of one shard."""
        return self.indices[number * self.shard_size : (number + 1) * self.shard_size]

    @property
    def name(self) -> str:
        """The subset in records, as a slice of the test images without its end, since examples may grow."""
        return f"test[::{self.every}]"


@dataclass(frozen=True)
class Manifest:
    """What all records of a folder share: their layout, the settings, a digest of the model, and the images.

    images are statistics of the test images, files is a digest of the files of the user's own folder, and weights is a
    digest of the weights file. They are empty in manifests of earlier versions; weights also for an imported model.
    order names the order of the test images; empty means that of the data set, or of a folder's file names. judged is
    the part of the test set that is certified. order and judged are written only if they are not empty.
    """

    layout: Layout
    settings: dict[str, Any]
    model: str
    images: ImageStats = ()
    files: str = ""
    weights: str = ""
    order: str = ""
    judged: Judged | None = None

    def to_json(self) -> str:
        """The content of settings.json; equal manifests give equal files."""
        content = {name: value for name, value in asdict(self).items() if value or name not in ("order", "judged")}
        return json.dumps(content, indent=2) + "\n"

    @classmethod
    def from_json(cls, text: str) -> Self:
        """Read settings.json; a missing or unknown field is an error."""
        raw = parse_json(text)
        raw["images"] = read_stats(raw.get("images", ()))
        raw["layout"] = Layout(**raw["layout"])
        raw["judged"] = Judged(**raw["judged"]) if "judged" in raw else None
        manifest = cls(**raw)
        if not isinstance(manifest.settings, dict):
            raise TypeError(f"settings must be a mapping, got {type(manifest.settings).__name__}")
        return manifest


@dataclass(frozen=True)
class Merged:
    """The records of a folder in the order of index, and the images without a record."""

    manifest: Manifest
    records: tuple[Record, ...]
    missing: tuple[int, ...]


def read_manifest(folder: Path) -> Manifest | None:
    """The manifest of a folder; None if no certification was started there."""
    path = folder / SETTINGS
    # checked before the manifest, which another process may be writing: it is written before any shard
    shards = any(folder.glob("*.jsonl"))
    try:
        return Manifest.from_json(read_text(path))
    except FileNotFoundError:
        if shards:
            raise RecordError(
                f"{folder} holds records without {SETTINGS}; restore a copy of it, or certify under another --name"
            ) from None
        return None
    except NotADirectoryError:
        raise  # a file is in the way of the folder; the manifest is not at fault
    except (OSError, KeyError, TypeError, ValueError, AttributeError) as error:
        raise unreadable(path, error) from error


def unreadable(path: Path, error: Exception) -> RecordError:
    """The error for a manifest that cannot be read."""
    return RecordError(f"{path} cannot be read ({error}); restore a copy of it, or certify under another --name")


def begin(folder: Path, wanted: Manifest) -> Manifest:
    """Write the manifest, or compare it with the existing one; only the number of examples may differ and grow.

    If several processes begin at the same time, one writes the manifest and the others compare with it.
    """
    if compare(folder, wanted) is None:
        write_new(folder / SETTINGS, wanted.to_json())
    have = compare(folder, wanted)
    if have is None:
        raise RecordError(f"{folder / SETTINGS} was removed meanwhile; run the same command again")
    if wanted.layout.examples <= have.layout.examples:
        return have
    from filelock import FileLock

    with FileLock(folder / ".growing.lock"):  # another process may increase it at the same time
        have = read_manifest(folder) or have
        _check_same(folder, have, wanted)
        if wanted.layout.examples > have.layout.examples:
            write_whole(folder / SETTINGS, wanted.to_json())
            have = wanted
    return have


def compare(folder: Path, wanted: Manifest) -> Manifest | None:
    """The existing manifest, which may differ in the number of examples only; None if there is none."""
    if (folder / PACKED).exists():
        raise RecordError(f"{folder} holds packed records, which are complete; certify under another --name")
    have = read_manifest(folder)
    if have is not None:
        _check_same(folder, have, wanted)
    return have


def read_shard(folder: Path, manifest: Manifest, number: int) -> list[Record]:
    """The records of one shard; empty if it was not written yet."""
    layout = manifest.layout
    path = shard_path(folder, number)
    if not path.exists():
        return []
    records = read_records(path)
    indices = [record.certificate.index for record in records]
    # a shard that was written with more examples may hold more images than this layout has
    step = layout.shard_size * layout.every
    allowed = range(number * step, (number + 1) * step, layout.every)
    if len(set(indices)) < len(indices) or not all(index in allowed for index in indices):
        some = name_images(tuple(allowed[: layout.examples]), layout.every)
        raise RecordError(f"{path} holds images {indices}, expected each of {some} once; move it away")
    check_model(path, records, manifest)
    return records


def check_model(path: Path, records: Sequence[Record], manifest: Manifest) -> None:
    """Refuse records of another model, for example in copied shards; an earlier version did not record the model."""
    if any(record.model not in ("", manifest.model) for record in records):
        raise RecordError(f"{path} holds records of a model with other weights or noise than {SETTINGS}; move it away")


def write_shard(folder: Path, number: int, records: list[Record]) -> None:
    """Write one shard as a whole."""
    ordered = sorted(records, key=lambda record: record.certificate.index)
    write_whole(shard_path(folder, number), "".join(record.to_json() + "\n" for record in ordered))


def shard_path(folder: Path, number: int) -> Path:
    """The file of a shard."""
    return folder / f"shard-{number:05d}.jsonl"


def merge(folder: Path, *, partial: bool = False) -> Merged:
    """All records of a folder; an incomplete one is refused unless partial is true."""
    manifest = read_manifest(folder)
    if manifest is None:
        raise _no_records(folder)
    layout = manifest.layout
    shards = [shard_path(folder, number) for number in range(layout.shards)]
    strays = sorted(set(folder.glob("*.jsonl")) - set(shards))
    if strays:
        raise RecordError(
            f"{strays[0]} is not a shard of {layout.examples} examples; certify with more --examples, or move it away"
        )
    records = [record for number in range(layout.shards) for record in read_shard(folder, manifest, number)]
    done = {record.certificate.index for record in records}
    if not done:
        raise _no_records(folder)
    missing = tuple(index for index in layout.indices if index not in done)
    if missing and not partial:
        raise IncompleteError(
            f"{folder} has {len(done)} of {layout.examples} images, missing {name_images(missing, layout.every)}; "
            "run the same `ars certify` again to resume, or use the records so far with --partial"
        )
    return Merged(manifest, tuple(sorted(records, key=lambda record: record.certificate.index)), missing)


def name_images(indices: tuple[int, ...], every: int) -> str:
    """Images as ranges, the first few of them.

    >>> name_images((0, 1, 2, 5, 9, 10), 1), name_images((0, 50, 100, 500), 50)
    ('0 to 2, 5, 9 to 10', '0 to 100, 500')
    """
    runs = groupby(enumerate(indices), key=lambda pair: pair[1] - every * pair[0])
    ranges = [[index for _, index in run] for _, run in runs]
    names = [f"{part[0]} to {part[-1]}" if len(part) > 1 else str(part[0]) for part in ranges[:MOST_NAMED]]
    return ", ".join(names) + (" and more" if len(ranges) > MOST_NAMED else "")


def _no_records(folder: Path) -> IncompleteError:
    name = [] if folder.name == MAIN else ["--name", folder.name]
    command = shlex.join(["ars", "certify", str(folder.parent.parent), *name])
    return IncompleteError(f"{folder} holds no records; run `{command}` first")


def _check_same(folder: Path, have: Manifest, wanted: Manifest) -> None:
    old, new = (
        {"exact": False, **manifest.settings, "every": manifest.layout.every, "shard_size": manifest.layout.shard_size}
        for manifest in (have, wanted)
    )
    for name in new | old:
        if old.get(name) != new.get(name):
            raise _conflict(folder, f"with {name}={old.get(name)}, got {new.get(name)}")
    if have.model != wanted.model:
        raise _conflict(folder, "of a model with other weights or noise")
    if have.order != wanted.order:
        raise _conflict(folder, f"of {OTHER_ORDER}")
    change = difference(have.images, wanted.images)
    if not change and have.files and wanted.files and have.files != wanted.files:
        change = "files of the same names have changed"
    if change:
        raise _conflict(folder, f"of other images: {change}")


def _conflict(folder: Path, which: str) -> RecordError:
    """The error for other records in a folder; nothing is replaced, since a process may be writing the first shard."""
    if any(folder.glob("*.jsonl")):
        return RecordError(f"{folder} holds records {which}; certify under another --name, or remove that folder")
    return RecordError(
        f"{folder} was started for records {which}, and has none yet; remove that folder, unless a process is using "
        "it, or certify under another --name"
    )


def read_certification(folder: Path, *, partial: bool = False) -> Merged:
    """The records of certify/<name>, packed or in shards; an incomplete one is refused unless partial is true."""
    path = folder / PACKED
    if not path.exists():
        return merge(folder, partial=partial)
    manifest = read_manifest(folder)
    if manifest is None:
        raise RecordError(f"{path} has no settings.json beside it; copy that too")
    records = sorted(_read(path), key=lambda record: record.certificate.index)
    indices = [record.certificate.index for record in records]
    wanted = manifest.layout.indices
    if not records or len(set(indices)) < len(indices) or not all(index in wanted for index in indices):
        found = name_images(tuple(indices), 1) or "no records"
        raise RecordError(f"{path} must hold each image of {wanted} once, got {found}; pack them again")
    check_model(path, records, manifest)
    there = set(indices)
    missing = tuple(index for index in wanted if index not in there)
    if missing and not partial:
        raise RecordError(f"{path} has {len(indices)} of {len(wanted)} images; use --partial to report on them")
    return Merged(manifest, tuple(records), missing)


def _read(path: Path) -> list[Record]:
    try:
        return [Record.from_json(line) for line in read_lines(path)]
    except (OSError, EOFError, zlib.error, ValueError) as error:
        raise RecordError(f"{path} does not hold certification records ({error}); pack them again") from error
