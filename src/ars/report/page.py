"""The page: one HTML file with style, script, curves and masks in it, that fetches nothing."""

from collections.abc import Mapping, Sequence
from importlib.resources import files
from typing import TYPE_CHECKING, Any

from jinja2 import Environment, StrictUndefined
from markupsafe import Markup

from ars.report.comparison import compare
from ars.report.curves import draw_curves
from ars.report.measures import BOUND_NAMES, method_name, norm_name, show_radius
from ars.report.style import Look, css_name, looks_of
from ars.report.views import View, choices, environments, opening, settings_of
from ars.runs.run import Run

if TYPE_CHECKING:
    from ars.report.paper.page import Folder

MOST_LISTED = 1000
MARKS = {"abstained": "–", "right": "✓", "wrong": "✗"}
LEGENDS = {
    "benchmark": "Benchmark",
    "recipe": "Recipe",
    "norm": "Norm",
    "k": "Side of the image, k",
    "sigma": "Noise, σ",
}


def make_page(views: Sequence[View], folder: "Folder | None" = None) -> str:
    """The whole page; a folder of packed results adds its tables, figures, recipes and accuracy against k."""
    environment = Environment(
        autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True, keep_trailing_newline=True
    )
    looks = looks_of(member.method for view in views for member in view.members)
    bounds = list(dict.fromkeys(block.bound for view in views for block in view.blocks)) or ["cohen"]
    environment.globals.update(
        curve=lambda block: Markup(draw_curves([[block]], looks=looks, bare=True).inline(looks)),
        settings_of=settings_of, environments=environments,
        listing=listing, css_name=css_name, bound_names=BOUND_NAMES, norm_name=norm_name, method_name=method_name,
        most_listed=MOST_LISTED, legends=LEGENDS,
    )  # fmt: skip
    template = environment.from_string(_read("page.html.j2"))
    shown = [(view, [compare(view, block) for block in view.blocks]) for view in views]
    levels = [(place, Markup(draw(looks).inline(looks))) for place, draw in (folder.levels if folder else ())]
    return template.render(
        shown=shown, folder=folder, levels=levels, choices=choices(views), opening=opening(views).place, bounds=bounds,
        style=Markup(_read("page.css") + style_of(looks)), script=Markup(_read("page.js")),
    )  # fmt: skip


def style_of(looks: Mapping[str, Look]) -> str:
    """The methods' colours as CSS, lighter on a dark screen."""
    colours = {css_name(name): look.colour.lower() for name, look in looks.items()}
    light = "".join(f"--{name}: {colour}; " for name, colour in colours.items())
    dark = "".join(f"--{name}: color-mix(in srgb, {colour} 60%, #ffffff); " for name, colour in colours.items())
    classes = "".join(f".{name} {{ --c: var(--{name}); }}\n" for name in colours)
    return f":root {{ {light}}}\n@media (prefers-color-scheme: dark) {{ :root {{ {dark}}} }}\n{classes}"


def listing(run: Run) -> list[dict[str, Any]]:
    """What is said of each image, in the order of index, up to MOST_LISTED of them."""
    rows = []
    for record in run.records[:MOST_LISTED]:
        found = record.certificate
        state = "abstained" if found.label is None else "right" if found.label == record.truth else "wrong"
        answer = "abstains" if found.label is None else run.class_names[found.label]
        radii = [show_radius(found.radii[bound], found.norm) for bound in run.bounds]
        told = {"state": state, "answer": f"{MARKS[state]} {answer}", "radii": radii}
        rows.append(told | {"index": found.index, "truth": run.class_names[record.truth], "seconds": record.seconds})
    return rows


def _read(name: str) -> str:
    return (files("ars.report") / name).read_text(encoding="utf-8")
