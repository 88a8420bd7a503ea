"""ars vote: the accuracy of the plain vote on the whole test set."""

import argparse
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from ars.cli.interrupt import stoppable
from ars.cli.live import LINE_SECONDS
from ars.cli.options import Subparsers, add_classifier, add_command, add_device, add_memory, add_places, recipe_of
from ars.experiments.recipe import CertifySettings
from ars.experiments.world import one_process
from ars.report.tally import Tally

TEACH = """\
Let a run vote on every image of its test set and count how often it is right, with the standard error that the choice
of test images leaves. Nothing is certified and nothing abstains: of classes with equally many votes the first one is
taken. An interrupted vote goes on where it was.

  ars vote runs/ars                                           100 draws an image, to runs/ars/vote.json
  ars vote runs/ars --draws 1000 --json
"""
DRAWS = 100
NOTICE = "ars: ending after the images in flight; Ctrl-C again ends at once and gives up those"


def add_to(commands: Subparsers) -> None:
    """Add the command."""
    parser = add_command(
        commands, "vote", run, summary="vote accuracy on the whole test set", teach=TEACH, goes_on=True
    )
    parser.add_argument("folder", type=Path, metavar="RUN", help="a run folder made by ars train")
    parser.add_argument("--draws", type=int, default=DRAWS, metavar="N", help=f"votes an image (default: {DRAWS})")
    parser.add_argument("--json", action="store_true", help="print the content of vote.json")
    add_classifier(parser)
    add_places(parser)
    add_device(parser)
    add_memory(parser)


def run(options: argparse.Namespace) -> int:
    """Vote, showing progress, and print the accuracy."""
    one_process("ars vote")
    settings = recipe_of(options.folder, instead="ars vote cannot load it, and ")
    if options.memory is not None:
        from ars.certification.memory import limit_memory
        from ars.experiments.device import choose_device

        limit_memory(choose_device(options.device), options.memory)
    tally = vote_with_progress(
        options.folder, settings, options.device, draws=options.draws, classifier=options.classifier,
        moved=options.overrides or (),
    )  # fmt: skip
    print(tally.to_json(), end="") if options.json else print(f"{options.folder}: {sentence(tally)}")
    return 0


def vote_with_progress(
    folder: Path,
    settings: CertifySettings,
    device_name: str,
    *,
    draws: int,
    classifier: str | None = None,
    moved: Sequence[str] = (),
    enough: Callable[[], bool] = lambda: False,
) -> Tally:
    """Vote with the seed and the precision of a certification, with a line every few seconds."""
    from ars.experiments.device import choose_device
    from ars.experiments.voting import vote_run

    shown = time.monotonic()

    def report(tally: Tally, total: int) -> None:
        nonlocal shown
        if time.monotonic() - shown >= LINE_SECONDS:
            shown = time.monotonic()
            print(f"{folder}: {tally.images} of {total} voted on", file=sys.stderr, flush=True)

    with stoppable(NOTICE) as stop:
        return vote_run(
            folder, draws=draws, seed=settings.seed, precision=settings.precision, device=choose_device(device_name),
            classifier=classifier, moved=moved, report=report, stop=lambda: stop() or enough(),
        )  # fmt: skip


def sentence(tally: Tally) -> str:
    """The accuracy in words."""
    return (
        f"the vote of {tally.draws} draws is right on {tally.accuracy:.2%} of {tally.images:,} test images "
        f"(standard error {100 * tally.standard_error:.2f} points)"
    )
