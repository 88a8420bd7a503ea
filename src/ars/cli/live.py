"""The live view of a certification: a bar in a terminal, plain lines elsewhere, on the error stream."""

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from ars.report.measures import show_radius, unit_name
from ars.theory import Norm
from ars.workflows.request import Progress

if TYPE_CHECKING:
    from rich.progress import Progress as Bar

LINE_SECONDS = 10.0
Show = Callable[[Progress], None]


@contextmanager
def live_view(title: str, *, norm: Norm | None, shown: bool = True) -> Iterator[Show]:
    """Yield a function that shows the progress; with shown=False it shows only the last line.

    norm is the norm of the radii. It is None if no radius is measured, as in curve mode.
    """
    if not shown:
        yield lambda at: _lines(title, norm)(at) if at.done == at.total else None
        return
    if not sys.stderr.isatty():
        yield _lines(title, norm)
        return
    with make_bar(title) as bar:
        task = bar.add_task("certifying", total=None)
        yield lambda at: bar.update(task, completed=at.done, total=at.total, description=describe(at, norm))


def make_bar(title: str) -> "Bar":
    """A bar on the error stream, between the title and a description of the current state."""
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
    return Bar(*columns, console=Console(stderr=True))


def describe(at: Progress, norm: Norm | None) -> str:
    """The text beside the count of images."""
    so_far = [f"certified {at.certified:.0%}"] if at.done else []
    if at.done and norm is not None:
        radius = show_radius(at.average_radius, norm, decimals=2 if norm == "linf" else 4) + unit_name(norm)
        so_far += [f"average radius {radius}"]
    left = at.seconds_left
    within = [f"{at.drawn:,} of up to {at.at_most:,} draws of this shard"] if at.drawn else []
    if left is None:
        return ", ".join([*so_far, *(within or ["working on the first shard"])])
    rest = [f"{duration(left)} left"] if left else []
    return ", ".join([*so_far, f"{at.draws_a_second:,.0f} draws/s", *within, *rest])


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


def _lines(title: str, norm: Norm | None) -> Show:
    shown = -LINE_SECONDS

    def show(at: Progress) -> None:
        nonlocal shown
        now = time.monotonic()
        if at.done == at.total or now - shown >= LINE_SECONDS:
            shown = now
            print(f"{title}: {at.done} of {at.total} images, {describe(at, norm)}", file=sys.stderr, flush=True)

    return show
