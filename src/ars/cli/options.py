"""What several commands share: their parsers, and the options of certification."""

import argparse
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from ars.certification.bounds import BOUNDS
from ars.experiments.recipe import CertifySettings
from ars.theory import NORMS

Subparsers = Any


def add_command(
    commands: Subparsers,
    name: str,
    run: Callable[..., int],
    *,
    summary: str,
    teach: str,
) -> argparse.ArgumentParser:
    """A subcommand with a one-line summary and a help text that teaches."""
    parser: argparse.ArgumentParser = commands.add_parser(
        name,
        help=summary,
        description=teach,
        allow_abbrev=False,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.set_defaults(run=run)
    return parser


def add_device(parser: argparse.ArgumentParser) -> None:
    """Where to run."""
    parser.add_argument("--device", default="auto", help="auto (a GPU where there is one), cpu, cuda, cuda:1, mps, ...")


def add_certification(parser: argparse.ArgumentParser) -> None:
    """The options of CertifySettings; what is not given comes from the run's recipe."""
    group = parser.add_argument_group("certification (defaults: the run's recipe)")
    group.add_argument("--n-select", type=int, metavar="N", help="draws that choose the class")
    group.add_argument("--n-estimate", type=int, metavar="N", help="fresh draws that the radius rests on")
    group.add_argument("--alpha", type=float, help="probability that a certificate may be wrong")
    group.add_argument("--norm", choices=NORMS, help="the norm of the certified ball")
    group.add_argument("--bound", choices=BOUNDS, help="the headline bound; both are recorded")
    group.add_argument("--seed", type=int, help="of the noise")
    group.add_argument("--precision", choices=("auto", "float32", "bfloat16"), help="of the networks")


def override(settings: CertifySettings, options: argparse.Namespace) -> CertifySettings:
    """The settings with what the command line gave."""
    given = {name: getattr(options, name, None) for name in settings.__dataclass_fields__}
    return replace(settings, **{name: value for name, value in given.items() if value is not None})
