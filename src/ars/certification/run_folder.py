"""What is in a run folder and in results that are packed from one; all that write or read them take it from here."""

from hashlib import file_digest
from pathlib import Path

RECIPE, BENCHMARK, ENVIRONMENT = "recipe.yaml", "benchmark.json", "environment.json"
CHECKPOINT, MODEL = "checkpoint.safetensors", "model.safetensors"
LOG, TIMING = "train.jsonl", "timing.json"
START = "start"  # the folder of the training that a classifier begins with
CERTIFY = "certify"  # the folder of its certifications, a folder each
MAIN = "test"  # the certification that is meant where none is named: the one that tables report and sweeps make
STAGES, PIPELINE = "stages.npz", "pipeline.svg"
FILES = "files.json"  # of a folder of one's own, beside the records: the file of each test image
PACKED = "records.jsonl.gz"  # of a certification that was packed, all of its records
VOTE, BEGUN_VOTE, MASKS = "vote.json", "vote-begun.json", "masks.npz"
SWEEP = "sweep.yaml"  # packed beside the cells of a sweep

MASK_DRAWS = 16
"""How many draws the masks of masks.npz are averaged over."""

GIVEN_SIGMA = "given_sigma"
"""Key of the recipe of a model that was not trained here: the noise that --sigma gave it, null where it has its own."""

NOT_OF_WEIGHTS = ("data.workers", "train.checkpoint_minutes", "train.pictures_every")
"""Keys of its recipe's training and data that change no weight."""


def records_folder(run: Path, name: str) -> Path:
    """Where the records of one certification of a run lie."""
    if name in ("", "..") or Path(name).name != name:
        raise ValueError(f"--name must be a plain folder name, got {name!r}")
    return run / CERTIFY / name


def digest_of(path: Path) -> str:
    """The SHA-256 of a file."""
    with path.open("rb") as file:
        return file_digest(file, "sha256").hexdigest()
