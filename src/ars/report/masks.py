"""The picture that shows, while a model is trained, whether its mask is learning."""

from collections.abc import Mapping, Sequence

from ars.report.figures import Picture, style
from ars.report.pipeline import Images, answer_line, draw_columns, stage_rows


def draw_masks(draw: Mapping[str, Images], *, truth: Sequence[str], answers: Sequence[str], heading: str) -> bytes:
    """One draw of some images taken apart, as a PNG: the true class above, the class that the draw got below."""
    notes = [[answer_line(answer, correct=answer == true)] for answer, true in zip(answers, truth, strict=True)]
    about = "above: the true class; below: the answer to this draw"
    with style():
        return Picture(draw_columns(stage_rows(draw), truth, notes, heading=heading, about=about), heading).png
