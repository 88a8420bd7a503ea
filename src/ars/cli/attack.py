"""ars attack: try to break the certificates of a run."""

import argparse
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from ars.cli.errors import tell
from ars.cli.interrupt import stoppable
from ars.cli.options import (
    Subparsers,
    add_classifier,
    add_command,
    add_device,
    add_places,
    check_count,
    limit_memory,
    recipe_of,
)
from ars.cli.views import View, duration
from ars.runs.attacks import FAMILY_LEVEL, IMAGE_LEVEL, Attacks
from ars.runs.paths import MAIN, attack_path
from ars.theory.rounding import as_number
from ars.workflows.processes import one_process

if TYPE_CHECKING:
    from ars.workflows.attack import Plan

TEACH = """\
Attack the certified images of a run at multiples of each image's own radius, in the certified norm. Each kind of attack
proposes an image, and fresh draws decide whether another class leads there. Below 1 no label should fall. Far above 1
most should, or the attacks are too weak to say anything. An interrupted attack resumes where it stopped.

  gradient    follows the gradient through the noise, averaged over draws; its first start aims at the runner-up
  transfer    follows the gradient of the model without noise
  search      tries random patches, and needs no gradient

  ars attack runs/ars                                         all certified images, to runs/ars/attack/test.json
  ars attack runs/ars --examples 20 --times .99,4
  ars attack runs/ars --name more --kinds gradient --steps 100 --draws 256

The exit code is 1 if a label has fallen within its certified radius: with probability at least .999, that does not
happen while all certificates are true.
"""
NOTICE = "ars: stopping after the current images; press Ctrl-C again to stop at once and drop their attacks"


def add_to(commands: Subparsers) -> None:
    """Add the command."""
    summary = "try to break the certificates of a run"
    parser = add_command(commands, "attack", run, summary=summary, teach=TEACH, resumable=True)
    parser.add_argument("folder", type=Path, metavar="RUN", help="a certified run folder made by ars train")
    parser.add_argument("--name", default=MAIN, help=f"which certificates: RUN/certify/NAME (default: {MAIN})")
    parser.add_argument("--examples", type=int, metavar="N", help="only the first N certified images; you can add more")
    parser.add_argument("--times", type=numbers, metavar="T,T", help="multiples of the radius (default: .99,2,4,8)")
    parser.add_argument("--kinds", type=names, metavar="K,K", help="default: gradient,transfer,search")
    parser.add_argument("--steps", type=int, metavar="N", help="gradient steps per start (default: 30)")
    parser.add_argument("--draws", type=int, metavar="N", help="noisy draws per step (default: 64)")
    parser.add_argument("--restarts", type=int, metavar="N", help="starts per image (default: 2)")
    parser.add_argument("--verdict-draws", type=int, metavar="N", help="draws that judge a candidate (default: 1000)")
    parser.add_argument("--seed", type=int, help="seed of attack and verdict (default: that of the certificates + 1)")
    parser.add_argument("--json", action="store_true", help="print the content of the file")
    add_classifier(parser)
    add_places(parser)
    add_device(parser, memory=True)


def run(options: argparse.Namespace) -> int:
    """Attack, showing progress, and print the table."""
    one_process("ars attack")
    check_count("--examples", options.examples, least=1)
    recipe_of(options.folder, instead="ars attack cannot load it, and ")
    limit_memory(options)
    from ars.audit.attack import AttackSettings
    from ars.workflows.attack import Plan

    given = {name: getattr(options, name) for name in ("steps", "draws", "restarts")}
    tries = AttackSettings(**{name: value for name, value in given.items() if value is not None})
    given = {"times": options.times, "kinds": options.kinds, "draws": options.verdict_draws, "seed": options.seed}
    plan = Plan(attack=tries, **{name: value for name, value in given.items() if value is not None})
    attacks = attack_with_progress(
        options.folder, plan, options.device, name=options.name, examples=options.examples,
        classifier=options.classifier, moved=options.overrides,
    )  # fmt: skip
    path = attack_path(options.folder, options.name)
    print(path.read_text(encoding="utf-8"), end="") if options.json else print_attacks(attacks, str(options.folder))
    if attacks.broken:
        tell(f"ars: {warning(attacks)}", file=sys.stderr)
    return 1 if attacks.broken else 0


def attack_with_progress(
    folder: Path,
    plan: "Plan",
    device_name: str,
    *,
    name: str = MAIN,
    examples: int | None = None,
    classifier: str | None = None,
    moved: Sequence[str] = (),
) -> Attacks:
    """Attack, and print a line with a forecast every few seconds."""
    from ars.workflows.attack import attack_run
    from ars.workflows.hardware import choose_device

    view, began, first = View(str(folder)), time.monotonic(), -1

    def report(attacks: Attacks) -> None:
        nonlocal first, began
        done, total = len(attacks.images), attacks.total
        if first < 0:
            first, began = done, time.monotonic()
        left = (time.monotonic() - began) / (done - first) * (total - done) if done > first else None
        rest = "" if not left else f", {duration(left)} left"
        view.update(done, total, f"{done} of {total} certified images attacked{rest}", "", last=done == total)

    with stoppable(NOTICE) as stop:
        return attack_run(
            folder, plan, name=name, examples=examples, device=choose_device(device_name), classifier=classifier,
            moved=moved, report=report, stop=stop,
        )  # fmt: skip


def print_attacks(attacks: Attacks, title: str) -> None:
    """The table: how many labels have lost the vote at each multiple of the radius."""
    from rich.console import Console
    from rich.markup import escape
    from rich.table import Table

    table = Table(title=escape(title), title_justify="left")
    for column in ("times r", "images", "lost", "significant", *attacks.kinds):
        table.add_column(column, justify="right", no_wrap=True)
    count = len(attacks.images)
    for times in attacks.times:
        lost, by_kind = attacks.lost(times), (attacks.lost(times, kind) for kind in attacks.kinds)
        cells = (f"{times:g}", count, f"{lost} ({lost / count:.0%})", attacks.significant(times), *by_kind)
        table.add_row(*map(str, cells))
    console = Console()
    console.print(table)
    console.print(
        "lost: another class leads the fresh votes at the strongest attack; significant: the label has lost its lead "
        f"at level {IMAGE_LEVEL:g}; then the votes lost to each kind of attack",
        highlight=False,
    )


def warning(attacks: Attacks) -> str:
    """What it means that labels fell within their radius."""
    images, alpha = ", ".join(f"{target.index}" for target in attacks.broken), attacks.settings["alpha"]
    several = len(attacks.broken) > 1
    return (
        f"the certificate{'s' if several else ''} of image{'s' if several else ''} {images} failed: the label lost its "
        f"lead within the certified radius (at most {FAMILY_LEVEL:g} of attacks on true certificates say so). At "
        f"alpha={alpha:g} up to {alpha * len(attacks.images):.2g} of {len(attacks.images)} certificates may be false "
        "by chance; more than that means that the model does not add the noise that its guarantee states"
    )


def numbers(text: str) -> tuple[float, ...]:
    """Numbers between commas.

    >>> numbers(".99,2")
    (0.99, 2.0)
    """
    try:
        return tuple(as_number("a multiple", float(part)) for part in text.split(","))
    except ValueError:
        raise argparse.ArgumentTypeError(f"must be numbers between commas, such as .99,2,4, got {text}") from None


def names(text: str) -> tuple[str, ...]:
    """Names between commas."""
    return tuple(part.strip() for part in text.split(","))
