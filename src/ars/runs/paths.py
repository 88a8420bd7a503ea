"""The names of the files in a run folder and in packed results, for all code that reads or writes them."""

from hashlib import file_digest
from pathlib import Path

from ars.atomic import write_whole

RECIPE, BENCHMARK, ENVIRONMENT = "recipe.yaml", "benchmark.json", "environment.json"
CHECKPOINT, MODEL = "checkpoint.safetensors", "model.safetensors"
LOG, TIMING = "train.jsonl", "timing.json"
START = "start"  # the folder of the start: training on smaller images
CERTIFY = "certify"  # the folder of the certifications, one folder each
ATTACK = "attack"  # the folder of the attacks on certifications, one file each
AUDIT, AUDIT_FILE = "audit", "audit.json"  # the folder of the audit of the model, and its file
MAIN = "test"  # the default certification, which tables report and sweeps make
STAGES, PIPELINE = "stages.npz", "pipeline.svg"
FILES = "files.json"  # for the user's own folder, beside the records: the file of each test image
PACKED = "records.jsonl.gz"  # all records of a packed certification
VOTE, BEGUN_VOTE, MASKS = "vote.json", "vote-begun.json", "masks.npz"
SWEEP = "sweep.yaml"  # packed beside the cells of a sweep

MASK_DRAWS = 16
"""How many draws the masks of masks.npz are averaged over."""

GIVEN_SIGMA = "given_sigma"
"""Key of an imported model's recipe: the value of --sigma, null if the model has its own noise."""

NOT_OF_WEIGHTS = ("data.workers", "train.checkpoint_minutes", "train.pictures_every")
"""Keys of a recipe that change no weight."""


PRETRAINED = Path(__file__).parents[1] / "pretrained"


def find_run(folder: Path) -> Path:
    """The folder itself, or the pretrained model of that name that comes with ars, if there is no such folder.

    >>> find_run(Path("digits")).parent.name, find_run(Path("runs/ars"))
    ('pretrained', PosixPath('runs/ars'))
    """
    pretrained = PRETRAINED / folder.name
    return pretrained if folder.name == str(folder) and not folder.exists() and pretrained.is_dir() else folder


def copy_run(source: Path, folder: Path) -> None:
    """Copy a trained run, without records, to a folder; files that are there stay."""
    for name in (BENCHMARK, MODEL, RECIPE):
        if not (folder / name).exists():
            write_whole(folder / name, (source / name).read_bytes())


def records_folder(run: Path, name: str) -> Path:
    """The folder of the records of one certification of a run."""
    if name in ("", "..") or Path(name).name != name:
        raise ValueError(f"--name must be a plain folder name, got {name!r}")
    return run / CERTIFY / name


def attack_path(run: Path, name: str) -> Path:
    """The file of the attacks on one certification of a run."""
    return run / ATTACK / f"{records_folder(run, name).name}.json"


def digest_of(path: Path) -> str:
    """The SHA-256 of a file."""
    with path.open("rb") as file:
        return file_digest(file, "sha256").hexdigest()
