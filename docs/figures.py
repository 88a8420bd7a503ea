"""Draw the figures of the documents: from the theory, from the committed records, and from the models of the package.

python docs/figures.py [NAME ...] [--out DIR]
"""

import argparse
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from matplotlib.axes import Axes
from matplotlib.figure import Figure

import ars
from ars.certification.bounds import lower_bound
from ars.data import Data, open_benchmark
from ars.report.curves import accuracy_curves
from ars.report.measures import method_name, outcomes
from ars.report.pipeline_figure import Line, StageRow, answer_line, draw_columns
from ars.report.style import GOOD, INK, MUTED, Picture, looks_of, style
from ars.runs.run import load_runs
from ars.theory import rs_radius_l2
from ars.theory.rounding import truncate
from ars.workflows.stages import average_masks, take_apart

ROOT = Path(__file__).resolve().parents[1]
FOLDER = ROOT / "docs" / "figures"
ALPHA = 0.001
SHARES = {0.9: "#0072B2", 0.99: "#C44E00", 1.0: "#047857"}
"""Shares of the votes, and the colours of their lines."""
DASHES = {0.25: ":", 0.5: "--", 1.0: "-"}
CELLS = ("cross/{}-k96-s0.25-seed0", "cross/{}-k96-s0.5-seed0", "headline/{}-k96-s1-seed0")


def panels(count: int) -> tuple[Figure, list[Axes]]:
    """Panels side by side."""
    figure = Figure(figsize=(4.6 * count, 3.6), layout="constrained")
    return figure, list(figure.subplots(1, count, squeeze=False)[0])


def radius(share: float, draws: int, alpha: float) -> float:
    """The certified L2 radius, in units of sigma, if this share of the draws agrees."""
    p = lower_bound(int(share * draws), draws, alpha)
    return rs_radius_l2(1.0, p, 1 - p)


def draws() -> Picture:
    """The radius against N and against alpha, for three shares of agreeing votes."""
    figure, (by_draws, by_alpha) = panels(2)
    numbers = np.unique(np.logspace(1.5, 6, 80).astype(int))
    alphas = np.logspace(-6, -1, 60)
    for share, colour in SHARES.items():
        line: dict[str, Any] = {"color": colour, "linewidth": 1.9, "label": f"{100 * share:g}% of the votes agree"}
        by_draws.plot(numbers, [radius(share, int(n), ALPHA) for n in numbers], **line)
        by_alpha.plot(alphas, [radius(share, 10_000, alpha) for alpha in alphas], **line)
    by_draws.set(xscale="log", xlabel=f"draws N, at α = {ALPHA}")
    by_draws.set_xticks([100, 1_000, 10_000, 100_000, 1_000_000], ["100", "1,000", "10,000", "100,000", "10⁶"])
    by_draws.set_ylabel("certified L2 radius, in units of σ")
    by_draws.legend(frameon=False, fontsize=9, loc="upper left")
    by_alpha.set(xscale="log", xlabel="α, with N = 10,000 draws")
    by_alpha.set_xticks([1e-6, 1e-5, 1e-4, 1e-3, 0.01, 0.1], ["10⁻⁶", "10⁻⁵", ".0001", ".001", ".01", ".1"])
    for panel in (by_draws, by_alpha):
        panel.set_ylim(0, 4.8)
    return Picture(figure, "The largest certified radius against the number of draws and against alpha")


def noise() -> Picture:
    """Certified accuracy of Cohen et al. and ARS at three noise levels, from the committed records."""
    figure, axes = panels(2)
    grid = np.linspace(0, 3 / 255, 200)
    for panel, method in zip(axes, ("cohen", "adaptive"), strict=True):
        colour = looks_of([method])[method].colour
        cells = [ROOT / "results" / cell.format(method) for cell in CELLS]
        for run in load_runs(cells):
            sigma = run.recipe["sigma"]
            [curve] = accuracy_curves([outcomes(run.records, "cohen")], grid)
            line = {"color": colour, "linestyle": DASHES[sigma], "linewidth": 1.9, "label": f"σ = {sigma:g}"}
            panel.plot(255 * grid, 100 * curve, **line)
        panel.set_title(method_name(method), loc="left", fontsize=11, fontweight="bold")
        panel.set_xlabel("Linf radius (in 1/255 of the pixel range)")
        panel.set_ylim(0, 100)
        panel.legend(frameon=False, fontsize=9)
    axes[0].set_ylabel("certified accuracy (%)")
    return Picture(figure, "Certified accuracy against the radius at three noise levels, for Cohen et al. and ARS")


