"""What the commands share: their parsers, and the options of certification."""

import argparse
import shlex
from collections.abc import Callable, Sequence
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ars.certification.bounds import BOUNDS
from ars.certification.settings import MODES, CertifySettings
from ars.data.settings import KEYS, PLACES, Data
from ars.recipes.keys import meanings
from ars.recipes.read import DATASET, imported_model, read_recipe
from ars.runs.paths import GIVEN_SIGMA, MAIN, RECIPE
from ars.runs.provenance import begun_settings
from ars.theory import NORMS

if TYPE_CHECKING:
    from ars.workflows.imported_model import Given

Subparsers = Any


def add_command(
    commands: Subparsers, name: str, run: Callable[..., int], *, summary: str, teach: str, resumable: bool = False
) -> argparse.ArgumentParser:
    """A subcommand with a one-line summary and a help text that teaches; a resumable command keeps its work."""
    layout = argparse.RawDescriptionHelpFormatter
    parser: argparse.ArgumentParser = commands.add_parser(
        name, help=summary, description=teach, allow_abbrev=False, formatter_class=layout
    )
    parser.set_defaults(run=run, resumable=resumable, parser=parser, known=f"{parser.prog} --help", overrides=())
    return parser


def add_device(parser: argparse.ArgumentParser, *, memory: bool = False) -> None:
    """The device to run on, and how much of its memory may be used."""
    parser.add_argument("--device", default="auto", help="auto (a GPU if there is one), cpu, cuda, cuda:1, mps, ...")
    if memory:
        parser.add_argument("--memory", type=float, metavar="GIB", help="use at most this much of the GPU's memory")


def limit_memory(options: argparse.Namespace, local_rank: int | None = None) -> None:
    """Take no more than --memory of the device."""
    if options.memory is not None:
        from ars.certification import memory
        from ars.workflows.hardware import choose_device

        memory.limit_memory(choose_device(options.device, local_rank), options.memory)


def add_engine(parser: argparse.ArgumentParser, ray: str) -> None:
    """Where the work is done; ray says what Ray does with it."""
    parser.add_argument("--engine", choices=("local", "ray"), default="local", help=f"ray: {ray} (default: local)")
    parser.add_argument(
        "--gpus-per-worker", type=float, default=1.0, metavar="G",
        help="with --engine ray: the share of a GPU that a worker takes, such as 0.25 (default: 1.0)",
    )  # fmt: skip


def add_plan(parser: argparse.ArgumentParser) -> None:
    """The forecast."""
    parser.add_argument(
        "--plan", action="store_true", help="time the first batches here, print what the rest will take, and exit"
    )
    parser.add_argument(
        "--on", type=int, nargs="+", default=(1, 8, 64), metavar="N", help="with --plan: on N GPUs (default: 1 8 64)"
    )
    parser.add_argument("--price", type=float, metavar="P", help="with --plan: the price of a GPU for an hour")


def check_plan(options: argparse.Namespace) -> None:
    """Refuse a price without a plan, and numbers that cannot be."""
    if options.price is not None and not (options.plan and options.price >= 0):
        raise ValueError("--price is the price of a GPU for an hour, at least 0; it needs --plan")
    check_count("--on", min(options.on), least=1)


def add_classifier(parser: argparse.ArgumentParser) -> None:
    """The code of the classifier that a run was trained around."""
    parser.add_argument(
        "--classifier", metavar="PACKAGE:NAME", help="where to import the classifier that RUN was trained around"
    )


def add_data(group: Any) -> None:
    """The benchmark of a model that was not trained here, and the noise for a plain classifier."""
    group.add_argument("--data", metavar="KIND[:ROOT]", help="its benchmark: digits, or folder:PATH, ...")
    group.add_argument("--sigma", type=float, help="the noise for a plain classifier")
    for key, meaning in meanings(Data).items():
        if key != "kind":
            meaning = meaning.replace("%", "%%")
            group.add_argument(f"--data.{key}", dest="overrides", action=Override, metavar="VALUE", help=meaning)


def given_model(options: argparse.Namespace, model: str) -> "Given":
    """A model that was not trained here, with its benchmark."""
    from ars.workflows.imported_model import Given

    kind, colon, root = options.data.partition(":")
    place = (f"--data.root={root}",) if colon else ()
    return Given(model, (f"--data.kind={kind}", *place, *options.overrides), options.sigma)


def check_not_imported(options: argparse.Namespace, names: Sequence[str], advice: str) -> None:
    """Refuse options of a model that was not trained here, for a run folder."""
    places = tuple(f"--data.{key}=" for key in PLACES)
    extra = [f"--{name}" for name in names if getattr(options, name) is not None]
    extra += [option.partition("=")[0] for option in options.overrides if not option.startswith(places)]
    if extra:
        raise ValueError(f"{extra[0]} belongs to a model that was not trained here; {advice}")


def add_places(parser: argparse.ArgumentParser, recipe: str = "RUN's recipe") -> None:
    """Where the data of a run is now."""
    for key in PLACES:
        parser.add_argument(
            f"--data.{key}", dest="overrides", action=Override, metavar="PATH",
            help=f"where data.{key} of {recipe} is now, if it was moved",
        )  # fmt: skip


