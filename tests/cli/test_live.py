import dataclasses

from ars.cli.live import describe, duration, live_view
from ars.workflows.request import Progress

AT = Progress(total=200, done=40, fresh=20, draws=50_000, seconds=2.0, right=30, radii=40 * 1.501 / 255)


def test_the_live_view_says_how_far_it_is_how_good_and_how_fast():
    assert describe(AT, "linf") == "certified 75%, average radius 1.50/255, 25,000 draws/s, 16 s left"
    assert "average radius 0.0058," in describe(AT, "l2")
    assert describe(AT, None) == "certified 75%, 25,000 draws/s, 16 s left"
    assert "first shard" in describe(Progress(total=8), "linf")
    assert describe(Progress(total=8, done=4, right=2), "linf").startswith("certified 50%, average radius 0.00/255")
    assert "1,200 of up to 10,200 draws" in describe(Progress(total=8, drawn=1_200, at_most=10_200), "linf")
    later = dataclasses.replace(AT, drawn=500, at_most=1_000)
    assert "25,000 draws/s, 500 of up to 1,000 draws" in describe(later, "linf")
    assert duration(3599.5) == "1 h 0 min"


def test_without_a_terminal_there_is_a_line_every_few_seconds_and_one_at_the_end(capsys):
    with live_view("run", norm="linf") as show:
        show(AT)
        show(dataclasses.replace(AT, done=60, fresh=40))  # too soon for another line
        show(dataclasses.replace(AT, done=200))
    lines = capsys.readouterr().err.splitlines()
    assert [line.split(",")[0] for line in lines] == ["run: 40 of 200 images", "run: 200 of 200 images"]
    with live_view("run", norm="linf", shown=False) as show:
        show(AT)
        show(dataclasses.replace(AT, done=200))
    assert len(capsys.readouterr().err.splitlines()) == 1