def certificate() -> Picture:
    """One image on its way to a certificate: noisy copies with their answers, the votes, and the radius."""
    model = ars.load("digits")
    images, [truth] = open_benchmark(Data()).examples("test", [1])
    [answer] = ars.certify(model, images, n_estimate=1_000, alpha=ALPHA, seed=0)
    copies = images.expand(5, -1, -1, -1)
    votes = model(copies, torch.Generator().manual_seed(0)).argmax(1).tolist()
    pictures = [images[0].numpy(), *take_apart(model, copies, seed=0)["average"]]
    titles = [("the image", INK, 0), *(answer_line(f"says {vote}", correct=vote == truth) for vote in votes)]

    figure = Figure(figsize=(9.4, 4.4), layout="constrained")
    grid = figure.add_gridspec(2, 6, height_ratios=[1, 1.25])
    for column, (picture, (text, colour, _)) in enumerate(zip(pictures, titles, strict=True)):
        panel = figure.add_subplot(grid[0, column])
        panel.imshow(picture.transpose(1, 2, 0).clip(0, 1), interpolation="none")
        panel.set_title(text, fontsize=10, color=colour)
        panel.axis("off")
    bars = figure.add_subplot(grid[1, :3], axisbelow=True)
    bars.bar(range(10), answer.counts, color=[GOOD if label == answer.label else MUTED for label in range(10)])
    bars.set(xticks=range(10), xlabel="class", ylabel="votes of 1,000 noisy copies")
    ball = figure.add_subplot(grid[1, 3:])
    within = 255 * answer.radius
    ball.axvspan(0, within, color=GOOD, alpha=0.2, linewidth=0)
    ball.axvline(within, color=GOOD, linewidth=2)
    ball.text(within / 2, 0.5, f"every change\nup to here:\nstill {answer.label}", ha="center", va="center")
    ball.text(1.5 * within, 0.5, "nothing is\npromised", ha="center", va="center", color=MUTED)
    ball.set(xlim=(0, 2 * within), ylim=(0, 1), yticks=[], xlabel="change of each pixel, in levels of 255")
    return Picture(figure, "From an image to its certificate")


def what_is_seen() -> Picture:
    """What the classifier sees of six images: in Cohen et al., and in ARS with its mask."""
    images, labels = open_benchmark(Data()).examples("test", range(6))
    seen, certified = {}, {}
    for name in ("digits-cohen", "digits"):
        model = ars.load(name)
        seen[name] = take_apart(model, images, seed=0)["average"]
        certified[name] = ars.certify(model, images, n_estimate=1_000, alpha=ALPHA, seed=0)
    masks = np.stack([average_masks(model, image, seed=0)[0].numpy() for image in images])[:, None]
    rows = [
        StageRow("image", "the image as it is", images.numpy()),
        StageRow("Cohen et al.", "all that the classifier sees", seen["digits-cohen"]),
        StageRow("ARS' mask", "the mask", masks, mask=True),
        StageRow("ARS", "all that the classifier sees", seen["digits"]),
    ]
    truths = labels.tolist()
    notes = [
        [_radius_line("Cohen", plain, truth), _radius_line("ARS", masked, truth)]
        for plain, masked, truth in zip(*certified.values(), truths, strict=True)
    ]
    heading = "The same noise budget, without and with a mask"
    about = "masks are averages of 100 draws; above: the true class; below: certified radii in 1/255, from 1,000 draws"
    figure = draw_columns(rows, [str(truth) for truth in truths], notes, heading=heading, about=about)
    return Picture(figure, heading)


def _radius_line(name: str, certificate: ars.Certificate, truth: int) -> Line:
    if certificate.label is None:
        return f"{name}: abstains", MUTED, 8.5
    right = f"r = {truncate(255 * certificate.radius, 1)}"
    return f"{name}: {right if certificate.label == truth else 'wrong'}", INK, 8.5


FIGURES: dict[str, Callable[[], Picture]] = {
    "draws.svg": draws,
    "noise.svg": noise,
    "certificate.png": certificate,
    "what-is-seen.png": what_is_seen,
}


def main() -> None:
    """Write the figures."""
    parser = argparse.ArgumentParser(description="Draw the figures of the documents.")
    parser.add_argument("names", nargs="*", help=f"which: {', '.join(FIGURES)}; without any: all")
    parser.add_argument("--out", type=Path, default=FOLDER, help="the folder")
    given = parser.parse_args()
    for name in given.names or FIGURES:
        with style():
            picture = FIGURES[name]()
            (given.out / name).write_bytes(picture.svg if name.endswith("svg") else picture.png)


if __name__ == "__main__":
    main()
