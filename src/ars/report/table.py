"""The table as data: a row per group and bound, a block per section and bound."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from ars.certification.bounds import Bound
from ars.report.grouping import Group, Section, comparable
from ars.report.measures import BOUND_NAMES, Spread, in_units, round_radii, unit_scale
from ars.runs.logs import Log
from ars.runs.records import ReportError
from ars.runs.run import Run
from ars.runs.test_images import Judged
from ars.runs.vote_count import standard_error
from ars.theory import Norm


@dataclass(frozen=True)
class Row:
    """The measures of one group under one bound; radii and times as recorded, accuracies as fractions."""

    group: Group
    bound: Bound
    standard: Spread
    certified: tuple[Spread, ...]
    average_radius: Spread
    abstentions: Spread
    draws: Spread
    seconds: Spread

    @property
    def images(self) -> int:
        """n, the number of images; the least one where the seeds differ."""
        return min(len(run.records) for run in self.group.runs)

    @property
    def images_text(self) -> str:
        """n, from the least to the most where the seeds differ; with a star where images are still to be certified."""
        most = max(len(run.records) for run in self.group.runs)
        return (f"{self.images}" if most == self.images else f"{self.images}-{most}") + ("*" if self.missing else "")

    @property
    def missing(self) -> int:
        """Images that are still to be certified, over all seeds."""
        return sum(run.missing for run in self.group.runs)

    @property
    def standard_error(self) -> float | None:
        """The standard error of the standard accuracy of one seed, from its n images; the largest of the seeds'."""
        return max((standard_error(accuracy, self.images) for accuracy in self.standard.values), default=None)


@dataclass(frozen=True)
class Block:
    """The rows of a section under one bound; the chosen bound is the headline, any other stands apart."""

    section: Section
    bound: Bound
    headline: bool
    radii: tuple[float, ...]
    rows: tuple[Row, ...]
    logs: tuple[Log, ...] = ()
    """Logs that stand beside the rows; nothing in them was checked."""

    @property
    def norm(self) -> Norm:
        """The threat's norm."""
        return self.section.first.settings.norm

    @property
    def caption(self) -> str:
        """What was bounded how, for a heading, with the alpha and the N that all rows have."""
        alpha = "several α" if self.section.alpha is None else f"α = {self.section.alpha}"
        alpha += ", several N" if self.section.draws is None else f", N = {self.section.draws}".replace("= ≤", "≤")
        only = ", decided at these radii only" if self.section.first.settings.schedule.radii else ""
        modes = {row.group.settings.exact for row in self.rows}
        mode = ", exact and default mode" if len(modes) > 1 else ", exact mode" if True in modes else ""
        return f"under {BOUND_NAMES[self.bound]}, {alpha}{only}{mode}"

    @property
    def judged(self) -> str:
        """How much of the test set was judged, for a caption; every answer where runs differ in it."""
        runs = [run for row in self.rows for run in row.group.runs]
        return judged_text(runs, runs)

    @property
    def images(self) -> str | None:
        """How many images all rows have answers for; None where they differ in it."""
        found = {row.images_text for row in self.rows}
        return _so_far(found.pop()) if len(found) == 1 else None

    def label(self, row: Row) -> str:
        """The name of a row's line in a figure, with its alpha, N and number of images where rows differ in it."""
        own = f", α = {row.group.settings.alpha}" if self.section.alpha is None else ""
        own += f", N = {row.group.draws}".replace("= ≤", "≤") if self.section.draws is None else ""
        own += f", {_so_far(row.images_text)}" if self.images is None else ""
        return row.group.label + own

    @property
    def other_images(self) -> str:
        """Which runs answered for the same images, where not all did; else empty."""
        if self.section.same_images:
            return ""
        sets = " | ".join(", ".join(run.name for run in runs) for runs in self.section.image_sets)
        return f"The runs did not all answer for the same images; only those of one set can be compared: {sets}."


