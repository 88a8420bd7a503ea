"""The images of a run one by one, for a spreadsheet."""

import csv
import io

from ars.report.measures import show_grid_radius, show_radius
from ars.report.results import Run

DECIMALS = 4


def to_csv(run: Run) -> str:
    """A line an image: its file where that is known, true class, label, radius, candidate and the votes for it.

    The label is empty where the model abstained. Radii are those of the run's norm, which stands beside them, and
    bound, in 1/255 for Linf, and cut.
    """
    norm, grid = run.settings.norm, run.settings.schedule.radii
    show = show_grid_radius if grid else show_radius
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    radius = "radius_255" if norm == "linf" else "radius"
    writer.writerow(["index", "file", "truth", "label", radius, "norm", "candidate", "votes", "draws"])
    for record in run.records:
        it = record.certificate
        writer.writerow(
            [
                it.index,
                run.files[it.index] if run.files else "",
                run.class_names[record.truth],
                "" if it.label is None else run.class_names[it.label],
                show(it.radius, norm, DECIMALS),
                norm,
                run.class_names[it.candidate],
                it.counts[it.candidate],
                it.n_estimate,
            ]
        )
    return text.getvalue()
