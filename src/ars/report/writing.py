"""The report: from run folders to a folder of files."""

import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from ars.atomic import remove_stale, write_whole
from ars.report.attacks import AttackedRun, attacked_groups, attacks_markdown, draw_attacks, load_attacks
from ars.report.curves import draw_curves
from ars.report.grouping import Group, make_sections
from ars.report.measures import Spread, norm_name
from ars.report.page import make_page
from ars.report.paper import published
from ars.report.pipeline_figure import Pipeline, make_pipeline
from ars.report.rendering import images_csv, to_json, to_markdown
from ars.report.table import Block, Table, beside, make_table
from ars.report.views import Member, View
from ars.runs.logs import read_log, to_log
from ars.runs.paths import MAIN, digest_of
from ars.runs.records import ReportError
from ars.runs.run import load_runs, train_seconds
from ars.runs.vote_count import read_tally
from ars.theory import Norm
from ars.untrusted import parse_json, read_text

LIST = "report-files.json"
"""By this list the next report into the same folder knows the files of the earlier one."""


@dataclass(frozen=True)
class Report:
    """What was written: the files, and the table for whoever wants to print it."""

    table: Table
    files: tuple[Path, ...]


def write_report(
    runs: Sequence[Path],
    out: Path,
    *,
    name: str = MAIN,
    partial: bool = False,
    logs: Sequence[Path] = (),
    log_norm: Norm = "l2",
) -> Report:
    """Write the table, images, figures and the page of some runs into the folder out, from the runs' files alone.

    name is the certification that is reported, certify/<name> of every run; one that is not complete is refused unless
    partial is asked for. All is drawn before anything is written, and equal run folders give equal files. What an
    earlier report wrote into out and this one does not is removed, if nobody has changed it since.

    logs are logs of locuslab's form, whose radii are in log_norm; they stand beside the runs of that norm, unchecked.
    """
    loaded = load_runs(runs, name=name, partial=partial)
    table = beside(make_table(make_sections(loaded)), [read_log(path) for path in logs], log_norm)
    pipelines = {run.name: make_pipeline(run) for run in loaded if run.stages is not None}
    curves = draw_curves(table.sections)
    attacked = load_attacks(loaded, name)
    views = [view_of_runs(blocks, pipelines, attacked) for blocks in table.sections]
    contents: dict[str, bytes] = {
        "index.html": make_page(views).encode(errors="replace"),
        "table.md": to_markdown(table).encode(errors="replace"),
        "table.json": to_json(table).encode(),
        "curves.svg": curves.svg,
        "curves.png": curves.png,
    }
    if under_attack := [(view.heading, view.attacked) for view in views if view.attacked]:
        picture = draw_attacks([members for _, members in under_attack], headings=[name for name, _ in under_attack])
        contents |= {"attacks.svg": picture.svg, "attacks.png": picture.png}
        contents["attacks.md"] = attacks_markdown(under_attack).encode(errors="replace")
    for run in loaded:  # names of files may hold bytes that are no text
        contents[f"images-{run.name}.csv"] = images_csv(run).encode(errors="surrogateescape")
        contents[f"log-{run.name}.tsv"] = to_log(run.records).encode()
    for run_name, pipeline in pipelines.items():
        contents[f"pipeline-{run_name}.svg"] = pipeline.picture.svg
        contents[f"pipeline-{run_name}.png"] = pipeline.picture.png
    files = write_all(out, contents)
    remove_listed(out, written=contents)
    return Report(table, (*files, *write_all(out, {LIST: make_list(contents)})))


def view_of_runs(
    blocks: tuple[Block, ...], pipelines: Mapping[str, Pipeline], attacked: Mapping[Path, AttackedRun]
) -> View:
    """The view of a section of run folders; pipelines are given by run name, attacks by the run's path."""
    section = blocks[0].section
    first, norm = section.first, section.first.settings.norm
    _, height, width = first.shape
    at = (width, first.sigma) if height == width and norm == "linf" else (0, 0.0)
    drawn = ([pipelines[run.name] for run in group.runs if run.name in pipelines] for group in section.groups)
    size = f"{height}" if height == width else f"{height}×{width}"
    return View(
        place={"benchmark": first.title, "norm": norm_name(norm), "k": size, "sigma": f"{first.sigma:g}"},
        heading=section.heading,
        about=f"{norm_name(norm)} perturbations, radii in {'1/255' if norm == 'linf' else 'units'} of the pixel range; "
        f"{blocks[0].caption}; {blocks[0].judged}.",
        blocks=blocks,
        members=tuple(_member_of(group, published.text(first.kind, (*at, group.method))) for group in section.groups),
        missing=published.lacking(first.kind, at, {group.method for group in section.groups}),
        pipelines=tuple(sorted((found[0] for found in drawn if found), key=lambda one: -len(one.stages.rows))),
        listed=section.runs,
        attacked=attacked_groups(section, attacked),
    )


def _member_of(group: Group, paper: str | None) -> Member:
    votes = [tally for run in group.runs if (tally := read_tally(run.path)) and tally.model == run.model]
    seconds = [taken for run in group.runs if (taken := train_seconds(run.path)) is not None]
    whole = len({(tally.images, tally.draws) for tally in votes}) == 1 and len(votes) == len(group.runs)
    return Member(
        method=group.method,
        label=group.label,
        group=group,
        votes=Spread(tuple(tally.accuracy for tally in votes)) if whole else Spread(),
        minutes=Spread(tuple(taken / 60 for taken in seconds)),
        paper=paper or "",
    )


def write_all(out: Path, contents: Mapping[str, bytes]) -> tuple[Path, ...]:
    """Write files by their path below out, each as a whole; none is written elsewhere by a name or a link."""
    for name in contents:
        parts = PurePosixPath(name).parts
        if ".." in parts or len(parts) > 2 or parts[0] == "/":
            raise ReportError(f"{name!r} is no name for a file of the report; rename what it is called after")
    for folder in {(out / name).parent for name in contents}:
        if folder != out and folder.is_symlink():
            raise ReportError(f"{folder} is a link to another folder; replace it by a folder, or choose another --out")
        remove_stale(folder)
    for name, content in contents.items():
        write_whole(out / name, content)
    return tuple(out / name for name in contents)


def make_list(contents: Mapping[str, bytes]) -> bytes:
    """The content of LIST: the name of every file with its SHA-256."""
    files = {name: hashlib.sha256(content).hexdigest() for name, content in contents.items()}
    return (json.dumps({"made_by": "ars report", "files": files}, indent=1) + "\n").encode()


def remove_listed(out: Path, *, written: Iterable[str]) -> None:
    """Remove the files of out that its list names, unless they were written now or are no longer as they were."""
    try:
        content = parse_json(read_text(out / LIST))
        listed = {str(name): str(digest) for name, digest in content["files"].items()}
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return
    files = [path for path in out.iterdir() if path.name in listed and path.is_file() and not path.is_symlink()]
    remove_others(out, [path.name for path in files if digest_of(path) == listed[path.name]], written=written)


def remove_others(out: Path, names: Iterable[str], *, written: Iterable[str]) -> None:
    """Remove files of out and its folders by their names, but none that was written now: A and a may be one file."""
    now, names = [out / name for name in written], set(names)
    tops = {name.partition("/")[0] for name in names}
    inner = (path for path in out.iterdir() if path.name in tops)
    folders = [out, *(path for path in inner if path.is_dir() and not path.is_symlink())]
    for path in (path for folder in folders for path in folder.iterdir()):
        listed = path.relative_to(out).as_posix() in names and path.is_file()
        if listed and not any(path.samefile(other) for other in now):
            path.unlink()
