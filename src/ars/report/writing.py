"""The report: from run folders to a folder of files."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from ars.certification.run_folder import MAIN
from ars.certification.writing import remove_stale, write_whole
from ars.report.curves import draw_curves
from ars.report.groups import make_sections
from ars.report.images import to_csv
from ars.report.listed import LIST, make_list, remove_listed
from ars.report.page import Pipeline, make_page
from ars.report.pipeline import draw_pipeline, load_stages
from ars.report.rendering import to_json, to_markdown
from ars.report.results import Run, load_runs
from ars.report.table import Table, make_table


@dataclass(frozen=True)
class Report:
    """What was written: the files, and the table for whoever wants to print it."""

    table: Table
    files: tuple[Path, ...]


def write_report(runs: Sequence[Path], out: Path, *, name: str = MAIN, partial: bool = False) -> Report:
    """Write the table, images, figures and the page of some runs into the folder out, from the runs' files alone.

    name is the certification that is reported, certify/<name> of every run; one that is not complete is refused unless
    partial is asked for. All is drawn before anything is written, and equal run folders give equal files. What an
    earlier report wrote into out and this one does not is removed, if nobody has changed it since.
    """
    loaded = load_runs(runs, name=name, partial=partial)
    table = make_table(make_sections(loaded))
    pipelines = {run.name: _make_pipeline(run) for run in loaded if run.stages is not None}
    curves = draw_curves(table.sections)
    contents: dict[str, bytes] = {
        "index.html": make_page(table, pipelines).encode(errors="replace"),
        "table.md": to_markdown(table).encode(errors="replace"),
        "table.json": to_json(table).encode(),
        "curves.svg": curves.svg,
        "curves.png": curves.png,
    }
    for run in loaded:  # names of files may hold bytes that are no text
        contents[f"images-{run.name}.csv"] = to_csv(run).encode(errors="surrogateescape")
    for run_name, pipeline in pipelines.items():
        contents[f"pipeline-{run_name}.svg"] = pipeline.picture.svg
        contents[f"pipeline-{run_name}.png"] = pipeline.picture.png
    files = write_all(out, contents)
    remove_listed(out, written=contents)
    return Report(table, (*files, *write_all(out, {LIST: make_list(contents)})))


def _make_pipeline(run: Run) -> Pipeline:
    stages = load_stages(run)
    return Pipeline(run, stages, draw_pipeline(run, stages))


def write_all(out: Path, contents: Mapping[str, bytes]) -> tuple[Path, ...]:
    """Write files by their path below out, each as a whole."""
    for folder in {(out / name).parent for name in contents}:
        remove_stale(folder)
    for name, content in contents.items():
        write_whole(out / name, content)
    return tuple(out / name for name in contents)
