"""What all figures share: look, colours, and the same bytes whenever they are drawn from the same files."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
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


@dataclass(frozen=True)
class Picture:
    """A figure as it is stored: the bytes of its SVG and of its PNG."""

    svg: bytes
    png: bytes


@contextmanager
def style() -> Iterator[None]:
    """Draw with the report's look, whatever the user's own settings are."""
    from matplotlib import style as styles

    with styles.context(STYLE, after_reset=True):
        yield


def save(figure: "Figure") -> Picture:
    """The bytes of a figure, without dates and version names, so that equal figures are equal files."""
    svg = BytesIO()
    figure.savefig(svg, format="svg", metadata={"Date": None, "Creator": None})
    return Picture(svg.getvalue(), save_png(figure))


def save_png(figure: "Figure") -> bytes:
    """The PNG alone."""
    png = BytesIO()
    figure.savefig(png, format="png", dpi=160, metadata={"Software": None})
    return png.getvalue()
