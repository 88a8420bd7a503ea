"""What each benchmark needs, what of it is present, and whether that is whole; no torch until something is read."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from ars.data.errors import DataError
from ars.data.locations import BACKGROUNDS, CELEBA, CIFAR10, IMAGENET, cache_folders, find
from ars.data.settings import Data, Kind


@dataclass(frozen=True)
class Source:
    """Something that a benchmark needs: its names in the data folder, and where it comes from."""

    kind: Kind
    needs: str
    names: Sequence[str]
    how: str

    def path(self) -> Path | None:
        """Where it lies, if it does."""
        return find(self.names)


SOURCES = (
    Source("digits", "nothing: digits and photographs come with scikit-learn", (), ""),
    Source(
        "cifar_backgrounds",
        "CIFAR-10, the binary batches (184 MB)",
        CIFAR10[:1],
        "ars data get cifar10 --root DIR",
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
    Source("folder", "your own images, a folder a class (data.root)", (), ""),
)


def size_of(path: Path) -> int:
    """Bytes of a file, or of all files in a folder."""
    return path.stat().st_size if path.is_file() else sum(it.stat().st_size for it in path.rglob("*") if it.is_file())


def check(settings: Data) -> Iterator[str]:
    """Read everything that the benchmark reads, and say what was found right; the first fault is an error."""
    from ars.data.decoded import DecodedImages
    from ars.data.files import Files
    from ars.data.opening import open_benchmark
    from ars.data.unreadable import find_unreadable

    benchmark = open_benchmark(settings)
    train, validation, test = benchmark.train_size(), benchmark.size("validation"), benchmark.size("test")
    sizes = f"{train:,} training, {validation:,} validation and {test:,} test"
    yield f"{benchmark.title}: {sizes} images of {benchmark.shape[2]}x{benchmark.shape[1]}"
    if isinstance(benchmark, DecodedImages):
        yield f"{benchmark.title}: {benchmark.check():,} images read"
    scenes = settings.backgrounds or find(BACKGROUNDS)
    if settings.kind == "cifar_backgrounds" and scenes and not str(scenes).endswith(".safetensors"):
        files = Files(Path(scenes))
        names = files.images()
        for reason in find_unreadable(files, names).values():
            raise DataError(reason)
        yield f"{scenes}: {len(names):,} backgrounds read"


def check_packs() -> Iterator[str]:
    """Compare every pack with its SHA-256."""
    from ars.data.packs import SUFFIX, read_pack

    for path in sorted(path for folder in cache_folders() for path in folder.glob(f"*{SUFFIX}")):
        pack = read_pack(path)
        counts = ", ".join(f"{len(tensor):,} {name}" for name, tensor in pack.tensors.items())
        yield f"{path}: {counts} images, SHA-256 {pack.sha256}"
