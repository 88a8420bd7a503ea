"""The live view of a training: a bar in a terminal, plain lines elsewhere, on the error stream."""

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from ars.cli.live import LINE_SECONDS, duration, make_bar

if TYPE_CHECKING:
    from ars.training.progress import Progress, Standing


class Lines:
    """One line every few seconds, and one per epoch."""

    def __init__(self, title: str) -> None:
        self.title, self._shown = title, -LINE_SECONDS

    def watch(self, at: "Standing") -> None:
        """Print the progress, unless a line was printed a moment ago."""
        if time.monotonic() - self._shown >= LINE_SECONDS:
            self._shown = time.monotonic()
            self.say(f"step {at.step} of {at.steps}, {describe(at)}")

    def report(self, at: "Progress") -> None:
        """Print how an epoch ended."""
        self.say(describe_epoch(at))

    def say(self, text: str) -> None:
        """Print one line."""
        print(f"{self.title}: {text}", file=sys.stderr, flush=True)


class Bar(Lines):
    """The same lines above a bar that is updated about once per second."""

    def __init__(self, title: str, update: Callable[..., None], say: Callable[[str], None]) -> None:
        super().__init__(title)
        self._update, self._say = update, say

    def watch(self, at: "Standing") -> None:
        """Update the bar."""
        self._update(completed=at.step, total=at.steps, description=describe(at))

    def say(self, text: str) -> None:
        """Print one line above the bar."""
        self._say(f"{self.title}: {text}")


@contextmanager
def training_view(title: str, *, bar: bool = True) -> Iterator[Lines]:
    """Yield the view of the progress; without a bar if none is wanted or the output is not a terminal."""
    if not (bar and sys.stderr.isatty()):
        yield Lines(title)
        return
    with make_bar(title) as moving:
        task = moving.add_task("starting", total=None)
        yield Bar(
            title,
            lambda **news: moving.update(task, **news),
            lambda text: moving.console.print(text, markup=False, highlight=False),
        )


def describe(at: "Standing") -> str:
    """The text beside the count of steps."""
    return (
        f"epoch {at.epoch} of {at.epochs}, loss {at.loss:.2f}, accuracy {at.accuracy:.0%}, "
        f"{at.images_a_second:,.0f} images/s, {duration(at.seconds_left)} left"
    )


def describe_epoch(at: "Progress") -> str:
    """The line about an epoch; accuracies are of single noisy draws."""
    start_up = "" if at.start_up_seconds is None else f" after {at.start_up_seconds:.0f} s of start-up"
    cut = "" if at.steps is None else f", stopped after {at.steps} {'step' if at.steps == 1 else 'steps'}"
    return (
        f"epoch {at.epoch} of {at.epochs}{cut}: loss {at.loss:.2f}, accuracy {at.accuracy:.0%}, validation "
        f"{at.validation_accuracy:.0%}, mask {at.mean_square_mask:.2f}, {at.images_a_second:,.0f} images/s{start_up}"
    )
