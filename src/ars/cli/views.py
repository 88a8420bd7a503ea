"""Live views of certifications and trainings: a bar in a terminal, plain lines elsewhere, on the error stream."""

import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

from ars.cli.errors import tell
from ars.names import shown
from ars.report.measures import show_radius, unit_name
from ars.theory import Norm
from ars.workflows.request import Progress

if TYPE_CHECKING:
    from rich.progress import Progress as Bar

    from ars.training.progress import Progress as Epoch
    from ars.training.progress import Standing
    from ars.workflows.forecast import Forecast

LINE_SECONDS = 10.0
MOST_WORKERS = 16


class View:
    """Lines about a piece of work: what is said, and its progress every few seconds."""

    def __init__(self, title: str, *, at_once: bool = True) -> None:
        self.title, self._due = title, time.monotonic() + (0.0 if at_once else LINE_SECONDS)

    def say(self, text: str) -> None:
        """Print one line."""
        tell(f"{self.title}: {text}", file=sys.stderr)

    def update(self, done: int, total: int, line: str, text: str, *, last: bool = False) -> None:
        """Print the line, unless one was printed a moment ago; the last one is always printed."""
        if last or time.monotonic() >= self._due:
            self._due = time.monotonic() + LINE_SECONDS
            self.say(line)


class BarView(View):
    """The same lines above a bar, which shows the progress."""

    def __init__(self, title: str, bar: "Bar", doing: str) -> None:
        super().__init__(title)
        self._bar, self._task = bar, bar.add_task(doing, total=None)

    def say(self, text: str) -> None:
        """Print one line above the bar."""
        self._bar.console.print(shown(f"{self.title}: {text}"), markup=False, highlight=False)

    def update(self, done: int, total: int, line: str, text: str, *, last: bool = False) -> None:
        """Update the bar and the text beside it."""
        self._bar.update(self._task, completed=done, total=total, description=text)


@contextmanager
def open_view(title: str, doing: str, *, bar: bool = True) -> Iterator[View]:
    """Yield a view with a bar, or without one if none is wanted or the error stream is not a terminal."""
    if not (bar and sys.stderr.isatty()):
        yield View(title)
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, TextColumn
    from rich.progress import Progress as Bar
    from rich.table import Column

    columns = (
        TextColumn(title, markup=False),
        BarColumn(bar_width=12),
        MofNCompleteColumn(),
        TextColumn("{task.description}", markup=False, table_column=Column(no_wrap=False)),  # may take two lines
    )
    with Bar(*columns, console=Console(stderr=True)) as moving:
        yield BarView(title, moving, doing)


@contextmanager
def certification_view(title: str, *, norm: Norm | None, shown: bool = True) -> Iterator[Callable[[Progress], None]]:
    """Yield a function that shows the progress; with shown=False it shows only the last line.

    norm is the norm of the radii. It is None if no radius is measured, as in curve mode.
    """
    with open_view(title, "certifying", bar=shown) as view:

        def show(at: Progress) -> None:
            last, text = at.done == at.total, describe(at, norm) + describe_workers(at.workers)
            if shown or last:
                view.update(at.done, at.total, f"{at.done} of {at.total} images, {text}", text, last=last)

        yield show


def describe(at: Progress, norm: Norm | None) -> str:
    """The text beside the count of certified images."""
    so_far = [f"certified {at.certified:.0%}"] if at.done else []
    if at.done and norm is not None:
        radius = show_radius(at.average_radius, norm, decimals=2 if norm == "linf" else 4) + unit_name(norm)
        so_far += [f"average radius {radius}"]
    left = at.seconds_left
    which = "the shards in flight" if at.workers else "this shard"
    within = [f"{at.drawn:,} of up to {at.at_most:,} draws of {which}"] if at.drawn else []
    if left is None:
        return ", ".join([*so_far, *(within or ["working on the first shard"])])
    rest = [f"{duration(left)} left"] if left else []
    return ", ".join([*so_far, f"{at.draws_a_second:,.0f} draws/s", *within, *rest])


def describe_workers(workers: Sequence[str]) -> str:
    """A line for each worker, of the first few.

    >>> describe_workers(["worker 1: shard 3"])
    '\\n  worker 1: shard 3'
    """
    more = [f"and {len(workers) - MOST_WORKERS} more workers"] if len(workers) > MOST_WORKERS else []
    return "".join(f"\n  {worker}" for worker in [*workers[:MOST_WORKERS], *more])


def describe_step(at: "Standing") -> str:
    """The text beside the count of training steps."""
    return (
        f"epoch {at.epoch} of {at.epochs}, loss {at.loss:.2f}, accuracy {at.accuracy:.0%}, "
        f"{at.images_a_second:,.0f} images/s, {duration(at.seconds_left)} left"
    )


def describe_epoch(at: "Epoch") -> str:
    """The line about an epoch; accuracies are of single noisy draws."""
    start_up = "" if at.start_up_seconds is None else f" after {at.start_up_seconds:.0f} s of start-up"
    cut = "" if at.steps is None else f", stopped after {at.steps} {'step' if at.steps == 1 else 'steps'}"
    return (
        f"epoch {at.epoch} of {at.epochs}{cut}: loss {at.loss:.2f}, accuracy {at.accuracy:.0%}, validation "
        f"{at.validation_accuracy:.0%}, mask {at.mean_square_mask:.2f}, {at.images_a_second:,.0f} images/s{start_up}"
    )


def describe_forecast(forecast: "Forecast", gpus: Sequence[int], *, unit: str, price: float | None) -> str:
    """A line for each number of GPUs: wall time, the hours that they are held, and the price of these."""
    rows = [[f"{unit}s", "wall time", f"{unit}-hours", "price"]]
    for number in gpus:
        hours = forecast.gpu_hours(number)
        rows.append(
            [str(number), duration(forecast.wall_seconds(number)), f"{hours:,.2f}", f"{(price or 0) * hours:,.2f}"]
        )
    columns = 3 if price is None else 4
    return "\n".join("".join(f"{part:>15}" for part in row[:columns]) for row in rows)


def duration(seconds: float) -> str:
    """A time in words.

    >>> duration(9.2), duration(75), duration(4000), duration(200000)
    ('10 s', '1 min 15 s', '1 h 7 min', '55 h 34 min')
    """
    whole = -int(-seconds // 1)
    if whole < 60:
        return f"{whole} s"
    minutes, rest = divmod(whole, 60)
    return f"{minutes} min {rest} s" if minutes < 60 else f"{minutes // 60} h {-(-whole // 60) % 60} min"
