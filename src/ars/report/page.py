"""The page: one HTML file with style, script, curves and masks in it, that fetches nothing."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from importlib.resources import files
from typing import TYPE_CHECKING, Any

from jinja2 import Environment, StrictUndefined
from markupsafe import Markup

from ars.report.attacks import HOW_TO_READ, attack_columns, draw_attacks
from ars.report.curves import draw_curves
from ars.report.grouping import Group
from ars.report.measures import BOUND_NAMES, method_name, norm_name, show_radius
from ars.report.rendering import UNCHECKED, log_columns
from ars.report.style import Look, css_name, looks_of
from ars.report.table import judged_text, mean
from ars.report.views import View, compare
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
        attack_curve=lambda members: Markup(draw_attacks([members], looks=looks).inline(looks)),
        attack_columns=attack_columns, how_to_read=HOW_TO_READ, settings_of=settings_of, environments=environments,
        listing=listing, css_name=css_name, bound_names=BOUND_NAMES, norm_name=norm_name, method_name=method_name,
        most_listed=MOST_LISTED, legends=LEGENDS, log_columns=log_columns, unchecked=UNCHECKED,
    )  # fmt: skip
    environment.filters["columns"] = lambda texts: zip(*texts, strict=True)
    template = environment.from_string(read_asset("page.html.j2"))
    shown = [(view, [compare(view, block) for block in view.blocks]) for view in views]
    levels = [(place, Markup(draw(looks).inline(looks))) for place, draw in (folder.levels if folder else ())]
    return template.render(
        shown=shown, folder=folder, levels=levels, choices=choices(views), opening=opening(views).place, bounds=bounds,
        style=Markup(read_asset("page.css") + style_of(looks)), script=Markup(read_asset("page.js")),
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


def _join(parts: Iterable[object]) -> str:
    return ", ".join(map(str, parts))


def choices(views: Sequence[View]) -> list[tuple[str, list[str]]]:
    """The controls: a name and its values, where the views differ in it."""

    def key(value: str) -> tuple[float, str]:
        try:
            return float(value), ""
        except ValueError:
            return 0.0, value

    names = dict.fromkeys(name for view in views for name in view.place)
    return [(name, sorted({view.place[name] for view in views}, key=key)) for name in names]


def opening(views: Sequence[View]) -> View:
    """The view that the page opens with: most methods that the paper has there, then most methods, largest k and σ."""

    def weight(view: View) -> tuple[int, int, str, float]:
        certified = [member for member in view.members if member.group]
        paper = sum(bool(member.paper) for member in certified)
        return paper, len(certified), view.place["k"].rjust(9), float(view.place["sigma"])

    return max(views, key=weight)


def settings_of(groups: Sequence[Group]) -> list[tuple[str, str]]:
    """How the groups were certified: a name, and one text for all or whose is which."""
    every = [run for group in groups for run in group.runs]
    draws = {
        group.label: [record.certificate.n_estimate for run in group.runs for record in run.records] for group in groups
    }
    values: list[tuple[str, Callable[[Group], str]]] = [
        ("training seeds", lambda group: _join(run.seed for run in group.runs)),
        ("images", lambda group: judged_text(group.runs, every)),
        ("subset", lambda group: group.settings.subset),
        ("seed of the test inputs", lambda group: f"{group.runs[0].inputs.data.get('seed', 0)}"),
        ("draws per image, N", lambda group: str(group.settings.schedule)),
        ("draws made, on average", lambda group: f"{mean(draws[group.label]):,.0f}"),
        ("failure probability, α", lambda group: f"{group.settings.alpha}"),
        ("bound", lambda group: BOUND_NAMES[group.settings.bound]),
        ("noise of the steps", _noise),
        ("seed of the draws", lambda group: _join(dict.fromkeys(run.settings.seed for run in group.runs))),
        ("precision", lambda group: group.settings.precision),
    ]
    if any(group.settings.exact for group in groups):
        values.append(("certified in", lambda group: f"{'float' if group.settings.exact else 'real'} arithmetic"))
    return [(name, _of_each([(group.label, value(group)) for group in groups])) for name, value in values]


def _of_each(texts: Sequence[tuple[str, str]]) -> str:
    """A text for all, or every text with whose it is: "ARS, UniCR: 0.5; Cohen et al.: 0.7"."""
    whose: dict[str, list[str]] = {}
    for label, text in texts:
        whose.setdefault(text, []).append(label)
    return next(iter(whose)) if len(whose) == 1 else "; ".join(f"{_join(who)}: {text}" for text, who in whose.items())


def _noise(group: Group) -> str:
    """The noise levels of the steps; those of each run where a split was learned."""
    levels = dict.fromkeys(_join(f"{sigma:.4g}" for sigma in run.settings.sigmas) for run in group.runs)
    return " or ".join(levels) or "by image"


def environments(runs: Sequence[Run]) -> list[str]:
    """Every environment that occurs, with the names of the runs that it was recorded for."""
    found = [(run.environment, run.name) for run in runs if run.environment]
    texts = [(" · ".join(f"{key} {value}" for key, value in told.items()), name) for told, name in found]
    names = {text: [name for other, name in texts if other == text] for text, _ in texts}
    return [f"{text} ({'all runs' if len(who) == len(runs) else _join(who)})" for text, who in names.items()]


def read_asset(name: str) -> str:
    """The text of a file of this package, such as the stylesheet."""
    return (files("ars.report") / name).read_text(encoding="utf-8")
