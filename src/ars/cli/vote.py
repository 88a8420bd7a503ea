"""ars vote: the accuracy of the plain vote on the whole test set."""

import argparse
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from ars.certification.settings import CertifySettings
from ars.cli.errors import tell
from ars.cli.interrupt import stoppable
from ars.cli.options import Subparsers, add_classifier, add_command, add_device, add_places, limit_memory, recipe_of
from ars.cli.views import View
from ars.runs.vote_count import Tally
from ars.workflows.processes import one_process

if TYPE_CHECKING:
    from ars.data.benchmark import Opener

TEACH = """\
Vote on every image of a run's test set and print the accuracy of the votes, with the standard error due to the choice
of test images. Nothing is certified, and no image abstains: if classes tie, the first of them wins. An interrupted
vote resumes where it stopped.

  ars vote runs/ars                                           100 draws per image, to runs/ars/vote.json
  ars vote runs/ars --draws 1000 --json
"""
DRAWS = 100
NOTICE = "ars: stopping after the current images; press Ctrl-C again to stop at once and drop their votes"


def add_to(commands: Subparsers) -> None:
    """Add the command."""
    summary = "vote accuracy on the whole test set"
    parser = add_command(commands, "vote", run, summary=summary, teach=TEACH, resumable=True)
    parser.add_argument("folder", type=Path, metavar="RUN", help="a run folder made by ars train")
    parser.add_argument("--draws", type=int, default=DRAWS, metavar="N", help=f"votes per image (default: {DRAWS})")
    parser.add_argument("--json", action="store_true", help="print the content of vote.json")
    add_classifier(parser)
    add_places(parser)
    add_device(parser, memory=True)


def run(options: argparse.Namespace) -> int:
    """Vote, showing progress, and print the accuracy."""
    one_process("ars vote")
    settings = recipe_of(options.folder, instead="ars vote cannot load it, and ")
    limit_memory(options)
    tally = vote_with_progress(
        options.folder, settings, options.device, draws=options.draws, classifier=options.classifier,
        moved=options.overrides,
    )  # fmt: skip
    tell(tally.to_json(), end="") if options.json else tell(f"{options.folder}: {sentence(tally)}")
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
    open_data: "Opener | None" = None,
) -> Tally:
    """Vote with the seed and the precision of a certification, and print a line every few seconds."""
    from ars.data.benchmark import open_benchmark
    from ars.workflows.hardware import choose_device
    from ars.workflows.vote import vote_run

    view = View(str(folder), at_once=False)

    def report(tally: Tally, total: int) -> None:
        view.update(tally.images, total, f"{tally.images} of {total} voted on", "")

    with stoppable(NOTICE) as stop:
        return vote_run(
            folder, draws=draws, seed=settings.seed, precision=settings.precision, device=choose_device(device_name),
            classifier=classifier, moved=moved, report=report, stop=lambda: stop() or enough(),
            open_data=open_data or open_benchmark,
        )  # fmt: skip


def sentence(tally: Tally) -> str:
    """The accuracy in words."""
    return (
        f"the vote of {tally.draws} draws is right on {tally.accuracy:.2%} of {tally.images:,} test images "
        f"(standard error {100 * tally.standard_error:.2f} points)"
    )
