"""The device that models run on, and the record of the hardware and software."""

import hashlib
import json
import os
import platform
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from importlib.resources import files
from pathlib import Path

import torch

from ars import __version__
from ars.atomic import write_whole
from ars.data.decoding import cores
from ars.runs.paths import ENVIRONMENT


def choose_device(name: str, local_rank: int | None = None) -> torch.device:
    """The device of this name; auto is a GPU if torch sees one.

    With several processes on a machine, each takes the GPU of its local rank, unless the name has a GPU number.
    """
    if name in ("auto", "cuda") and torch.cuda.is_available():
        if local_rank is None:
            return torch.device("cuda")
        device = torch.device("cuda", local_rank % torch.cuda.device_count())
        torch.cuda.set_device(device)
        return device
    if name == "auto":
        name = "mps" if torch.backends.mps.is_available() else "cpu"
    try:
        device = torch.device(name)
        torch.zeros(1, device=device).item()  # fails on "meta", which holds no numbers
    except (RuntimeError, AssertionError) as error:
        raise ValueError(f"torch cannot use the device {name!r} here; try --device cpu") from error
    if device.type == "cuda":
        torch.cuda.set_device(device)  # kernels are launched there
    if device.type == "cpu":
        leave_a_core()
    return device


def leave_a_core() -> None:
    """Leave one core to the rest of the machine, unless OMP_NUM_THREADS sets the number of threads.

    torch's threads wait for each other after every operation. On two cores, the second thread gains 20% on an idle
    machine, but makes everything 4 to 70 times slower as soon as another program runs.
    """
    if "OMP_NUM_THREADS" not in os.environ:
        torch.set_num_threads(max(1, min(torch.get_num_threads(), cores() - 1)))


def write_environment(folder: Path, device: torch.device) -> None:
    """Write the versions of the software and the name of the device into the folder."""
    packages = {name: version(name) for name in ("torch", "numpy", "scipy")}
    about = {"ars": __version__, "source": source_digest(), "python": platform.python_version(), **packages}
    write_whole(folder / ENVIRONMENT, json.dumps(about | _device(device)))


@cache
def source_digest() -> str:
    """A digest of the package's Python code, which may change under one version number."""
    root = Path(str(files("ars")))
    code = hashlib.sha256()
    for path in sorted(root.rglob("*.py")):
        code.update(f"{path.relative_to(root).as_posix()}\0".encode() + path.read_bytes() + b"\0")
    return code.hexdigest()[:16]


def _device(device: torch.device) -> dict[str, str]:
    """The name of the device and, for a GPU, the versions of its libraries."""
    if device.type != "cuda":
        return {"device": f"{os.cpu_count()} cores, {platform.processor() or platform.machine()}"}
    try:
        triton = {"triton": version("triton")}
    except PackageNotFoundError:
        triton = {}
    cudnn = torch.backends.cudnn.version()  # type: ignore[no-untyped-call]
    libraries = {"cuda": str(torch.version.cuda), "cudnn": str(cudnn)}
    return {"device": torch.cuda.get_device_name(device), **libraries, **triton}
