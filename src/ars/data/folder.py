"""Your own images: a folder or zip with one folder per class, as they are or pasted on backgrounds.

With train/ and test/ (or val/) at the top, a tenth of train/ is held out for validation. With only test/ (or val/), all
images are for testing. Otherwise a tenth of the images is for validation and a tenth for testing, chosen by name.
Test images are ordered so that the classes take turns, and the first few images cover all classes.
Validation and testing show the centre of an image after resizing its short side to the size; an image of that size is
not changed.
"""

import warnings
from collections.abc import Sequence
from pathlib import Path

import PIL
import torch

from ars.data.backgrounds import FILTER, SUFFIX, Pack, load_backgrounds, read_pack, write_pack
from ars.data.benchmark import PARTS, Benchmark, Chosen, Part, classes_in_turn, part_of
from ars.data.class_folders import Listing, class_of, class_pictures, find_unreadable
from ars.data.decoding import DecodedImages, DecodingPool, Request, cores
from ars.data.files import Files
from ars.data.locate import cache_to_write, cached, locate
from ars.data.pasted import Material, PastedImages
from ars.data.settings import DataError, DataWarning

SMALLEST_BOX = 0.25
VALIDATION, TEST = 0.1, 0.1
TEST_TOPS = ("test", "val")
TOPS = ("train", "val", "valid", "validation", "test")
PACKED_AT_ONCE = 64
IN_TURN = "classes in turn"  # the order of the test images; earlier versions ordered them by name


def folder(
    *,
    root: str,
    size: int,
    backgrounds: str | None = None,
    pasted: int | None = None,
    skip_unreadable: bool = False,
    seed: int = 0,
    workers: int | None = None,
    device: torch.device | None = None,
) -> Benchmark:
    """The benchmark of a folder: size x size inputs, or pasted x pasted images on size x size backgrounds."""
    files = Files(locate(root, (), what="class folders of images", key="data.root"))
    workers = cores() if workers is None else workers
    listings, classes, chosen = list_classes(files, skip_unreadable=skip_unreadable, workers=workers)
    stem = Path(root).resolve().stem
    digest = files.digest(name for part in PARTS for name in listings[part][0])
    if backgrounds is None:
        pictures = class_pictures(files, listings, side=size, short=size, smallest=SMALLEST_BOX)
        return DecodedImages(
            pictures,
            title=stem,
            class_names=classes,
            side=size,
            seed=seed,
            digest=digest,
            chosen=chosen,
            workers=workers,
            device=device,
        )
    if pasted is None or pasted > size:
        raise DataError(f"data.pasted, the side of pasted images, must be at most data.size = {size}, got {pasted}")
    pack = _packed(files, listings, digest, stem=stem, side=pasted, workers=workers)
    scenes = load_backgrounds(backgrounds, size)
    onto = scenes.parts()
    return PastedImages(
        {part: Material(pack.tensors[part], torch.tensor(listings[part][1]), onto[part]) for part in PARTS},
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
    split = "train" in tops and test_top is not None
    tested = tops == [test_top] or (files.wrapped in TEST_TOPS and not split)  # nothing to train on
    listings: dict[Part, Listing] = {part: ([], []) for part in PARTS}
    shown = ("train", str(test_top)) if split else (test_top or "",) if tested else ("",)
    classes = files.folders(shown[0])
    if len(classes) < 2:
        raise DataError(
            f"{files.path} should hold at least two class folders with images, or train/ and test/ (or test/ alone) "
            f"with them, found {', '.join(classes) or 'none'}"
        )
    _check_classes(files, shown[0], classes)
    for top in shown:
        names = files.images(top)
        present = {class_of(name, top) for name in names}
        for missing in (name for name in classes if name not in present):
            raise DataError(f"the class folder {files.path / top / missing} should hold images, found none; add some")
        for unknown in sorted(present - set(classes)) if split and top == test_top else ():
            raise DataError(f"{files.path / top / unknown} is a class that train/ does not have; add or remove it")
        if skip_unreadable:
            bad = find_unreadable(files, names, workers=workers)
            for reason in bad.values():
                warnings.warn(f"skipped: {reason}", DataWarning, stacklevel=3)
            names = [name for name in names if name not in bad]
        for name in (name for name in names if class_of(name, top) in classes):
            part = (
                "test"
                if tested or (split and top != "train")
                else part_of(name, validation=VALIDATION, test=0.0 if split else TEST)
            )
            listings[part][0].append(name)
            listings[part][1].append(classes.index(class_of(name, top)))
    count = sum(len(names) for names, _ in listings.values())
    if count and not listings["test"][0]:
        raise DataError(
            f"{files.path} holds {count} images, but none falls into the tenth for testing, which is chosen by name; "
            "add some, or put the test images below test/ in class folders"
        )
    how = f"those in {test_top or files.wrapped}/"
    if not (tested or split):
        advice = "to choose them yourself, use train/ and test/, or test/ alone"
        how = f"about a tenth of all {count}, chosen by name ({advice})"
    names, labels = listings["test"]
    order = classes_in_turn(names, labels)
    listings["test"] = [names[index] for index in order], [labels[index] for index in order]
    tests = tuple(listings["test"][0])
    return listings, classes, Chosen(how, tests, files.content_digest(tests), IN_TURN)


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
    name = f"{stem}-pasted-{side}-{digest[:8]}{SUFFIX}"
    if (kept := cached(name)) is not None:
        return read_pack(kept)
    tensors: dict[str, torch.Tensor] = {}
    for part in PARTS:
        # test views for every part: the whole centre, never flipped
        pictures = class_pictures(files, {"test": listings[part]}, side=side, short=side, smallest=1.0)
        count = len(listings[part][0])
        if not count:
            raise DataError(f"{files.path}: the {part} part should hold images, found none; add some")
        starts = range(0, count, PACKED_AT_ONCE)
        queue = [Request("test", list(range(at, min(at + PACKED_AT_ONCE, count))), ()) for at in starts]
        tensors[part] = torch.cat(list(DecodingPool(pictures, workers).decode(queue)))
    about = {"source": stem, "side": side, "filter": FILTER, "pillow": PIL.__version__, "listing": digest}
    return write_pack(cache_to_write() / name, tensors, about)
