"""The page of an audit and its figures, from the numbers in audit.json alone."""

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from jinja2 import Environment, StrictUndefined
from markupsafe import Markup
from scipy.special import ndtr
from scipy.stats import binom

from ars.report.page import read_asset
from ars.report.style import BAD, INK, MUTED, Picture, style
from ars.report.writing import write_all
from ars.runs.audits import FAMILY_LEVEL, Audit
from ars.runs.paths import AUDIT_FILE

if TYPE_CHECKING:
    from matplotlib.axes import Axes

WORDS = {True: "passes", False: "DEFECT", None: "not applicable"}
STATES = {True: "right", False: "wrong", None: "abstained"}
SIZE = (5.2, 3.2)
MARGINS = {"left": 0.14, "right": 0.98, "bottom": 0.16, "top": 0.96}
RADII = {"there": "large e", "nearby": "small e"}
INDEX = "index.html"
FIGURES = {
    "likelihood ratio": "ratio.svg", "operating points": "points.svg", "votes": "votes.svg", "noise": "noise.svg"
}  # fmt: skip


def write_audit(out: Path, audit: Audit) -> tuple[Path, ...]:
    """Write audit.json, the page and the figures; everything is drawn before anything is written."""
    pictures = figures_of(audit)
    contents = {FIGURES[name]: picture.svg for name, (picture, _) in pictures.items()}
    contents |= {INDEX: make_audit_page(audit).encode(errors="replace"), AUDIT_FILE: audit.to_json().encode()}
    files = write_all(out, contents)
    for name in set(FIGURES.values()) - set(contents):  # those of an earlier audit
        (out / name).unlink(missing_ok=True)
    return files


def make_audit_page(audit: Audit) -> str:
    """The whole page."""
    environment = Environment(autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True)
    drawn = [(caption, Markup(picture.inline({}))) for picture, caption in figures_of(audit).values()]
    return environment.from_string(read_asset("audit_page.html.j2")).render(
        audit=audit, figures=drawn, words=WORDS, states=STATES, family_level=FAMILY_LEVEL,
        style=Markup(read_asset("page.css")),
    )  # fmt: skip


def figures_of(audit: Audit) -> dict[str, tuple[Picture, str]]:
    """The figure of each check that has one, with its caption."""
    draw = {
        "likelihood ratio": (_draw_ratio, "The log-likelihood ratio of all releases, scaled, and the normal law."),
        "operating points": (_draw_points, "Error rates of attackers' tests, and the guarantee that bounds them."),
        "votes": (_draw_votes, "Votes above the median in blocks of 100 draws, and the law of independent votes."),
        "noise": (_draw_noise, "The share of noise beyond a number of deviations, and that of normal noise."),
    }
    found = {}
    for finding in audit.findings:
        if finding.figure:
            put, caption = draw[finding.name]
            found[finding.name] = (_drawn(put, finding.figure, caption), caption)
    return found


def _drawn(put: Any, numbers: Mapping[str, Any], title: str) -> Picture:
    from matplotlib.figure import Figure

    with style():
        figure = Figure(figsize=SIZE)
        panel = figure.subplots()
        figure.subplots_adjust(**MARGINS)
        panel.set_axisbelow(True)
        put(panel, numbers)
        panel.legend(frameon=False, fontsize=9)
        return Picture(figure, title)


def _draw_ratio(panel: "Axes", numbers: Mapping[str, Any]) -> None:
    edges, counts = np.array(numbers["edges"]), np.array(numbers["counts"])
    panel.stairs(counts, edges, fill=True, color=MUTED, alpha=0.5, label="draws")
    panel.plot((edges[1:] + edges[:-1]) / 2, numbers["draws"] * np.diff(ndtr(edges)), color=INK, label="normal")
    panel.set_xlabel("(ratio + mu²/2) / mu")
    panel.set_ylabel("draws")


def _draw_votes(panel: "Axes", numbers: Mapping[str, Any]) -> None:
    votes = np.array(numbers["votes"])
    places = np.arange(len(votes))
    panel.bar(places, votes, width=1.0, color=MUTED, alpha=0.5, label="blocks")
    panel.plot(places, numbers["blocks"] * binom.pmf(places, len(votes) - 1, 0.5), color=INK, label="binomial")
    seen = np.flatnonzero(votes)
    panel.set_xlim(min(25, seen[0] - 1), max(75, seen[-1] + 1))
    panel.set_xlabel("votes of 100")
    panel.set_ylabel("blocks")


def _draw_noise(panel: "Axes", numbers: Mapping[str, Any]) -> None:
    edges = np.array(numbers["edges"])
    far = [place for place, edge in enumerate(edges) if edge < 0]
    x = -edges[far]
    panel.semilogy(x, 2 * ndtr(-x), color=INK, label="normal")
    for step, counts in enumerate(numbers["counts"], start=1):
        row = np.array(counts)
        beyond = np.array([row[: place + 1].sum() + row[len(row) - 1 - place :].sum() for place in far]) / row.sum()
        shown = beyond > 0
        panel.semilogy(x[shown], beyond[shown], "o", markersize=4 + 2 * step, fillstyle="none", color=MUTED,
                       label=f"step {step}")  # fmt: skip
    panel.yaxis.set_major_formatter(lambda share, place: f"{share:.0e}")
    panel.set_xlabel("deviations")
    panel.set_ylabel("share beyond")


def _draw_points(panel: "Axes", numbers: Mapping[str, Any]) -> None:
    for number, (name, curve) in enumerate(numbers["curves"].items()):
        panel.plot(
            numbers["levels"], curve, color=INK, linestyle=("-", "--")[number], label=f"guarantee, {RADII[name]}"
        )
        points = [point[2:] for point in numbers["points"] if point[0] == name]
        panel.plot(*zip(*points, strict=True), "o+"[number], color=BAD, markersize=4, label=f"tests, {RADII[name]}")
    panel.set_xlabel("alpha, at X")
    panel.set_ylabel("beta, at X + e")
