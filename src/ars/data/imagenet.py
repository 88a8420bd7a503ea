"""ImageNet in its usual layout: train/ and val/ with one folder per class, or a flat val/ with a label file.

Training shows random resized crops with flips; otherwise the 224x224 centre is shown after resizing the short side to
256. One percent of the training images is held out for validation; val/ is the test set. The paper certifies every
100th image.
"""

from collections.abc import Iterable, Sequence

import torch

from ars.data.benchmark import PARTS, Part, part_of
from ars.data.decoding import DecodedImages
from ars.data.files import Files
from ars.data.folder import Listing, class_of, class_pictures
from ars.data.locate import IMAGENET, locate
from ars.data.settings import DataError

SIDE, RESIZED, SMALLEST_BOX = 224, 256 / 224, 0.08
HELD_OUT = 0.01
LABEL_FILES = ("LOC_val_solution.csv", "val.txt", "val_labels.txt", "val_labels.csv")
CLASS_NAMES = ("LOC_synset_mapping.txt", "synset_words.txt")


def imagenet(
    *,
    size: int = SIDE,
    seed: int = 0,
    root: str | None = None,
    workers: int | None = None,
    device: torch.device | None = None,
) -> DecodedImages:
    """The benchmark, from what the recipe or ARS_DATA names."""
    files = Files(locate(root, IMAGENET, what="the ImageNet folders", key="data.root"))
    if files.has("index.csv") and not files.folders():
        listings, class_names = _sample(files)
        title = f"ImageNet sample ({len(class_names):,} images, one a class: no accuracy claim)"
    else:
        listings, class_names = _full(files)
        title = "ImageNet"
    names = [name for part in PARTS for name in listings[part][0]]
    return DecodedImages(
        class_pictures(files, listings, size=(size, size), short=round(size * RESIZED), smallest=SMALLEST_BOX),
        title=title,
        class_names=class_names,
        size=(size, size),
        seed=seed,
        digest=f"{len(names)} {files.digest(names[:: max(1, len(names) // 1000)])}",
        workers=workers,
        device=device,
    )


def _full(files: Files) -> tuple[dict[Part, Listing], Sequence[str]]:
    train, test = files.images("train"), files.images("val")
    if not train or not test:
        missing = "train" if not train else "val"
        raise DataError(
            f"{files.path} should hold class folders in train/ and val/, found no image in {missing}/; add them"
        )
    classes = sorted({class_of(name, "train") for name in train})
    number = {wnid: label for label, wnid in enumerate(classes)}
    flat = any(name.count("/") == 1 for name in test)
    test_classes = _label_file(files, test, classes) if flat else [class_of(name, "val") for name in test]
    unknown = sorted(set(test_classes) - number.keys())
    empty = sorted(number.keys() - set(test_classes))
    if unknown or empty:
        found = f"no train/{unknown[0]}" if unknown else f"no val image of class {empty[0]}"
        raise DataError(
            f"{files.path}: train/ and val/ should hold images of the same classes, found {found}; add them"
        )
    listings: dict[Part, Listing] = {"train": ([], []), "validation": ([], [])}
    for name in train:
        names, labels = listings[part_of(name, validation=HELD_OUT)]
        names.append(name)
        labels.append(number[class_of(name, "train")])
    listings["test"] = (test, [number[wnid] for wnid in test_classes])
    return listings, _class_names(files, classes)


def _sample(files: Files) -> tuple[dict[Part, Listing], Sequence[str]]:
    """One picture per class and an index.csv: every tenth is a test image, the fifth after it a validation image."""
    lines = [line.split(",") for line in files.read("index.csv").decode().splitlines()[1:]]
    listings: dict[Part, Listing] = {part: ([], []) for part in PARTS}
    for number, (name, label, *_) in enumerate(lines):
        part: Part = "test" if number % 10 == 0 else "validation" if number % 10 == 5 else "train"
        listings[part][0].append(name)
        listings[part][1].append(int(label))
    return listings, [line[3].replace("_", " ") for line in sorted(lines, key=lambda line: int(line[1]))]


def _label_file(files: Files, test: Sequence[str], classes: Sequence[str]) -> Iterable[str]:
    """The class of each file of a flat val/, from lines with a file name and the name or number of a class folder."""
    places = (*LABEL_FILES, *(f"val/{name}" for name in LABEL_FILES))
    found = next((name for name in places if files.has(name)), None)
    if found is None:
        raise DataError(
            f"{files.path}/val holds images without class folders; add one of {', '.join(LABEL_FILES)} with "
            "lines of a file name and its class (n01440764, or its number in sorted order)"
        )
    labels: dict[str, str] = {}
    for line in files.read(found).decode().replace(",", " ").splitlines():
        stem, _, rest = line.strip().partition(" ")
        label = rest.split()[0] if rest.split() else ""
        numbered = label.isdigit() and int(label) < len(classes)
        labels[stem.removesuffix(".JPEG")] = classes[int(label)] if numbered else label
    stems = [name.removeprefix("val/").removesuffix(".JPEG") for name in test]
    missing = [stem for stem in stems if stem not in labels]
    if missing:
        raise DataError(
            f"{files.path}/{found} should name the class of every file in val/, but not that of {missing[0]}; add it"
        )
    return [labels[stem] for stem in stems]


def _class_names(files: Files, classes: Sequence[str]) -> Sequence[str]:
    """The names of the classes from a file if there is one, else the names of their folders."""
    for name in CLASS_NAMES:
        if files.has(name):
            lines = files.read(name).decode().splitlines()
            words = {line.split(" ", 1)[0]: line.split(" ", 1)[-1].split(",")[0] for line in lines}
            return [words.get(wnid, wnid) for wnid in classes]
    return classes
