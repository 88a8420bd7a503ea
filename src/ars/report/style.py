"""What all figures share: style, the look of each method, and equal bytes whenever the files are equal."""

import base64
import re
import textwrap
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from io import BytesIO
from itertools import cycle
from typing import TYPE_CHECKING, Any, NamedTuple

from ars.methods.registry import Dashes, methods

if TYPE_CHECKING:
    from matplotlib.figure import Figure

INK = "#1f2430"
MUTED = "#6b7280"
GOOD = "#047857"
BAD = "#b91c1c"

EDGE = "#9ca3af"
GRID = "#e5e7eb"
VARIABLES = {INK: "--ink", MUTED: "--soft", EDGE: "--edge", GRID: "--line", "#ffffff": "--card"}
"""What the colours of a figure are called in the page's stylesheet, which has others for a dark screen."""


class Look(NamedTuple):
    """How a method's lines are drawn."""

    colour: str
    dashes: Dashes


# for methods that are not registered here, in the order of their rows
OTHER_LOOKS = (
    Look("#000000", "-"),
    Look("#56B4E9", (0, (5, 1.6))),
    Look("#C44E00", (0, (7, 1.6, 1.5, 1.6))),
    Look("#7A6A00", (0, (2.5, 1.5))),
    Look("#8C6BB1", (0, (1, 1.2))),
)

STYLE: dict[str, Any] = {
    "font.family": "DejaVu Sans",
    "font.size": 10,
    "text.parse_math": False,
    "text.color": INK,
    "axes.edgecolor": EDGE,
    "axes.labelcolor": INK,
    "axes.linewidth": 0.8,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "grid.color": GRID,
    "grid.linewidth": 0.8,
    "xtick.color": MUTED,
    "ytick.color": MUTED,
    "figure.facecolor": "white",
    "savefig.facecolor": "white",
    "svg.hashsalt": "ars",
    "svg.fonttype": "path",
}


def looks_of(names: Iterable[str]) -> dict[str, Look]:
    """The look of each method: that of the registry, or one of its own."""
    known, others = methods(), cycle(OTHER_LOOKS)
    return {
        name: Look(known[name].colour, known[name].dashes) if name in known else next(others)
        for name in dict.fromkeys(names)
    }


def css_name(method: str) -> str:
    """What a method is called in the page's stylesheet: "m-static_mask"."""
    return "m-" + re.sub(r"\W", "-", method)


@contextmanager
def style(settings: Mapping[str, Any] | None = None) -> Iterator[None]:
    """Draw with the report's look and with these settings, whatever the user's own are."""
    from matplotlib import style as styles

    with styles.context({**STYLE, **(settings or {})}, after_reset=True):
        yield


def fit(text: str, *, inches: float, size: float) -> list[str]:
    """The text in lines that a width has room for; a letter is about .56 of the font's size in points wide.

    >>> fit("black hides, white keeps", inches=1.2, size=9)
    ['black hides,', 'white keeps']
    """
    return textwrap.wrap(text, max(int(72 * inches / (0.56 * size)), 1))


def data_uri(kind: str, content: bytes) -> str:
    """A picture as text that a page can hold."""
    return f"data:{kind};base64,{base64.b64encode(content).decode()}"


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

    def inline(self, looks: Mapping[str, Look]) -> str:
        """Its SVG for a page, with the page's font and with colours that follow its stylesheet."""
        options = {
            "svg.fonttype": "none",
            "svg.hashsalt": self.title,
        }  # equal ids in two figures would meet on one page
        text = self._save(options, format="svg", metadata={"Date": None, "Creator": None}).decode()
        text = text[text.index("<svg") :]
        text = re.sub(r"<(metadata|style).*?</\1>|<!--.*?-->", "", text, flags=re.DOTALL)
        text = re.sub(r' id="(?![a-z][0-9a-f]{10}")[^"]*"', "", text)
        text = re.sub(
            r'<svg .*?viewBox="([^"]+)"[^>]*>', r'<svg viewBox="\1" aria-hidden="true">', text, flags=re.DOTALL
        )
        text = re.sub(r"(font(-family)?: [^;\"]*)?'DejaVu Sans'[^;\"]*;?", _font_size, text)
        variables = VARIABLES | {look.colour.lower(): f"--{css_name(name)}" for name, look in looks.items()}
        return re.sub("|".join(variables), lambda found: f"var({variables[found[0]]})", _shorten(text))

    def _save(self, settings: Mapping[str, Any] | None = None, **options: Any) -> bytes:
        content = BytesIO()
        with style(settings):
            self.figure.savefig(content, **options)
        return content.getvalue()


def _font_size(found: "re.Match[str]") -> str:
    """A font's size and weight, without its family: the page has its own."""
    size = re.search(r"(bold |\d{3} )?([\d.]+px)", found[0])
    return f"font-size: {size[2]};{' font-weight: bold;' if size[1] else ''}" if size else ""


def _shorten(text: str) -> str:
    """The SVG with two decimals, which is a hundredth of a point, but for its words, and with a path in a line."""
    places = re.sub(r"(\d+\.\d\d)\d+(?![^<>]*</text>)", r"\1", text)
    return re.sub(r"\n\s*", "\n", re.sub(r" ?\n(?=[A-Zz]\b)", " ", places))
