"""The page: one HTML file with everything in it, that fetches nothing and runs no script."""

import base64
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from importlib.resources import files
from itertools import zip_longest

from ars.certification.records import Record
from ars.report.curves import draw_curves
from ars.report.figures import Picture
from ars.report.groups import Group, Section, method_name
from ars.report.measures import norm_name, show_radius
from ars.report.pipeline import MOST_COLUMNS, Stages
from ars.report.published import Published, published_standard_accuracy
from ars.report.rendering import block_cells, headers, leads, note
from ars.report.results import Run
from ars.report.table import BOUND_NAMES, Block, Row, Table
from ars.report.templates import page_environment

MOST_LISTED = 1000


@dataclass(frozen=True)
class Pipeline:
    """The pipeline figure of a run with the stages that it shows."""

    run: Run
    stages: Stages
    picture: Picture

    @property
    def label(self) -> str:
        """The method's name for a reader."""
        return method_name(self.run.method)

    @property
    def shown(self) -> int:
        """How many images have a column."""
        return min(len(self.stages.index), MOST_COLUMNS)

    @property
    def source(self) -> str:
        """The picture for the page, as PNG where SVG, sharp at any size, would be much larger."""
        svg, png = self.picture.svg, self.picture.png
        return inline("image/svg+xml", svg) if len(svg) <= 2 * len(png) else inline("image/png", png)


@dataclass(frozen=True)
class Line:
    """What the listing says of one image."""

    index: int
    truth: str
    answer: str
    state: str
    mark: str
    radii: tuple[str, ...]
    seconds: str


def make_page(table: Table, pipelines: Mapping[str, Pipeline]) -> str:
    """The whole page; pipelines are given by run name."""
    environment = page_environment()
    environment.globals.update(
        cells=bar_cells, headers=headers, leads=leads, note=note, curves=_curves, settings=settings_rows,
        listing=listing, published=_published, versions=_versions, bound_names=BOUND_NAMES, norm_name=norm_name,
        most_listed=MOST_LISTED,
    )  # fmt: skip
    template = environment.from_string((files("ars.report") / "page.html.j2").read_text(encoding="utf-8"))
    sections = [(blocks, _shown_pipelines(blocks[0].section, pipelines)) for blocks in table.sections]
    return template.render(sections=sections)


def inline(kind: str, content: bytes) -> str:
    """A picture as a data URI."""
    return f"data:{kind};base64,{base64.b64encode(content).decode()}"


def bar_cells(block: Block) -> list[list[tuple[str, float | None]]]:
    """The texts of the rows, accuracies with their percentage for the bar behind them."""
    return [_bars(row, texts) for row, texts in zip(block.rows, block_cells(block), strict=True)]


def _bars(row: Row, texts: Sequence[str]) -> list[tuple[str, float | None]]:
    accuracies = (100 * spread.mean if spread.values else None for spread in (row.standard, *row.certified))
    return list(zip_longest(texts, (None, *accuracies)))


def settings_rows(section: Section) -> list[tuple[str, list[str]]]:
    """How every group was certified: a name and one text a group."""
    groups = section.groups
    return [
        ("training seeds", [_join(run.seed for run in group.runs) for group in groups]),
        ("images", [" or ".join(dict.fromkeys(str(run.judged) for run in group.runs)) for group in groups]),
        ("subset", [group.settings.subset for group in groups]),
        ("seed of the test inputs", [f"{group.runs[0].inputs.data.get('seed', 0)}" for group in groups]),
        ("draws an image, N", [str(group.settings.schedule) for group in groups]),
        ("draws made, on average", [_mean_draws(group) for group in groups]),
        ("failure probability, α", [f"{group.settings.alpha}" for group in groups]),
        ("bound", [BOUND_NAMES[group.settings.bound] for group in groups]),
        ("noise of the steps", [_noise(group) for group in groups]),
        ("seed of the draws", [_join(dict.fromkeys(run.settings.seed for run in group.runs)) for group in groups]),
        ("precision", [group.settings.precision for group in groups]),
    ]


def _noise(group: Group) -> str:
    """The noise levels of the steps; those of each run where a split was learned."""
    return (
        "; ".join(dict.fromkeys(_join(f"{sigma:.4g}" for sigma in run.settings.sigmas) for run in group.runs))
        or "by image"
    )


def listing(run: Run) -> list[Line]:
    """A line an image, in the order of index, up to MOST_LISTED of them."""
    return [_make_line(run, record) for record in run.records[:MOST_LISTED]]


def _make_line(run: Run, record: Record) -> Line:
    it = record.certificate
    state = "abstained" if it.label is None else "right" if record.correct else "wrong"
    return Line(
        index=it.index,
        truth=run.class_names[record.truth],
        answer="abstains" if it.label is None else run.class_names[it.label],
        state=state,
        mark={"abstained": "–", "right": "✓", "wrong": "✗"}[state],
        radii=tuple(show_radius(it.radii[bound], it.norm) for bound in run.bounds),
        seconds=f"{record.seconds:.2g}",
    )


def _mean_draws(group: Group) -> str:
    draws = [record.certificate.n_estimate for run in group.runs for record in run.records]
    return f"{sum(draws) / len(draws):,.0f}"


def _curves(block: Block) -> str:
    return inline("image/svg+xml", draw_curves([[block]]).svg)


def _shown_pipelines(section: Section, pipelines: Mapping[str, Pipeline]) -> list[Pipeline]:
    """The first one of every group, the longest pipeline on top."""
    having = ([pipelines[run.name] for run in group.runs if run.name in pipelines] for group in section.groups)
    return sorted((found[0] for found in having if found), key=lambda one: -len(one.stages.rows))


def _published(section: Section) -> list[Published]:
    first = section.first
    return published_standard_accuracy(first.kind, k=first.shape[-1], sigma=first.sigma)


def _versions(runs: Sequence[Run]) -> list[tuple[str, dict[str, str]]]:
    """Every environment that occurs, after the names of the runs that it was recorded for."""
    found: list[tuple[list[str], dict[str, str]]] = []
    for run in runs:
        names = next((names for names, environment in found if environment == run.environment), None)
        if names is not None:
            names.append(run.name)
        elif run.environment:
            found.append(([run.name], run.environment))
    return [("all runs" if len(names) == len(runs) else _join(names), environment) for names, environment in found]


def _join(parts: Iterable[object]) -> str:
    return ", ".join(map(str, parts))
