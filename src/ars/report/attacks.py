"""Runs under attack: an upper bound on robust accuracy beside the certified curve, and what each multiple came to."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from ars.report.curves import BARE, MARGINS, PANEL, POINTS, accuracy_curves, set_axes
from ars.report.grouping import Group, Section
from ars.report.measures import outcomes, rounded, unit_scale
from ars.report.rendering import UNDECIDED, Column, markdown_rows
from ars.report.style import Look, Picture, looks_of, style
from ars.runs.attacks import IMAGE_LEVEL, Attacks, read_attacks, targets_of
from ars.runs.paths import attack_path
from ars.runs.records import Record, ReportError
from ars.runs.run import Run

HOW_TO_READ = (
    "Certified accuracy is a lower bound on robust accuracy. Accuracy under attack estimates an upper bound: the share "
    "of images that are certified right and keep the vote against the strongest attack within the radius. In both, "
    "abstentions count as wrong. An image is attacked at multiples of its own radius only; between and beyond them its "
    "last answer stands. Lost: another class leads the fresh votes of the strongest attack. Significant: the label has "
    f"lost its lead at level {IMAGE_LEVEL:g}. The last columns are the votes lost to each kind of attack."
)


@dataclass(frozen=True)
class AttackedRun:
    """A run and the attacks on its certificates."""

    run: Run
    attacks: Attacks

    @cached_property
    def records(self) -> tuple[Record, ...]:
        """The records before the first certified image that was not attacked."""
        left = targets_of(self.run.records)[len(self.attacks.images) :]
        return tuple(record for record in self.run.records if not left or record.certificate.index < left[0].index)

    def certified_accuracy(self, radii: NDArray[np.float64]) -> NDArray[np.float64]:
        """The share of these images that are certified right at each radius."""
        curve: NDArray[np.float64] = accuracy_curves([outcomes(self.records, self.run.settings.bound)], radii)[0]
        return curve

    def attacked_accuracy(self, radii: NDArray[np.float64]) -> NDArray[np.float64]:
        """The share that is certified right and that no attack within the radius took the vote from."""
        lost_at = {image.target.index: image.lost_at for image in self.attacks.images}
        right = [record.certificate.index for record in self.records if record.correct]
        falls = np.sort([lost_at.get(index, np.inf) for index in right])
        kept: NDArray[np.float64] = (len(right) - np.searchsorted(falls, radii, side="right")) / len(self.records)
        return kept


@dataclass(frozen=True)
class AttackedGroup:
    """A group with its attacked runs."""

    group: Group
    runs: tuple[AttackedRun, ...]

    @property
    def label(self) -> str:
        """The name of the group's lines, with the number of images if the curves are not of all."""
        counts = {len(one.records) for one in self.runs if len(one.records) < len(one.run.records)}
        return f"{self.group.label}, first {min(counts)} images" if counts else self.group.label

    def mean(self, curve: str, radii: NDArray[np.float64]) -> NDArray[np.float64]:
        """The mean of a curve over the attacked seeds, in percent."""
        every: NDArray[np.float64] = np.mean([getattr(one, curve)(radii) for one in self.runs], axis=0)
        return 100 * every


def load_attacks(runs: Sequence[Run], name: str) -> dict[Path, AttackedRun]:
    """The attacks on certify/<name> of those runs that have some, by the path of the run."""
    found = {}
    for run in runs:
        attacks = read_attacks(run.path, name)
        if attacks is None or not attacks.images:
            continue
        if not attacks.fit(run.model, targets_of(run.records)):
            raise ReportError(f"{attack_path(run.path, name)} holds attacks on other certificates; move it away")
        found[run.path] = AttackedRun(run, attacks)
    return found


def attacked_groups(section: Section, attacked: Mapping[Path, AttackedRun]) -> tuple[AttackedGroup, ...]:
    """The groups of a section with attacked runs."""
    found = ((group, [attacked[run.path] for run in group.runs if run.path in attacked]) for group in section.groups)
    return tuple(AttackedGroup(group, tuple(runs)) for group, runs in found if runs)


def draw_attacks(
    sections: Sequence[Sequence[AttackedGroup]],
    *,
    looks: Mapping[str, Look] | None = None,
    headings: Sequence[str] = (),
) -> Picture:
    """A panel per section; without headings for a page that has them."""
    from matplotlib.figure import Figure

    looks = looks or looks_of(member.group.method for members in sections for member in members)
    width, height = PANEL if headings else BARE
    with style():
        figure = Figure(figsize=(width, height * len(sections)), layout="constrained" if headings else None)
        panels = figure.subplots(len(sections), squeeze=False)[:, 0]
        if not headings:
            figure.subplots_adjust(**MARGINS)
        for panel, members in zip(panels, sections, strict=True):
            norm, limit = members[0].group.settings.norm, _largest_radius(members)
            radii = np.linspace(0, limit, 2 * POINTS)
            x = radii * unit_scale(norm)
            for member in members:
                colour, dashes = looks[member.group.method]
                certified, kept = (member.mean(f"{name}_accuracy", radii) for name in ("certified", "attacked"))
                # neither curve promises more than is known between two points: one holds to the left, one to the right
                panel.plot(x, certified, drawstyle="steps-pre", color=colour, linestyle=dashes, linewidth=1.9,
                           label=f"{member.label}, certified")  # fmt: skip
                panel.plot(x, kept, drawstyle="steps-post", color=colour, linestyle=dashes, linewidth=0.9,
                           label=f"{member.label}, under attack")  # fmt: skip
            set_axes(panel, norm, limit, "accuracy (%)")
        for panel, heading in zip(panels, headings, strict=False):
            panel.set_title(heading, loc="left", fontsize=11, fontweight="bold")
        return Picture(figure, "Certified accuracy, and accuracy under attack, against the radius")


def _largest_radius(members: Sequence[AttackedGroup]) -> float:
    """Where the axis ends: beyond the largest certified radius, and where half of the lost labels are lost."""
    images = [image for member in members for one in member.runs for image in one.attacks.images]
    lost = [image.lost_at for image in images if image.lost_at < np.inf]
    largest = max(image.target.radius for image in images)
    return 1.04 * max(largest, float(np.median(lost)) if lost else 0.0)


def attack_columns(members: Sequence[AttackedGroup]) -> list[Column]:
    """The table of attacks: one row per run and multiple."""
    every = [one for member in members for one in member.runs]
    kinds = list(dict.fromkeys(kind for one in every for kind in one.attacks.kinds))
    names = ("run", "times the radius", "certified images", "lost", "significant", *kinds)
    rows = [cells for one in every for cells in _rows(one, kinds)]
    return [Column(name, name, texts) for name, texts in zip(names, zip(*rows, strict=True), strict=True)]


def _rows(one: AttackedRun, kinds: Sequence[str]) -> Iterator[tuple[str, ...]]:
    attacks, count = one.attacks, len(one.attacks.images)
    for times in attacks.times:
        lost = attacks.lost(times)
        by_kind = [f"{attacks.lost(times, kind)}" if kind in attacks.kinds else UNDECIDED for kind in kinds]
        share = f"{lost} ({rounded(100 * lost / count, 0)}%)"
        yield one.run.name, f"{times:g}", f"{count}", share, f"{attacks.significant(times)}", *by_kind


def attacks_markdown(sections: Sequence[tuple[str, Sequence[AttackedGroup]]]) -> str:
    """The tables of attacks as Markdown, one heading per section."""
    parts = [f"## {heading}\n\n{markdown_rows(attack_columns(members))}" for heading, members in sections]
    return "\n\n".join((*parts, HOW_TO_READ)) + "\n"