def add_certification(parser: argparse.ArgumentParser, *, defaults: str, seed: str = "seed of the noise") -> None:
    """The options of CertifySettings; defaults says where missing ones come from, seed is the help of --seed."""
    group = parser.add_argument_group(f"certification (defaults: {defaults})")
    group.add_argument("--n-select", type=int, metavar="N", help="draws that choose the class")
    group.add_argument("--n-estimate", type=int, metavar="N", help="fresh draws that the radius is computed from")
    group.add_argument(
        "--mode",
        choices=MODES,
        help="fixed: all draws; radius: as many as the radius needs; curve: until every one of --radii is decided",
    )
    group.add_argument(
        "--radii", type=radius, nargs="+", metavar="R", help="for --mode curve, such as 1/255 2/255 0.01, increasing"
    )
    group.add_argument("--tolerance", type=float, help="for --mode radius: the share of the radius that may be lost")
    group.add_argument("--alpha", type=float, help="probability that a certificate may be wrong")
    group.add_argument("--norm", choices=NORMS, help="the norm of the certified ball")
    group.add_argument("--bound", choices=BOUNDS, help="the bound to report; both are recorded")
    group.add_argument("--seed", type=int, help=seed)
    group.add_argument("--precision", choices=("auto", "float32", "bfloat16"), help="precision of the networks")
    group.add_argument(
        "--exact",
        action=argparse.BooleanOptionalAction,
        help="noise in whole units, certified in float arithmetic; --no-exact: certified in real arithmetic",
    )


def override(settings: CertifySettings, options: argparse.Namespace) -> CertifySettings:
    """The settings, overridden by the command line."""
    given = {name: getattr(options, name, None) for name in settings.__dataclass_fields__}
    given = {name: tuple(value) if isinstance(value, list) else value for name, value in given.items()}
    if given["mode"] == "curve" and not (given["radii"] or settings.radii):
        raise ValueError("--mode curve needs the radii to decide, such as --radii 1/255 2/255")
    if given["radii"] and (given["mode"] or settings.mode) != "curve":
        raise ValueError("--radii needs --mode curve; give both")
    if given["mode"] not in (None, settings.mode):  # the settings of the other mode do not apply
        settings = replace(settings, mode="fixed", radii=(), tolerance=None)
    return replace(settings, **{name: value for name, value in given.items() if value is not None})


def radius(text: str) -> float:
    """A radius as a decimal or a fraction.

    >>> radius("2/255") == 2 / 255, radius("0.5")
    (True, 0.5)
    """
    try:
        return float(Fraction(text))
    except ArithmeticError:  # 1/0, 1e999
        raise argparse.ArgumentTypeError(f"{text} is not a number; give radii such as 1/255 0.01") from None


def settings_of(folder: Path, name: str = MAIN, *, trained: bool = True) -> CertifySettings:
    """The settings that a certification was started with, else those of the run's recipe."""
    default = recipe_of(folder) if trained else CertifySettings()
    return begun_settings(folder, name) or default


def recipe_of(folder: Path, *, instead: str = "") -> CertifySettings:
    """The certification settings of a run's recipe; instead begins the advice for a model not trained here."""
    path = folder / RECIPE
    if not path.is_file():
        raise ValueError(f"{folder} is not a run folder: it has no {RECIPE}; make one with ars train")
    imported = imported_model(path)
    if imported is not None and imported["data"]["kind"] == DATASET:
        raise ValueError(f"{folder} holds records that were made in Python; call ars.evaluate(..., out=...) again")
    if imported is not None:
        hint = f" (with --sigma {imported['sigma']:g} if the model is a plain classifier)"
        raise ValueError(
            f"{folder} holds only the records of a model that was not trained here; {instead}"
            f"{certify_command(imported, folder)} continues them{'' if GIVEN_SIGMA in imported else hint}"
        )
    return read_recipe(path).certify


def certify_command(imported: dict[str, Any], folder: Path) -> str:
    """The command that continues the records of an imported model, without its data keys that have their defaults.

    >>> data = {"kind": "folder", "root": "my photos", "size": 64, "seed": 1, "pasted": None}
    >>> certify_command({"model": "my:net", "data": data, "given_sigma": 0.5}, Path("runs/m"))
    "ars certify --model my:net --sigma 0.5 --data 'folder:my photos' --data.seed 1 --out runs/m"
    """
    keys, sigma = dict(imported["data"]), imported.get(GIVEN_SIGMA)
    kind, root = keys.pop("kind"), keys.pop("root", None)
    defaults = {"seed": 0, **KEYS[kind]}
    noise = [] if sigma is None else ["--sigma", str(sigma)]
    data = ["--data", kind if root is None else f"{kind}:{root}"]
    for key, value in keys.items():
        data += [] if value == defaults.get(key) else [f"--data.{key}", str(value)]
    return shlex.join(["ars", "certify", "--model", imported["model"], *noise, *data, "--out", str(folder)])


def check_count(option: str, value: int | None, *, least: int) -> None:
    """Refuse a count below the least."""
    if value is not None and value < least:
        raise ValueError(f"{option} must be at least {least}, got {value}")


class Override(argparse.Action):
    """Collects --key value for the recipe's parser; key is the dotted name that a short option stands for."""

    def __init__(self, *args: Any, key: str | None = None, **options: Any) -> None:
        super().__init__(*args, **options)
        self.key = key

    def __call__(self, parser: object, namespace: argparse.Namespace, value: Any, option: str | None = None) -> None:
        """Append one override; an option without a value means true."""
        name = f"--{self.key}" if self.key else option
        namespace.overrides = (*namespace.overrides, f"{name}={'true' if self.nargs == 0 else value}")
