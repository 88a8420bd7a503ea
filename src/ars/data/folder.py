"""Your own images: a folder or zip with one folder per class, as they are or pasted on backgrounds.

With train/ and test/ (or val/) at the top, a tenth of train/ is held out for validation. With only test/ (or val/), all
images are for testing. Otherwise a tenth of the images is for validation and a tenth for testing, chosen by name.
Test images are ordered so that the classes take turns, and the first few images cover all classes.
Validation and testing show the centre of an image after resizing its short side to the size; an image of that size is
not changed.
"""

import warnings
from collections import defaultdict
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from threading import Lock

import numpy as np
import torch
from jaxtyping import UInt8
from PIL import Image

from ars.data.backgrounds import Pack, kept_pack, load_backgrounds
from ars.data.benchmark import PARTS, Benchmark, Chosen, Part, part_of, share_of, uniforms
from ars.data.crops import DRAWS, Size, centre_box, covered_box, cut, random_resized_box
from ars.data.decoding import DecodedImages, DecodingPool, Pictures, as_array, cores
from ars.data.files import Files
from ars.data.image_files import Channels, as_bytes, decode
from ars.data.locate import locate
from ars.data.pasted import Material, PastedImages
from ars.data.settings import Augment, DataError, DataWarning

SMALLEST_BOX = 0.25
VALIDATION, TEST = 0.1, 0.1
TEST_TOPS = ("test", "val")
TOPS = ("train", "val", "valid", "validation", "test")
IN_TURN = "classes in turn"  # the order of the test images; earlier versions ordered them by name
Listing = tuple[list[str], list[int]]
"""The file names of a part, and their labels."""


@dataclass(frozen=True)
class ClassPictures(Pictures):
    """Training shows what augment says: crop is a random box of at least the share smallest, flipped half of the time.

    The other parts show the centre: of a square input after resizing the short side to short.
    """

    size: Size
    short: int
    smallest: float = SMALLEST_BOX
    channels: Channels = 3
    augment: Augment = "crop"

    def view(self, part: Part, index: int, key: Sequence[int]) -> UInt8[np.ndarray, "c h w"]:
        """The model's view of a picture."""
        picture, path = self.open(part, index)
        height, width = self.size
        u = uniforms(key, DRAWS + 1)
        if part == "train" and self.augment == "crop":
            box = random_resized_box(*picture.size, u[:DRAWS], smallest=self.smallest, aspect=width / height)
        elif height == width:
            box = centre_box(*picture.size, short=self.short, side=height)
        else:
            box = covered_box(*picture.size, size=self.size)
        fast = part == "train" and self.augment == "crop"
        shown = cut(picture, box, self.size, path, fast=fast, channels=self.channels)
        flipped = part == "train" and self.augment != "none" and u[DRAWS] < 0.5
        return as_bytes(shown.transpose(Image.Transpose.FLIP_LEFT_RIGHT) if flipped else shown)


def class_pictures(
    files: Files,
    listings: Mapping[Part, Listing],
    *,
    size: Size,
    short: int | None = None,
    smallest: float = SMALLEST_BOX,
    channels: Channels = 3,
    augment: Augment = "crop",
) -> ClassPictures:
    """The pictures of listings."""
    names = {part: as_array(listing[0]) for part, listing in listings.items()}
    labels = {part: np.array(listing[1], dtype=np.int64) for part, listing in listings.items()}
    return ClassPictures(files, names, labels, size, short or size[0], smallest, channels, augment)


def class_of(name: str, under: str = "") -> str:
    """The class folder of a file.

    >>> class_of("train/n01440764/n01440764_18.JPEG", "train")
    'n01440764'
    """
    return name.removeprefix(f"{under}/" if under else "").split("/")[0]


def find_unreadable(files: Files, names: Sequence[str], *, workers: int) -> dict[str, str]:
    """The files that cannot be read, and why."""
    reading = Lock()  # threads must not share a zip archive

    def fault(name: str) -> str:
        try:
            with reading:
                content = files.read(name)
            decode(content, f"{files.path}/{name}")
        except DataError as error:
            return str(error)
        return ""

    with ThreadPoolExecutor(max(1, workers)) as pool:
        return {name: reason for name, reason in zip(names, pool.map(fault, names), strict=True) if reason}


def folder(
    *,
    root: str,
    size: int,
    backgrounds: str | None = None,
    pasted: int | None = None,
    skip_unreadable: bool = False,
    channels: Channels = 3,
    width: int | None = None,
    augment: Augment = "crop",
    seed: int = 0,
    workers: int | None = None,
    device: torch.device | None = None,
) -> Benchmark:
    """The benchmark of a folder: inputs of height size, or pasted x pasted images on size x size backgrounds."""
    files = Files(locate(root, (), what="class folders of images", key="data.root"))
    workers = cores() if workers is None else workers
    listings, classes, chosen = list_classes(files, skip_unreadable=skip_unreadable, workers=workers)
    stem = Path(root).resolve().stem
    digest = files.digest(name for part in PARTS for name in listings[part][0])
    if backgrounds is None:
        sides = (size, width or size)
        pictures = class_pictures(files, listings, size=sides, channels=channels, augment=augment)
        return DecodedImages(
            pictures,
            title=stem,
            class_names=classes,
            size=sides,
            channels=channels,
            seed=seed,
            digest=digest if augment == "crop" else f"{digest} {augment}",
            chosen=chosen,
            workers=workers,
            device=device,
        )
    if pasted is None or pasted > size:
        raise DataError(f"data.pasted, the side of pasted images, must be at most data.size = {size}, got {pasted}")
    pack = _packed(files, listings, digest, stem=stem, side=pasted, workers=workers)
    scenes = load_backgrounds(backgrounds, size)
    return PastedImages(
        {part: Material(pack.tensors[part], torch.tensor(listings[part][1]), scenes.parts[part]) for part in PARTS},
        title=f"{stem}, {pasted}x{pasted} on {scenes.name}, k = {size}",
        class_names=classes,
        seed=seed,
        digest=f"{pack.sha256} {scenes.digest}",
        chosen=chosen,
        device=device,
    )


