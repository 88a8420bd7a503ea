"""What something was made with: versions, our own code and the device, as environment.json."""

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
from ars.certification.run_folder import ENVIRONMENT
from ars.certification.writing import write_whole


def write_environment(folder: Path, device: torch.device) -> None:
    """Write it into the folder."""
    packages = {name: version(name) for name in ("torch", "numpy", "scipy")}
    about = {"ars": __version__, "source": source_digest(), "python": platform.python_version(), **packages}
    write_whole(folder / ENVIRONMENT, json.dumps(about | _device(device)))


@cache
def source_digest() -> str:
    """A digest of the package's own Python code: what one version number has been through."""
    root = Path(str(files("ars")))
    code = hashlib.sha256()
    for path in sorted(root.rglob("*.py")):
        code.update(f"{path.relative_to(root).as_posix()}\0".encode() + path.read_bytes() + b"\0")
    return code.hexdigest()[:16]


def _device(device: torch.device) -> dict[str, str]:
    """Its name and, of a GPU, what computes on it."""
    if device.type != "cuda":
        return {"device": f"{os.cpu_count()} cores, {platform.processor() or platform.machine()}"}
    try:
        triton = {"triton": version("triton")}
    except PackageNotFoundError:
        triton = {}
    cudnn = torch.backends.cudnn.version()  # type: ignore[no-untyped-call]
    libraries = {"cuda": str(torch.version.cuda), "cudnn": str(cudnn)}
    return {"device": torch.cuda.get_device_name(device), **libraries, **triton}
