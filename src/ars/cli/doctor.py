"""ars doctor: what this machine offers, and how fast it draws."""

import argparse
import json
import platform
import time
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

from ars import __version__
from ars.cli.options import Subparsers, add_command, add_device

if TYPE_CHECKING:
    import torch

TEACH = """\
Print the versions of the software, the device that ars would use, what makes it fast there, where its data is, and how
many noisy draws per second it makes with the models that come with ars. Put the output into a report of a problem.

  ars doctor
  ars doctor --device cpu --json
"""
PACKAGES = ("torch", "numpy", "scipy", "triton")
EXTRAS = {"ray": "many machines", "tensorboard": "training curves"}
MODELS = {"digits-cohen": "one look", "digits": "two looks, with a mask"}
SECONDS = 2.0
DRAWS = 1000


def add_to(commands: Subparsers) -> None:
    """Add the command."""
    parser = add_command(commands, "doctor", run, summary="what this machine offers", teach=TEACH)
    parser.add_argument("--json", action="store_true", help="print JSON")
    add_device(parser)


def run(options: argparse.Namespace) -> int:
    """Print everything, line by line as it is found."""
    found: dict[str, str] = {}

    def tell(name: str, text: str) -> None:
        found[name] = text
        if not options.json:
            print(f"{name:<12} {text}", flush=True)

    tell("ars", f"{__version__} in {Path(__file__).parents[1]}")
    tell("python", f"{platform.python_version()}, {platform.platform()}")
    tell("packages", ", ".join(f"{name} {_version(name)}" for name in PACKAGES))
    tell("extras", ", ".join(f"{name} ({use}): {_version(name)}" for name, use in EXTRAS.items()))
    import torch

    from ars.data.decoding import cores
    from ars.data.locate import SOURCES
    from ars.kernels.backend import can_compile
    from ars.kernels.precision import choose_precision
    from ars.workflows.hardware import choose_device

    device = choose_device(options.device)
    on_gpu = device.type == "cuda"
    name = torch.cuda.get_device_name(device) if on_gpu else f"{cores()} cores, {torch.get_num_threads()} used by torch"
    tell("device", f"{device}: {name}")
    if on_gpu:
        free, total = torch.cuda.mem_get_info(device)
        tell("memory", f"{free / 2**30:.1f} of {total / 2**30:.1f} GiB free")
    tell("precision", f"{choose_precision('auto', device)} for --precision auto")
    if on_gpu:
        tell("compiler", "found" if can_compile() else "none: networks run without fused GPU programs")
    missing = dict.fromkeys(source.kind for source in SOURCES if source.names and source.path() is None)
    tell("data", f"not found: {', '.join(missing)}; see 'ars data list'" if missing else "all found")
    for model, looks in MODELS.items():
        tell(model, f"{_draws_per_second(model, device):,.0f} draws per second at 24x24 ({looks})")
    if options.json:
        print(json.dumps(found, indent=1))
    return 0


def _version(name: str) -> str:
    """The version of an installed package."""
    try:
        return version(name) if find_spec(name) else "not installed"
    except PackageNotFoundError:
        return "not installed"


def _draws_per_second(name: str, device: "torch.device") -> float:
    """The draws of some seconds with a model that comes with ars, after the first ones."""
    from ars.certification.certifier import Certifier
    from ars.certification.settings import CertifySettings
    from ars.data import Data, open_benchmark
    from ars.workflows.load import load

    image, _ = open_benchmark(Data(), device).examples("test", [0])
    certifier = Certifier(load(name, device=device), CertifySettings(precision="auto"), expect=100)
    certifier.votes(image, n=DRAWS)
    began, drawn = time.perf_counter(), 0
    while time.perf_counter() - began < SECONDS:
        certifier.votes(image, n=DRAWS)
        drawn += DRAWS
    return drawn / (time.perf_counter() - began)
