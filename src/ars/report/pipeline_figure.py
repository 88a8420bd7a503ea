"""The pipeline figure: what every step of one draw does to an image, one column per image."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ars.report.measures import BOUND_NAMES, heading_of, method_name, show_radius, unit_name
from ars.report.style import BAD, GOOD, INK, MUTED, Picture, data_uri, fit, style
from ars.runs.paths import PACKED
from ars.runs.records import ReportError
from ars.runs.run import Run
from ars.untrusted import read_arrays

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

Line = tuple[str, str, float]  # text, colour, size
Images = NDArray[np.floating[Any]]

MOST_COLUMNS = 8
INCH = 1.05
LONGEST_NAME = 12
LABELS_INCH = 1.15
AVERAGE = "average"
SUBSCRIPTS = str.maketrans("0123456789", "₀₁₂₃₄₅₆₇₈₉")


@dataclass(frozen=True)
class StageRow:
    """One row of the figure: a label, what it shows in words, and images [n, c, h, w]."""

    label: str
    meaning: str
    images: Images
    mask: bool = False


@dataclass(frozen=True)
class Stages:
    """The draws that were taken apart: which images, and the rows from the input to what the classifier sees."""

    index: tuple[int, ...]
    truth: tuple[int, ...]
    rows: tuple[StageRow, ...]


def load_stages(run: Run) -> Stages:
    """Read stages.npz of a run that has one."""
    if run.stages is None:
        raise ReportError(f"{run.path} has no stages; run `ars certify {run.path} --stages N` first")
    try:
        content: dict[str, Images] = read_arrays(run.stages)
        n = len(content["index"])
        if n == 0 or content["input"].shape != (n, *run.shape):
            raise ValueError(f"need one or more images of shape {run.shape}, got {content['input'].shape}")
        if not set(content["truth"].tolist()) <= set(range(len(run.class_names))):
            raise ValueError(f"a true class is none of the {len(run.class_names)} of the benchmark")
        rows = stage_rows(content)
    except (KeyError, ValueError) as error:
        packed = (run.stages.parent / PACKED).exists()
        advice = "pack the cell again" if packed else f"run `ars certify {run.path} --stages N` again"
        raise ReportError(f"{run.stages} does not hold the stages of a draw ({error}); {advice}") from error
    return Stages(tuple(content["index"].tolist()), tuple(content["truth"].tolist()), rows)


def stage_rows(content: Mapping[str, Images]) -> tuple[StageRow, ...]:
    """The rows from the input to what the classifier sees, from the arrays of a draw that was taken apart."""
    steps = sum(name.startswith("value_") for name in content)
    rows = [StageRow("input X", "the image as it is", content["input"])]
    for step in range(1, steps + 1):
        sub = f"{step}".translate(SUBSCRIPTS)
        value, weight = content[f"value_{step}"], content[f"weight_{step}"]
        if np.all(weight == 1):
            rows.append(StageRow(f"m{sub}", f"the image plus the noise of step {step}", value))
        else:
            mask = weight.mean(axis=1, keepdims=True)
            rows.append(StageRow(f"mask w{sub}", _mask_meaning(step, weight), mask, mask=True))
            rows.append(StageRow(f"w{sub} · X", "the masked image", content[f"masked_{step}"]))
            rows.append(StageRow(f"m{sub}", f"the masked image plus the noise of step {step}", value))
    average = content["average"]
    if not np.array_equal(average, content[f"value_{steps}"]):
        rows.append(StageRow(AVERAGE, "the releases combined, all that the classifier sees", average))
    return tuple(rows)


def _mask_meaning(step: int, weight: Images) -> str:
    static = step == 1 or (len(weight) > 1 and bool(np.all(weight == weight[:1])))
    origin = "the same for all images" if static else f"computed from what was released before step {step}"
    return f"the mask, {origin}: dark hides a pixel (0), bright keeps it (1)"


def short(name: str) -> str:
    """A class name that fits over a column."""
    return name if len(name) <= LONGEST_NAME else name[: LONGEST_NAME - 1] + "…"


def draw_pipeline(run: Run, stages: Stages) -> Picture:
    """The rows of the first images, with the true class above and the certified answer below each column."""
    titles = [run.class_names[label] for label in stages.truth]
    answers = [_answer(run, index) for index in stages.index]
    how = f"under {BOUND_NAMES[run.settings.bound]}, α = {run.settings.alpha}"
    below = f"; below: the answer that is certified {how}, and its radius" if any(answers) else ""
    about = f"above: the true class{below}"
    seed = "" if "model" in run.recipe else f", seed {run.seed}"  # of what was trained here
    heading = f"{method_name(run.method)}, {heading_of(run)}{seed}"
    with style():
        figure = draw_columns(stages.rows, titles, answers, heading=heading, about=about)
        return Picture(figure, f"One draw taken apart: {heading}")


@dataclass(frozen=True)
class Pipeline:
    """The pipeline figure of a run with the stages that it shows."""

    run: Run
    stages: Stages
    picture: Picture

    @property
    def shown(self) -> int:
        """How many images have a column."""
        return min(len(self.stages.index), MOST_COLUMNS)

    @property
    def source(self) -> str:
        """The picture for the page, as PNG where SVG, sharp at any size, would be much larger."""
        svg, png = self.picture.svg, self.picture.png
        return data_uri("image/svg+xml", svg) if len(svg) <= 2 * len(png) else data_uri("image/png", png)


def make_pipeline(run: Run) -> Pipeline:
    """Read the stages of a run and draw them."""
    stages = load_stages(run)
    return Pipeline(run, stages, draw_pipeline(run, stages))


def draw_columns(
    rows: Sequence[StageRow], titles: Sequence[str], notes: Sequence[Sequence[Line]], *, heading: str, about: str
) -> "Figure":
    """The rows of the first images, one column per image, its title above and the lines of its note below.

    Over all stand the heading and what the rows, titles and notes are.
    """
    from matplotlib.figure import Figure

    columns = min(len(titles), MOST_COLUMNS)
    width = LABELS_INCH + columns * INCH + 0.15
    said = fit(f"one draw of each image; {_legend(rows)}; {about}", inches=width - 0.2, size=9)
    heads = fit(heading, inches=width - 0.3, size=11)
    top = 0.45 + 0.18 * len(heads) + 0.155 * len(said)
    height = len(rows) * INCH + 0.45 + top
    figure = Figure(figsize=(width, height))
    grid = figure.subplots(len(rows), columns, squeeze=False)
    figure.subplots_adjust(
        left=LABELS_INCH / width, right=1 - 0.15 / width, top=1 - top / height, bottom=0.45 / height,
        wspace=0.06, hspace=0.06,
    )  # fmt: skip
    for panels, row in zip(grid, rows, strict=True):
        for panel, image in zip(panels, row.images, strict=False):
            _show(panel, image, mask=row.mask)
        panels[0].text(-0.12, 0.5, row.label, transform=panels[0].transAxes, ha="right", va="center", fontsize=11)
    for column in range(columns):
        grid[0][column].set_title(short(titles[column]), fontsize=9.5, fontweight="bold", pad=5)
        panel = grid[-1][column]
        below: dict[str, Any] = {"transform": panel.transAxes, "ha": "center", "va": "top"}
        for number, (text, colour, size) in enumerate(notes[column]):
            panel.text(0.5, -0.1 - 0.19 * number, text, color=colour, fontsize=size, **below)
    over: dict[str, Any] = {"x": 0.1 / width, "va": "top"}
    figure.text(y=1 - 0.1 / height, s="\n".join(heads), fontsize=11, fontweight="bold", **over)
    figure.text(y=1 - (0.15 + 0.18 * len(heads)) / height, s="\n".join(said), fontsize=9, color=MUTED, **over)
    return figure


def _legend(rows: Sequence[StageRow]) -> str:
    """What the labels of the rows stand for."""
    masks = "; w: a mask, dark hides a pixel (0), bright keeps it (1)" if any(row.mask for row in rows) else ""
    average = "; average: all that the classifier sees" if rows[-1].label == AVERAGE else ""
    return f"m: what a step releases, noise and all{masks}{average}"


def _show(panel: "Axes", image: Images, *, mask: bool) -> None:
    shown = image.astype(np.float32).clip(0, 1).transpose(1, 2, 0)
    colours = "viridis" if mask else "gray"
    panel.imshow(shown[..., 0] if shown.shape[-1] == 1 else shown, cmap=colours, vmin=0, vmax=1, interpolation="none")
    panel.set_xticks([])
    panel.set_yticks([])
    panel.grid(visible=False)
    for spine in panel.spines.values():
        spine.set_visible(False)


def _answer(run: Run, index: int) -> list[Line]:
    """What was certified for an image, where it was."""
    record = next((record for record in run.records if record.certificate.index == index), None)
    if record is None:
        return []
    label, radius, norm = record.certificate.label, record.certificate.radius, record.certificate.norm
    if label is None:
        return [("abstains", MUTED, 9.5)]
    return [
        answer_line(run.class_names[label], correct=record.correct),
        (f"r = {show_radius(radius, norm)}{unit_name(norm)}", INK, 8.5),
    ]


def answer_line(name: str, *, correct: bool) -> Line:
    """A class as an answer that is right or wrong."""
    return (f"✓ {short(name)}", GOOD, 9.5) if correct else (f"✗ {short(name)}", BAD, 9.5)


def draw_one(draw: Mapping[str, Images], *, truth: Sequence[str], answers: Sequence[str], heading: str) -> bytes:
    """One draw of some images as a PNG: the true class above, the class that the draw got below.

    It shows, while a model is trained, whether its mask is learning.
    """
    notes = [[answer_line(answer, correct=answer == true)] for answer, true in zip(answers, truth, strict=True)]
    about = "above: the true class; below: the answer to this draw"
    with style():
        return Picture(draw_columns(stage_rows(draw), truth, notes, heading=heading, about=about), heading).png
