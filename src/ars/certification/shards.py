"""Records in fixed shards: consecutive images of the subset, one file a shard, each written as a whole.

certify/<name>/settings.json is the manifest: how all of the records are made, and which images belong to which shard.
certify/<name>/shard-00012.jsonl holds the records of shard 12. Which images a shard holds depends on neither the number
of processes nor on what is done already, so any process may write any shard at any time.
"""

import json
import shlex
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Self

from ars.certification.judged import Judged
from ars.certification.records import Record, RecordError, read_records
from ars.certification.run_folder import MAIN, PACKED
from ars.certification.seen_images import Look, difference
from ars.certification.writing import write_new, write_whole

SETTINGS = "settings.json"
SHARD_SIZE = 10
MOST_NAMED = 4
OTHER_ORDER = "the test images in another order, as an earlier version took the files of a folder by name"


class IncompleteError(RecordError):
    """Records that are not all there yet."""


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
        if not whole or min(numbers) < 1 or self.examples * self.every >= 2**32:  # indices are below that
            raise ValueError(
                "examples, every and shard_size must be whole numbers of at least 1, examples times every below 2^32, "
                f"got {self.examples}, {self.every} and {self.shard_size}"
            )

    @property
    def indices(self) -> range:
        """All test images of the subset."""
        return range(0, self.examples * self.every, self.every)

    @property
    def shards(self) -> int:
        """How many shards there are; the last may be shorter."""
        return -(-self.examples // self.shard_size)

    def images(self, number: int) -> range:
        """The test images of one shard."""
        return self.indices[number * self.shard_size : (number + 1) * self.shard_size]

    @property
    def name(self) -> str:
        """How records name the subset, as a slice of the test images; more examples of the same may follow."""
        return f"test[::{self.every}]"


@dataclass(frozen=True)
class Manifest:
    """What all records of a folder have in common: their layout, the settings, a digest of the model, and the images.

    images are how the test images look, files a digest of those of a folder of one's own, weights a digest of the file
    that the model's were read from. They are empty where an earlier version began; weights too where a model was given.
    order names the order of the test images, empty where it is that of the data set, or of the names of a folder's
    files. judged says how much of the test set all of the records are of. Either is written where it is not empty.
    """

    layout: Layout
    settings: dict[str, Any]
    model: str
    images: Look = ()
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
        """Read it back; a field that is missing or unknown is an error."""
        raw = json.loads(text)
        images = tuple(float(number) for number in raw.pop("images", ()))
        judged = Judged(**raw.pop("judged")) if "judged" in raw else None
        manifest = cls(layout=Layout(**raw.pop("layout")), images=images, judged=judged, **raw)
        if not isinstance(manifest.settings, dict):
            raise TypeError(f"settings must be a mapping, got {type(manifest.settings).__name__}")
        return manifest


@dataclass(frozen=True)
class Merged:
    """The records of a folder in the order of index, and the images that have none yet."""

    manifest: Manifest
    records: tuple[Record, ...]
    missing: tuple[int, ...]


def read_manifest(folder: Path) -> Manifest | None:
    """What the folder's records have in common; None where nothing was begun."""
    path = folder / SETTINGS
    # looked at before the manifest, which another process may be writing: it is there before any shard
    shards = any(folder.glob("*.jsonl"))
    try:
        return Manifest.from_json(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        if shards:
            raise RecordError(
                f"{folder} holds records without {SETTINGS}; put a copy of it there, or certify under another --name"
            ) from None
        return None
    except NotADirectoryError:
        raise  # a file is in the way of the folder, and the manifest is not to blame
    except (OSError, KeyError, TypeError, ValueError, AttributeError) as error:
        raise unreadable(path, error) from error


def unreadable(path: Path, error: Exception) -> RecordError:
    """What is wrong with a manifest, and that its records are not lost."""
    return RecordError(
        f"{path} cannot be read ({error}); put a copy of it in its place, or certify under another --name"
    )


def begin(folder: Path, wanted: Manifest) -> Manifest:
    """Write the manifest, or hold it against the one that is there; nothing may differ, but examples may grow.

    Of processes that begin at the same time one writes it, and the others are held against that.
    """
    if (folder / PACKED).exists():
        raise RecordError(f"{folder} holds packed records, which are complete; certify under another --name")
    if read_manifest(folder) is None:
        write_new(folder / SETTINGS, wanted.to_json())
    have = read_manifest(folder)
    if have is None:
        raise RecordError(f"{folder / SETTINGS} was removed meanwhile; run the same command again")
    _check_same(folder, have, wanted)
    if wanted.layout.examples <= have.layout.examples:
        return have
    from filelock import FileLock

    with FileLock(folder / ".growing.lock"):  # another process may let it grow further
        have = read_manifest(folder) or have
        _check_same(folder, have, wanted)
        if wanted.layout.examples <= have.layout.examples:
            return have
        write_whole(folder / SETTINGS, wanted.to_json())
    return wanted


def read_shard(folder: Path, manifest: Manifest, number: int) -> list[Record]:
    """The records of one shard; none where it was not written yet."""
    layout = manifest.layout
    path = shard_path(folder, number)
    if not path.exists():
        return []
    records = read_records(path)
    indices = [record.certificate.index for record in records]
    # a shard that was written when more examples were asked for may hold more than this layout says
    room = replace(layout, examples=(number + 1) * layout.shard_size).images(number)
    if len(set(indices)) < len(indices) or not set(indices) <= set(room):
        raise RecordError(f"{path} holds images {indices}, expected each of {list(room)} once; move it away")
    check_model(path, records, manifest)
    return records


def check_model(path: Path, records: Sequence[Record], manifest: Manifest) -> None:
    """Refuse records of another model, as of shards that were copied together; an earlier version did not say whose."""
    if any(record.model not in ("", manifest.model) for record in records):
        raise RecordError(f"{path} holds records of a model with other weights or noise than {SETTINGS}; move it away")


def write_shard(folder: Path, number: int, records: list[Record]) -> None:
    """Write one shard as a whole."""
    ordered = sorted(records, key=lambda record: record.certificate.index)
    write_whole(shard_path(folder, number), "".join(record.to_json() + "\n" for record in ordered))


def shard_path(folder: Path, number: int) -> Path:
    """Where a shard lies."""
    return folder / f"shard-{number:05d}.jsonl"


def merge(folder: Path, *, partial: bool = False) -> Merged:
    """All records of a folder; refuses one that is not complete unless partial is asked for."""
    manifest = read_manifest(folder)
    if manifest is None:
        raise _nothing(folder)
    layout = manifest.layout
    shards = [shard_path(folder, number) for number in range(layout.shards)]
    strays = sorted(set(folder.glob("*.jsonl")) - set(shards))
    if strays:
        raise RecordError(
            f"{strays[0]} is no shard of {layout.examples} examples; certify with as many --examples as it is of, or "
            "move it away"
        )
    records = [record for number in range(layout.shards) for record in read_shard(folder, manifest, number)]
    done = {record.certificate.index for record in records}
    if not done:
        raise _nothing(folder)
    missing = tuple(index for index in layout.indices if index not in done)
    if missing and not partial:
        raise IncompleteError(
            f"{folder} has {len(done)} of {layout.examples} images, missing are {name_images(missing, layout.every)}; "
            "run the same `ars certify` again to go on, or take what is there with --partial"
        )
    return Merged(manifest, tuple(sorted(records, key=lambda record: record.certificate.index)), missing)


def name_images(indices: tuple[int, ...], every: int) -> str:
    """Name images by their stretches, the first few of them.

    >>> name_images((0, 1, 2, 5, 9, 10), 1), name_images((0, 50, 100, 500), 50)
    ('0 to 2, 5, 9 to 10', '0 to 100, 500')
    """
    stretches: list[list[int]] = []
    for index in indices:
        if stretches and index == stretches[-1][-1] + every:
            stretches[-1].append(index)
        else:
            stretches.append([index])
    names = [f"{part[0]} to {part[-1]}" if len(part) > 1 else str(part[0]) for part in stretches[:MOST_NAMED]]
    return ", ".join(names) + (" and more" if len(stretches) > MOST_NAMED else "")


def _nothing(folder: Path) -> IncompleteError:
    name = [] if folder.name == MAIN else ["--name", folder.name]
    command = shlex.join(["ars", "certify", str(folder.parent.parent), *name])
    return IncompleteError(f"{folder} holds no records; run `{command}` first")


def _check_same(folder: Path, have: Manifest, wanted: Manifest) -> None:
    old, new = ({**it.settings, "every": it.layout.every, "shard_size": it.layout.shard_size} for it in (have, wanted))
    for name in new | old:
        if old.get(name) != new.get(name):
            raise _others(folder, f"with {name}={old.get(name)}, asked for is {new.get(name)}")
    if have.model != wanted.model:
        raise _others(folder, "of a model with other weights or noise")
    if have.order != wanted.order:
        raise _others(folder, f"of {OTHER_ORDER}")
    told = difference(have.images, wanted.images)
    if not told and have.files and wanted.files and have.files != wanted.files:
        told = "files of the same names have changed"
    if told:
        raise _others(folder, f"of other images: {told}")


def _others(folder: Path, which: str) -> RecordError:
    """What is there, and what to do; where no shard is, a process may be making the first, so nothing is replaced."""
    if any(folder.glob("*.jsonl")):
        return RecordError(f"{folder} holds records {which}; certify under another --name, or remove that folder")
    return RecordError(
        f"{folder} was begun for records {which}, and has none yet; remove that folder, unless a process works on it, "
        "or certify under another --name"
    )
