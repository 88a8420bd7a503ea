"""CelebA: one attribute of a face (mouth slightly open), from random crops that keep the relevant feature in view.

The paper's crop: the short side is resized to 240, then 160x160 pixels are cropped at random with the mouth's landmarks
at least 10 pixels inside.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Float32, UInt8

from ars.data.benchmark import PARTS, Part, part_of, uniforms
from ars.data.crops import box_after_resizing, cut, holding_offset, resized
from ars.data.decoding import DecodedImages, Pictures, as_array
from ars.data.files import IMAGE_SUFFIXES, Files
from ars.data.image_files import as_bytes, open_upright
from ars.data.locate import CELEBA, locate
from ars.data.settings import DataError

POINTS = ("lefteye", "righteye", "nose", "leftmouth", "rightmouth")
# The size of aligned pictures, and the midpoint between the eyes in almost all of them.
ALIGNED, EYES = (178, 218), (89.0, 112.0)
TOLERANCE, PROBES = 12.0, 64
PAIRS = (("img_celeba", "list_landmarks_celeba"), ("img_align_celeba", "list_landmarks_align_celeba"))
PARTITION: dict[str, Part] = {"0": "train", "1": "validation", "2": "test"}


SHORT, SIDE, MARGIN = 240, 160, 10
FEATURES = {"mouth": ("leftmouth", "rightmouth"), "eyes": ("lefteye", "righteye"), "nose": ("nose",), "face": POINTS}


@dataclass(frozen=True)
class FacePictures(Pictures):
    """Faces, labelled 1 if they have the attribute, and the landmarks that must stay in view."""

    points: Mapping[Part, Float32[np.ndarray, "n p 2"]]

    def view(self, part: Part, index: int, key: Sequence[int]) -> UInt8[np.ndarray, "3 160 160"]:
        """The crop determined by the key."""
        picture, path = self.open(part, index)
        size, points = np.array(picture.size), self.points[part][index]
        if (points < 0).any() or (points >= size).any():
            raise DataError(
                f"the landmarks of {path} are {points.tolist()}, outside its {size[0]}x{size[1]} pixels; "
                "fix or remove its line in the landmark file"
            )
        whole = resized(*picture.size, SHORT)
        scaled = points * (np.array(whole) / size)
        left, top = (
            holding_offset(whole[axis], SIDE, scaled[:, axis].tolist(), MARGIN, float(u))
            for axis, u in enumerate(uniforms(key, 2))
        )
        box = box_after_resizing(*picture.size, short=SHORT, left=left, top=top, side=SIDE)
        return as_bytes(cut(picture, box, SIDE, path))


@dataclass(frozen=True)
class Table:
    """A table with one row of values per picture."""

    path: str
    columns: Sequence[str]
    rows: Mapping[str, Sequence[str]]

    def column(self, name: str) -> dict[str, str]:
        """One column by picture; case is ignored, and blanks count as underscores."""
        wanted, columns = name.strip().lower().replace(" ", "_"), [column.lower() for column in self.columns]
        if wanted not in columns:
            raise DataError(f"{self.path} has no column {name!r}; it has {', '.join(self.columns)}")
        place = columns.index(wanted)
        return {picture: values[place] for picture, values in self.rows.items()}


def read_faces(files: Files, attribute: str, feature: str) -> tuple[FacePictures, list[str], bool]:
    """The faces with their metadata, the names of all in order, and whether they are aligned.

    Pictures and landmarks in different coordinate frames are refused.
    """
    if "index.csv" in (listed := set(files.names())):
        index = _table(files, "index.csv")
        prefix, attributes, landmarks = "", index, index
        split, identity = index.column("split"), index.column("identity")
        part_of_face = {
            name: "test" if split[name] == "test" else part_of(identity[name], validation=0.1) for name in index.rows
        }
    else:
        prefix, landmark_name = _pair(files, listed)
        attributes = _named(files, listed, "list_attr_celeba")
        landmarks = _named(files, listed, landmark_name)
        part_of_face = _public_parts(files, listed)
    value = attributes.column(attribute)
    known = value.keys() & part_of_face.keys()
    names = [name for name in sorted(landmarks.rows) if name in known and prefix + name in listed]
    if not names:
        raise DataError(
            f"{files.path} lists {len(landmarks.rows)} faces, but has no picture of any in {prefix or 'it'}; add them"
        )
    axes = [landmarks.column(f"{point}_{axis}") for point in POINTS for axis in "xy"]
    try:
        points = np.array([[float(axis[name]) for axis in axes] for name in names], np.float32).reshape(-1, 5, 2)
    except ValueError as error:
        raise DataError(f"{landmarks.path} should hold numbers ({error}); download it again") from error
    pictures = [prefix + name for name in names]
    aligned = _check_frames(files, pictures, points, landmarks.path)
    positive = np.array([value[name] == "1" for name in names], dtype=np.int64)
    columns = [POINTS.index(point) for point in FEATURES[feature]]
    of_part = {part: [n for n, name in enumerate(names) if part_of_face[name] == part] for part in PARTS}
    faces = FacePictures(
        files,
        {part: as_array([pictures[number] for number in of_part[part]]) for part in PARTS},
        {part: positive[of_part[part]] for part in PARTS},
        {part: points[of_part[part]][:, columns] for part in PARTS},
    )
    return faces, pictures, aligned


def _check_frames(files: Files, names: Sequence[str], points: Float32[np.ndarray, "n 5 2"], path: str) -> bool:
    """Whether the pictures are aligned; refused if their landmarks disagree."""
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
        f"the pictures of {files.path} are {pictures}, but the landmarks of {path} are for pictures "
        f"{landmarks.split(' (')[0]}, so they would miss the face; put {needed}.txt there instead"
    )


def _pair(files: Files, listed: Iterable[str]) -> tuple[str, str]:
    """The folder of the pictures, and the name of their landmark file."""
    stems = {name.split("/")[-1].rsplit(".", 1)[0] for name in listed}
    found = []
    for folder, landmarks in PAIRS:
        pictures = [name for name in listed if f"/{folder}/" in f"/{name}" and name.lower().endswith(IMAGE_SUFFIXES)]
        if pictures and landmarks in stems:
            return min(pictures).rsplit("/", 1)[0] + "/", landmarks
        found += [*([f"{folder}/"] if pictures else []), *([f"{landmarks}.txt"] if landmarks in stems else [])]
    wanted = " or ".join(f"{folder}/ with {landmarks}.txt" for folder, landmarks in PAIRS)
    have = " and ".join(found) or "none of them"
    raise DataError(f"{files.path} should hold {wanted}, or an index.csv, found {have}")


def _named(files: Files, listed: Iterable[str], stem: str) -> Table:
    found = [name for name in listed if name.split("/")[-1] in (f"{stem}.txt", f"{stem}.csv")]
    if not found:
        raise DataError(f"{files.path} should hold {stem}.txt (or .csv), also in Anno/ or Eval/, but does not; add it")
    return _table(files, min(found))


def _public_parts(files: Files, listed: Iterable[str]) -> dict[str, Part]:
    try:
        partition = _named(files, listed, "list_eval_partition")
    except DataError:
        identities = _named(files, listed, "identity_CelebA")
        return {name: part_of(row[0], validation=0.1, test=0.1) for name, row in identities.rows.items()}
    return {name: PARTITION[row[0]] for name, row in partition.rows.items() if row[0] in PARTITION}


def _table(files: Files, name: str) -> Table:
    """A table as text or CSV, with or without a first line with the row count and a line of column names."""
    path = f"{files.path}/{name}"
    text = files.read(name).decode("utf-8", errors="replace").splitlines()
    lines = [line.split(",") if name.endswith(".csv") else line.split() for line in text if line.strip()]
    rows = {line[0]: line[1:] for line in lines if line[0].lower().endswith(IMAGE_SUFFIXES)}
    widths = {len(row) for row in rows.values()}
    if len(widths) != 1:
        raise DataError(
            f"{path} should hold a row of the same length for every picture, found lengths {sorted(widths)}; fix it"
        )
    width = widths.pop()
    header = next((line for line in lines[:2] if len(line) >= width and line[0] not in rows), [""] * width)
    return Table(path, header[len(header) - width :], rows)


def celeba(
    *,
    attribute: str = "Mouth_Slightly_Open",
    feature: str = "mouth",
    seed: int = 0,
    root: str | None = None,
    workers: int | None = None,
    device: torch.device | None = None,
) -> DecodedImages:
    """The benchmark, from what the recipe or ARS_DATA names."""
    if feature not in FEATURES:
        raise DataError(f"data.feature must be one of {', '.join(FEATURES)}, got {feature!r}")
    files = Files(locate(root, CELEBA, what="the CelebA files", key="data.root"))
    faces, names, aligned = read_faces(files, attribute, feature)
    name = attribute.replace("_", " ").lower()
    return DecodedImages(
        faces,
        title=f"CelebA ({len(names):,} {'aligned' if aligned else 'in-the-wild'} images), {name}",
        class_names=(f"not {name}", name),
        size=(SIDE, SIDE),
        seed=seed,
        digest=f"{feature} {files.digest(names[:: max(1, len(names) // 1000)])}",
        workers=workers,
        device=device,
    )
