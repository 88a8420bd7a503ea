"""Where data is: the places that are searched, and what each kind of data needs; loads no torch."""

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from ars.data.settings import Data, DataError, Kind

VARIABLE = "ARS_DATA"
# The names that are searched in the data folder; the first match is used.
CIFAR10 = ("cifar-10-batches-bin", "cifar-10-batches-py")
BACKGROUNDS = ("backgrounds", "backgrounds.zip", "bg96.zip", "bg96")
CELEBA = ("celeba", "celeba.zip", "celeba_8k.zip", "celeba_8k")
IMAGENET = ("imagenet", "imagenet.zip", "ILSVRC2012", "imagenet_sample1000.zip", "imagenet_sample1000")


def data_folder() -> Path | None:
    """The folder that ARS_DATA names, if it is set; a missing folder is an error."""
    value = os.environ.get(VARIABLE)
    if not value:
        return None
    folder = Path(value).expanduser()
    if not folder.is_dir():
        raise DataError(f"{VARIABLE} names {folder}, which is not a folder; create it or set {VARIABLE} to another")
    return folder


def find(names: Sequence[str]) -> Path | None:
    """The first of these names that exists in the data folder; empty folders do not count."""
    folder = data_folder()
    paths = [folder / name for name in names] if folder else []
    return next((path for path in paths if (any(path.iterdir()) if path.is_dir() else path.exists())), None)


def locate(given: str | None, names: Sequence[str], *, what: str, key: str) -> Path:
    """Where the data is: at the path that the recipe gives under key, or at the first of names in the data folder."""
    if given is not None:
        path = Path(given).expanduser()
        if not path.exists():
            raise DataError(
                f"{key} names {path.absolute()}, which does not exist; put {what} there, or give their place "
                f"({key} in a recipe, --{key} PATH for a run or sweep)"
            )
        return path
    found = find(names)
    if found is None:
        folder = data_folder()
        where = f"{folder} ({VARIABLE}) holds none of them" if folder else f"{VARIABLE} is not set"
        raise DataError(
            f"{what} were searched as {' or '.join(names)}, but {where}; put them there, or give {key} "
            "('ars data list' shows what each benchmark needs)"
        )
    return found


def cache_folders() -> list[Path]:
    """The folders for packs and moments: beside the data, else in the user's cache."""
    base = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    folder = data_folder()
    return [*([folder / "packs"] if folder else []), base / "ars"]


def cache_to_write() -> Path:
    """The first writable cache folder."""
    for folder in cache_folders():
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError:
            continue
        if os.access(folder, os.W_OK):
            return folder
    tried = " and ".join(str(folder) for folder in cache_folders())
    raise DataError(f"packs are stored in {tried}, but neither is writable; set {VARIABLE} or XDG_CACHE_HOME")


def cached(name: str) -> Path | None:
    """The file of this name in one of the cache folders, if there is one."""
    return next((folder / name for folder in cache_folders() if (folder / name).is_file()), None)


@dataclass(frozen=True)
class Source:
    """Data that a benchmark needs: its names in the data folder, and where to get it."""

    kind: Kind
    needs: str
    names: Sequence[str]
    how: str

    def path(self) -> Path | None:
        """Where it is, if it was found."""
        return find(self.names)


SOURCES = (
    Source("digits", "nothing: digits and photographs come with scikit-learn", (), ""),
    Source(
        "cifar_backgrounds", "CIFAR-10, the binary batches (184 MB)", CIFAR10[:1], "ars data get cifar10 --root DIR"
    ),
    Source(
        "cifar_backgrounds",
        "for size > 32: backgrounds, a folder with train/ and test/ images or a zip of one",
        BACKGROUNDS,
        "any photographs without the classes of CIFAR-10; the paper's are BG-20k",
    ),
    Source(
        "celeba",
        "CelebA: pictures, attributes, landmarks, partition (1.4 GB aligned, 10 GB in the wild)",
        CELEBA,
        "https://mmlab.ie.cuhk.edu.hk/projects/CelebA.html, for research only",
    ),
    Source(
        "imagenet",
        "ImageNet: train/ and val/ with class folders (150 GB)",
        IMAGENET,
        "https://image-net.org/download.php, after registration",
    ),
    Source("folder", "your own images, one folder per class (data.root)", (), ""),
)


def size_of(path: Path) -> int:
    """Bytes of a file, or of all files in a folder."""
    files = [path] if path.is_file() else [file for file in path.rglob("*") if file.is_file()]
    return sum(file.stat().st_size for file in files)


def check(settings: Data) -> Iterator[str]:
    """Read all data of the benchmark, and yield lines about what is correct; the first fault is an error."""
    from ars.data.benchmark import open_benchmark
    from ars.data.decoding import DecodedImages
    from ars.data.files import Files
    from ars.data.image_files import decode

    benchmark = open_benchmark(settings)
    train, validation, test = benchmark.train_size(), benchmark.size("validation"), benchmark.size("test")
    sizes = f"{train:,} training, {validation:,} validation and {test:,} test"
    yield f"{benchmark.title}: {sizes} images of {benchmark.shape[2]}x{benchmark.shape[1]}"
    if isinstance(benchmark, DecodedImages):
        yield f"{benchmark.title}: {benchmark.check():,} images read"
    scenes = settings.backgrounds or find(BACKGROUNDS)
    if settings.kind == "cifar_backgrounds" and scenes and not str(scenes).endswith(".safetensors"):
        files = Files(Path(scenes).expanduser())
        names = files.images()
        for name in names:
            decode(files.read(name), f"{files.path}/{name}")
        yield f"{scenes}: {len(names):,} backgrounds read"


def check_packs() -> Iterator[str]:
    """Compare every pack with its SHA-256."""
    from ars.data.backgrounds import SUFFIX, read_pack

    for path in sorted(path for folder in cache_folders() for path in folder.glob(f"*{SUFFIX}")):
        pack = read_pack(path)
        counts = ", ".join(f"{len(tensor):,} {name}" for name, tensor in pack.tensors.items())
        yield f"{path}: {counts} images, SHA-256 {pack.sha256}"
