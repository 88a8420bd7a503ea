"""The playground's results as HTML: votes and radius, one draw taken apart, attacked images; no layout of gradio's."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from io import BytesIO
from typing import Any

import numpy as np
from jinja2 import Environment, StrictUndefined
from numpy.typing import NDArray
from PIL import Image

from ars.methods.registry import methods
from ars.play.session import DRAWS, NORM, Attacked, Count, Player
from ars.report.measures import in_units, rounded, show_grid_radius, unit_name
from ars.report.pipeline_figure import StageRow
from ars.report.style import css_name, data_uri, looks_of


@dataclass(frozen=True)
class Panel:
    """What is known of one model so far; a part that is None was not asked for yet."""

    player: Player
    rows: Sequence[StageRow]
    truth: int | None = None
    count: Count | None = None
    attacked: Sequence[Attacked] | None = None
    busy: str = ""
    """What is being done, in a word or two."""

    @property
    def tally(self) -> list[tuple[str, int]]:
        """The votes of each class so far."""
        names = self.player.class_names
        return list(zip(names, self.count.votes if self.count else [0] * len(names), strict=True))


def votes(panels: Sequence[Panel]) -> str:
    """The label, the certified radius and the votes of each model."""
    most = max((panel.count.most for panel in panels if panel.count), default=None)
    return _render("votes", panels, most=most)


def stages(panels: Sequence[Panel]) -> str:
    """One draw of each model, from the input to what its classifier sees."""
    return _render("stages", panels)


def attacks(panels: Sequence[Panel]) -> str:
    """What an attack found at the certified radius and beyond, with the label there."""
    return _render("attacks", panels)


def style() -> str:
    """The stylesheet, with the report's colours of the methods, lighter on a dark screen."""
    colours = {css_name(name): look.colour for name, look in looks_of(methods()).items()}
    light = "".join(f".play .{name} {{ --c: {colour}; }}\n" for name, colour in colours.items())
    dark = "".join(
        f".dark .play .{name} {{ --c: color-mix(in srgb, {colour} 60%, #ffffff); }}\n"
        for name, colour in colours.items()
    )
    return light + dark + _read("page.css")


def radius_name(radius: float) -> str:
    """A certified radius, which is one of the grid.

    >>> radius_name(11 / 510), radius_name(4 / 255)
    ('5.5/255', '4.0/255')
    """
    return show_grid_radius(radius, NORM, 1) + unit_name(NORM)


def attack_name(radius: float, times: int) -> str:
    """The radius of an attack, rounded: nothing is certified there.

    >>> attack_name(15 / 510, 3)
    '22.5/255'
    """
    return rounded(in_units(times * radius, NORM)) + unit_name(NORM)


def picture(image: NDArray[np.floating[Any]], *, mask: bool = False) -> str:
    """An image [c, h, w] as the source of an <img>; a mask in colours, dark hides and bright keeps."""
    from matplotlib import colormaps

    shown = np.clip(image.transpose(1, 2, 0), 0, 1)
    if mask:
        shown = colormaps["viridis"](shown[..., 0])[..., :3]
    content = BytesIO()
    Image.fromarray((255 * shown).round().astype(np.uint8)).save(content, format="PNG")
    return data_uri("image/png", content.getvalue())


def _render(name: str, panels: Sequence[Panel], **more: Any) -> str:
    return str(getattr(_macros(), name)(panels, **more))


@cache
def _macros() -> Any:
    environment = Environment(autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True)
    environment.globals.update(
        css_name=css_name, picture=picture, radius_name=radius_name, attack_name=attack_name, draws=DRAWS
    )
    return environment.from_string(_read("page.html.j2")).module


def _read(name: str) -> str:
    return files("ars.play").joinpath(name).read_text(encoding="utf-8")
