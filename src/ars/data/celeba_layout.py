"""The files of CelebA: pictures, attributes, landmarks, and the partition or the identities.

Read are the public text files (also as CSV), in the root or in Anno/, Eval/ and Img/ below it, and a single index.csv
with all columns.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Float32

from ars.data.benchmark import Part
from ars.data.errors import DataError
from ars.data.files import IMAGE_SUFFIXES, Files
from ars.data.holding_out import part_of
from ars.data.images import open_upright

POINTS = ("lefteye", "righteye", "nose", "leftmouth", "rightmouth")
# Aligned pictures have this size, and the middle between the eyes of almost all of them lies here.
ALIGNED, EYES = (178, 218), (89.0, 112.0)
TOLERANCE, PROBES = 12.0, 64
PAIRS = (("img_celeba", "list_landmarks_celeba"), ("img_align_celeba", "list_landmarks_align_celeba"))
PARTITION: dict[str, Part] = {"0": "train", "1": "validation", "2": "test"}


@dataclass(frozen=True)
class Faces:
    """Pictures that have attributes, landmarks and a part, in the order of their names."""

    files: Files
    names: Sequence[str]
    positive: np.ndarray[Any, np.dtype[np.bool_]]
    landmarks: Float32[np.ndarray, "n 5 2"]
    parts: Sequence[Part]
    aligned: bool


@dataclass(frozen=True)
class Table:
    """Rows of values by picture."""

    path: str
    columns: Sequence[str]
    rows: Mapping[str, Sequence[str]]

    def column(self, name: str) -> dict[str, str]:
        """One column by picture; names are compared without case, blanks as underscores."""
        wanted = name.strip().lower().replace(" ", "_")
        places = [place for place, column in enumerate(self.columns) if column.lower() == wanted]
        if not places:
            raise DataError(f"{self.path} has no column {name!r}; it has {', '.join(self.columns)}")
        return {picture: values[places[0]] for picture, values in self.rows.items()}


def read_faces(files: Files, attribute: str) -> Faces:
    """All pictures with what is known of them, refused where pictures and landmarks are of different frames."""
    if "index.csv" in (listed := set(files.names())):
        index = _table(files, "index.csv")
        prefix, attributes, landmarks = "", index, index
        split, identity = index.column("split"), index.column("identity")
        parts = {name: _part(split[name], identity[name]) for name in index.rows}
    else:
        prefix, landmark_name = _pair(listed, files)
        attributes = _named(files, listed, "list_attr_celeba")
        landmarks = _named(files, listed, landmark_name)
        parts = _public_parts(files, listed)
    value = attributes.column(attribute)
    names = [name for name in sorted(landmarks.rows) if name in value and name in parts and prefix + name in listed]
    if not names:
        raise DataError(
            f"{files.path} lists {len(landmarks.rows)} faces, but has no picture of one in {prefix or 'it'}"
        )
    axes = [landmarks.column(f"{point}_{axis}") for point in POINTS for axis in "xy"]
    try:
        points = np.array([[float(axis[name]) for axis in axes] for name in names], np.float32).reshape(-1, 5, 2)
    except ValueError as error:
        raise DataError(f"{landmarks.path} should hold numbers ({error}); get it again") from error
    aligned = _check_frames(files, [prefix + name for name in names], points, landmarks.path)
    positive = np.array([value[name] == "1" for name in names])
    return Faces(files, [prefix + name for name in names], positive, points, [parts[name] for name in names], aligned)


def _check_frames(files: Files, names: Sequence[str], points: Float32[np.ndarray, "n 5 2"], path: str) -> bool:
    """Whether the pictures are aligned; their landmarks must be so too."""
    probes = np.unique(np.linspace(0, len(names) - 1, PROBES).astype(int))
    sizes = {open_upright(files.read(names[probe]), names[probe]).size for probe in probes}
    pictures_aligned = sizes == {ALIGNED}
    distance = np.linalg.norm(points[:, :2].mean(axis=1) - np.array(EYES, np.float32), axis=1)
    landmarks_aligned = bool(np.median(distance) < TOLERANCE)
    if pictures_aligned == landmarks_aligned:
        return pictures_aligned
    width, height = ALIGNED
    frame = (f"aligned ({width}x{height})", f"in the wild ({len(sizes)} sizes among {len(probes)})")
    pictures, landmarks = frame if pictures_aligned else frame[::-1]
    needed = PAIRS[1][1] if pictures_aligned else PAIRS[0][1]
    raise DataError(
        f"the pictures of {files.path} are {pictures}, but the landmarks of {path} are those of pictures "
        f"{landmarks.split(' (')[0]}, so the mouth would lie off the face; put {needed}.txt there instead"
    )


def _pair(listed: Iterable[str], files: Files) -> tuple[str, str]:
    """The folder of pictures with its own landmark file, else whichever of each there is."""
    folders: dict[str, str] = {}
    for name in listed:
        parts = name.split("/")
        for folder, _ in PAIRS:
            if folder in parts[:-1] and name.lower().endswith(IMAGE_SUFFIXES):
                folders.setdefault(folder, name.removesuffix(parts[-1]))
    stems = {name.split("/")[-1].rsplit(".", 1)[0] for name in listed}
    for folder, landmarks in PAIRS:
        if folder in folders and landmarks in stems:
            return folders[folder], landmarks
    have = [landmarks for _, landmarks in PAIRS if landmarks in stems]
    if not folders or not have:
        missing = "pictures (img_celeba/ or img_align_celeba/)" if not folders else f"landmarks ({PAIRS[0][1]}.txt)"
        raise DataError(f"{files.path} should hold CelebA in its public layout or an index.csv, but has no {missing}")
    return next(iter(folders.values())), have[0]


def _named(files: Files, listed: Iterable[str], stem: str) -> Table:
    found = [name for name in listed if name.split("/")[-1] in (f"{stem}.txt", f"{stem}.csv")]
    if not found:
        raise DataError(f"{files.path} should hold {stem}.txt (or .csv), in it or in Anno/ or Eval/; it does not")
    return _table(files, min(found))


def _public_parts(files: Files, listed: Iterable[str]) -> dict[str, Part]:
    try:
        partition = _named(files, listed, "list_eval_partition")
    except DataError:
        identities = _named(files, listed, "identity_CelebA")
        return {name: part_of(row[0], validation=0.1, test=0.1) for name, row in identities.rows.items()}
    return {name: PARTITION[row[0]] for name, row in partition.rows.items() if row[0] in PARTITION}


def _part(split: str, identity: str) -> Part:
    return "test" if split == "test" else part_of(identity, validation=0.1)


def _table(files: Files, name: str) -> Table:
    """A table as text or CSV, with or without a first line that counts and a line of column names."""
    path = f"{files.path}/{name}"
    text = files.read(name).decode("utf-8", errors="replace").splitlines()
    lines = [line.split(",") if name.endswith(".csv") else line.split() for line in text if line.strip()]
    rows = {line[0]: line[1:] for line in lines if line[0].lower().endswith(IMAGE_SUFFIXES)}
    widths = {len(row) for row in rows.values()}
    if len(widths) != 1:
        raise DataError(
            f"{path} should hold a row of the same length for every picture, found lengths {sorted(widths)}"
        )
    width = widths.pop()
    header = next((line for line in lines[:2] if len(line) >= width and line[0] not in rows), [""] * width)
    return Table(path, header[len(header) - width :], rows)
