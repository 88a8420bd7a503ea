"""CelebA: one attribute of a face (mouth slightly open), from random crops that keep the feature it shows in view.

The paper's crop: the short side is brought to 240, then 160x160 are cut out at random with the mouth's landmarks at
least 10 pixels inside.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from jaxtyping import Float32, UInt8

from ars.data.benchmark import PARTS, Part
from ars.data.celeba_layout import POINTS, read_faces
from ars.data.class_folders import Labels, Names, as_array
from ars.data.crops import as_bytes, box_after_resizing, cut, holding_offset, resized
from ars.data.decoded import DecodedImages
from ars.data.draws import uniforms
from ars.data.errors import DataError
from ars.data.files import Files
from ars.data.images import open_upright
from ars.data.locations import CELEBA, locate

SHORT, SIDE, MARGIN = 240, 160, 10
FEATURES = {
    "mouth": ("leftmouth", "rightmouth"),
    "eyes": ("lefteye", "righteye"),
    "nose": ("nose",),
    "face": POINTS,
}


@dataclass(frozen=True)
class FacePictures:
    """Faces, and the landmarks that must stay in view."""

    files: Files
    names: Mapping[Part, Names]
    of_class: Mapping[Part, Labels]
    points: Mapping[Part, Float32[np.ndarray, "n p 2"]]

    def labels(self, part: Part) -> Labels:
        """1 where the attribute is there."""
        return self.of_class[part]

    def view(self, part: Part, index: int, key: Sequence[int]) -> UInt8[np.ndarray, "3 160 160"]:
        """The crop that the key stands for."""
        name = self.names[part][index].decode(errors="surrogateescape")
        shown = f"{self.files.path}/{name}"
        picture = open_upright(self.files.read(name), shown)
        size, points = np.array(picture.size), self.points[part][index]
        if (points < 0).any() or (points >= size).any():
            raise DataError(
                f"the landmarks of {shown} are {points.tolist()}, outside its {size[0]}x{size[1]} pixels; "
                "mend or remove its line in the landmark file"
            )
        whole = resized(*picture.size, SHORT)
        scaled = points * (np.array(whole) / size)
        left, top = (
            holding_offset(whole[axis], SIDE, scaled[:, axis].tolist(), MARGIN, float(u))
            for axis, u in enumerate(uniforms(key, 2))
        )
        box = box_after_resizing(*picture.size, short=SHORT, left=left, top=top, side=SIDE)
        return as_bytes(cut(picture, box, SIDE, shown))


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
    faces = read_faces(files, attribute)
    columns = [POINTS.index(point) for point in FEATURES[feature]]
    chosen: dict[Part, np.ndarray[Any, np.dtype[np.intp]]] = {
        part: np.flatnonzero([its == part for its in faces.parts]) for part in PARTS
    }
    pictures = FacePictures(
        files,
        {part: as_array([faces.names[index] for index in chosen[part]]) for part in PARTS},
        {part: faces.positive[chosen[part]].astype(np.int64) for part in PARTS},
        {part: faces.landmarks[chosen[part]][:, columns] for part in PARTS},
    )
    name = attribute.replace("_", " ").lower()
    return DecodedImages(
        pictures,
        title=f"CelebA ({len(faces.names):,} {'aligned' if faces.aligned else 'in-the-wild'} images), {name}",
        class_names=(f"not {name}", name),
        side=SIDE,
        seed=seed,
        digest=f"{feature} {files.digest(faces.names[:: max(1, len(faces.names) // 1000)])}",
        workers=workers,
        device=device,
    )