def judged_text(runs: Iterable[Run], among: Iterable[Run]) -> str:
    """How much of the test set some runs judged; early records lack its size, which others among them may know."""
    known = {run.judged for run in among if run.judged.of_images is not None}

    def told(one: Judged) -> str:
        same = [other for other in known if replace(other, of_images=one.of_images) == one]
        return str(same[0] if len(same) == 1 else one)

    return " or ".join(dict.fromkeys(told(run.judged) for run in runs))


def _so_far(images: str) -> str:
    """A number of images in words; a star stands for those that are still to be certified."""
    return f"{images} images".replace("* images", " images so far")


@dataclass(frozen=True)
class Table:
    """The blocks of every section, the headline of each first."""

    sections: tuple[tuple[Block, ...], ...]

    @property
    def blocks(self) -> tuple[Block, ...]:
        """All blocks in order."""
        return tuple(block for section in self.sections for block in section)


def make_table(sections: Sequence[Section]) -> Table:
    """Measure every group under every bound, at its grid of radii or at round ones, the same for all runs of a norm."""
    free = [section for section in sections if not section.first.settings.schedule.radii]
    return Table(tuple(_make_blocks(section, _radii(section, free)) for section in sections))


def _make_blocks(section: Section, radii: tuple[float, ...]) -> tuple[Block, ...]:
    blocks = []
    for bound in section.bounds:
        rows = tuple(make_row(group, bound, radii) for group in section.groups if group.has(bound))
        blocks.append(Block(section, bound, bound == section.first.settings.bound, radii, rows))
    return tuple(blocks)


def _radii(section: Section, free: Sequence[Section]) -> tuple[float, ...]:
    """The section's own grid without radius 0, which is the standard accuracy; else round radii."""
    norm, grid = section.first.settings.norm, section.first.settings.schedule.radii
    if grid:
        return tuple(in_units(radius, norm) for radius in grid if radius > 0)
    groups = [group for other in free if other.first.settings.norm == norm for group in other.groups]
    answers = [answer for group in groups for answer in group.outcomes(group.settings.bound)]
    largest = max((float(answer.radius[answer.correct].max(initial=0.0)) for answer in answers), default=0.0)
    return round_radii(in_units(largest, norm))


def beside(table: Table, logs: Sequence[Log], norm: Norm) -> Table:
    """The table with logs of radii in this norm beside the headline of each section of it."""
    if logs and not any(block.norm == norm for block in table.blocks):
        raise ReportError(f"the logs hold {norm} radii, but no run was certified in {norm}; see --log-norm")

    def with_logs(block: Block) -> Block:
        return replace(block, logs=tuple(logs)) if block.headline and block.norm == norm else block

    return Table(tuple(tuple(map(with_logs, blocks)) for blocks in table.sections))


def make_row(group: Group, bound: Bound, radii: Sequence[float]) -> Row:
    """Measure a group under a bound; a measure that its certification did not decide has no values."""
    answers = group.outcomes(bound)
    scale = unit_scale(group.settings.norm)
    return Row(
        group=group,
        bound=bound,
        standard=Spread.of(one.certified_accuracy(0.0) for one in answers),
        certified=tuple(Spread.of(one.certified_accuracy(radius / scale) for one in answers) for radius in radii),
        average_radius=Spread.of(one.average_radius for one in answers),
        abstentions=Spread.of(one.abstention_rate for one in answers),
        draws=Spread.of(mean([one.certificate.n_estimate for one in run.records]) for run in group.runs),
        seconds=Spread.of(mean([one.seconds for one in run.records]) for run in group.runs),
    )


def mean(values: Sequence[float]) -> float:
    """The mean of some values."""
    return sum(values) / len(values)


def comparable_pairs(block: Block) -> list[tuple[Group, Group]]:
    """Every two rows of a block that can be compared, the later row first; pairs of the last row come first."""
    groups = [row.group for row in block.rows]
    pairs = ((one, other) for number, one in reversed(list(enumerate(groups))) for other in groups[:number])
    return [pair for pair in pairs if comparable(*pair)]