def list_classes(
    files: Files, *, skip_unreadable: bool, workers: int
) -> tuple[dict[Part, Listing], Sequence[str], Chosen]:
    """The files of each part with their labels, the classes in the order of their names, and the test images."""
    tops = files.folders()
    test_top = next((name for name in TEST_TOPS if name in tops), None)
    # the shares of each folder's images that are held out for validation and for testing
    if test_top and "train" in tops:
        shares = {"train": (VALIDATION, 0.0), test_top: (0.0, 1.0)}
    elif tops == [test_top] or files.wrapped in TEST_TOPS:
        shares = {test_top or "": (0.0, 1.0)}
    else:
        shares = {"": (VALIDATION, TEST)}
    first, *_ = shares
    classes = files.folders(first)
    if len(classes) < 2:
        raise DataError(
            f"{files.path} should hold at least two class folders with images, or train/ and test/ (or test/ alone) "
            f"with them, found {', '.join(classes) or 'none'}"
        )
    _check_classes(files, first, classes)
    listings: dict[Part, Listing] = {part: ([], []) for part in PARTS}
    for top, (validation, test) in shares.items():
        names = files.images(top)
        present = {class_of(name, top) for name in names}
        for missing in (name for name in classes if name not in present):
            raise DataError(f"the class folder {files.path / top / missing} should hold images, found none; add some")
        for unknown in sorted(present - set(classes)) if top != first else ():
            raise DataError(f"{files.path / top / unknown} is a class that train/ does not have; add or remove it")
        if skip_unreadable:
            bad = find_unreadable(files, names, workers=workers)
            for reason in bad.values():
                warnings.warn(f"skipped: {reason}", DataWarning, stacklevel=3)
            names = [name for name in names if name not in bad]
        for name in (name for name in names if class_of(name, top) in classes):
            paths, labels = listings[part_of(name, validation=validation, test=test)]
            paths.append(name)
            labels.append(classes.index(class_of(name, top)))
    count = sum(len(names) for names, _ in listings.values())
    names, labels = listings["test"]
    if count and not names:
        raise DataError(
            f"{files.path} holds {count} images, but none falls into the tenth for testing, which is chosen by name; "
            "add some, or put the test images below test/ in class folders"
        )
    how = f"those in {test_top or files.wrapped}/"
    if shares == {"": (VALIDATION, TEST)}:
        advice = "to choose them yourself, use train/ and test/, or test/ alone"
        how = f"about a tenth of all {count}, chosen by name ({advice})"
    order = classes_in_turn(names, labels)
    tests = [names[index] for index in order]
    listings["test"] = tests, [labels[index] for index in order]
    return listings, classes, Chosen(how, tuple(tests), files.content_digest(tests), IN_TURN)


def classes_in_turn(names: Sequence[str], labels: Sequence[int]) -> list[int]:
    """An order of the names in rounds, with one name of each class per round as long as it has any.

    Hashes choose the name and the order of the classes within a round. With a fixed order, taking every n-th name of n
    classes would always give the same class.

    >>> labels = [0, 0, 0, 0, 1, 1, 1, 2]
    >>> [labels[index] for index in classes_in_turn("abcdefgh", labels)]
    [2, 0, 1, 0, 1, 1, 0, 0]
    """
    of_class: dict[int, list[int]] = defaultdict(list)
    for index in sorted(range(len(names)), key=lambda index: (share_of(names[index], "in its class"), names[index])):
        of_class[labels[index]].append(index)
    turns = [(turn, index) for indices in of_class.values() for turn, index in enumerate(indices)]
    turns.sort(key=lambda pair: (pair[0], share_of(names[pair[1]], "in its round"), pair[1]))
    return [index for _, index in turns]


def _check_classes(files: Files, top: str, classes: Sequence[str]) -> None:
    """Refuse folders such as train/ that contain folders of images but would be taken for classes."""
    for name in (name for name in classes if name.lower() in TOPS):
        inside = f"{top}/{name}" if top else name
        if any("/" in image.removeprefix(f"{inside}/") for image in files.images(inside)):
            raise DataError(
                f"{files.path / inside} holds folders with images, so it is not a class; use the layout train/CLASS/ "
                "and test/CLASS/ (or val/CLASS/), or only test/CLASS/ with nothing beside test/, or only CLASS/, or "
                "rename it"
            )


def _packed(files: Files, listings: dict[Part, Listing], digest: str, *, stem: str, side: int, workers: int) -> Pack:
    """The centre of every image at this side, decoded once."""

    def centres() -> dict[str, torch.Tensor]:
        tensors: dict[str, torch.Tensor] = {}
        for part in PARTS:
            # test views for every part: the whole centre, never flipped
            pictures = class_pictures(files, {"test": listings[part]}, size=(side, side))
            if not listings[part][0]:
                raise DataError(f"{files.path}: the {part} part should hold images, found none; add some")
            tensors[part] = torch.cat(list(DecodingPool(pictures, workers).decode_part("test")))
        return tensors

    return kept_pack(f"{stem}-pasted-{side}", centres, source=stem, side=side, listing=digest)
