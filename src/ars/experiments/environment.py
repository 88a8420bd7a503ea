"""What something was made with: versions and device, as environment.json."""

import json
import os
import platform
from importlib.metadata import version
from pathlib import Path

import torch

from ars import __version__
from ars.certification.run_folder import ENVIRONMENT
from ars.certification.writing import write_whole


def write_environment(folder: Path, device: torch.device) -> None:
    """Write it into the folder."""
    packages = {name: version(name) for name in ("torch", "numpy", "scipy")}
    cores = f"{os.cpu_count()} cores, {platform.processor() or platform.machine()}"
    name = torch.cuda.get_device_name(device) if device.type == "cuda" else cores
    content = {"ars": __version__, "python": platform.python_version(), **packages, "device": name}
    write_whole(folder / ENVIRONMENT, json.dumps(content))
