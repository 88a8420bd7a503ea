"""What all figures share: look, colours, and the same bytes whenever they are drawn from the same files."""

import textwrap
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from io import BytesIO
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from matplotlib.figure import Figure

INK = "#1f2430"
MUTED = "#6b7280"
GOOD = "#047857"
BAD = "#b91c1c"

STYLE: dict[str, Any] = {
    "font.family": "DejaVu Sans",
    "font.size": 10,
    "text.parse_math": False,
    "text.color": INK,
    "axes.edgecolor": "#9ca3af",
    "axes.labelcolor": INK,
    "axes.linewidth": 0.8,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "grid.color": "#e5e7eb",
    "grid.linewidth": 0.8,
    "xtick.color": MUTED,
    "ytick.color": MUTED,
    "figure.facecolor": "white",
    "savefig.facecolor": "white",
    "svg.hashsalt": "ars",
    "svg.fonttype": "path",
}


@contextmanager
def style() -> Iterator[None]:
    """Draw with the report's look, whatever the user's own settings are."""
    from matplotlib import style as styles

    with styles.context(STYLE, after_reset=True):
        yield


def fit(text: str, *, inches: float, size: float) -> list[str]:
    """The text in lines that a width has room for; a letter is about .56 of the font's size in points wide.

    >>> fit("black hides, white keeps", inches=1.2, size=9)
    ['black hides,', 'white keeps']
    """
    return textwrap.wrap(text, max(int(72 * inches / (0.56 * size)), 1))


@dataclass(frozen=True)
class Picture:
    """A figure as files, without dates and version names, so that equal figures are equal files.

    The title is the SVG's name for those who do not see it.
    """

    figure: "Figure"
    title: str

    @cached_property
    def svg(self) -> bytes:
        """The bytes of its SVG."""
        return self._save(format="svg", metadata={"Title": self.title, "Date": None, "Creator": None})

    @cached_property
    def png(self) -> bytes:
        """The bytes of its PNG."""
        return self._save(format="png", dpi=160, metadata={"Software": None})

    def _save(self, **options: Any) -> bytes:
        content = BytesIO()
        with style():
            self.figure.savefig(content, **options)
        return content.getvalue()
