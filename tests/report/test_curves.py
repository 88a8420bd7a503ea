import re

import numpy as np
import pytest

from ars.report.curves import accuracy_curves, draw_curves
from ars.report.grouping import make_sections
from ars.report.measures import outcomes
from ars.report.style import looks_of
from ars.report.table import make_table
from ars.runs.run import load_runs

from .conftest import table_of


def test_curves_are_the_certified_accuracies(make_records):
    answers = outcomes(make_records(), "cohen")
    radii = np.sort(np.concatenate([np.linspace(0, 9 / 255, 50), answers.radius]))  # and where they just hold
    expected = [answers.certified_accuracy(radius) for radius in radii]
    np.testing.assert_array_equal(accuracy_curves([answers, answers], radii), [expected, expected])


def test_a_drawn_curve_holds_a_value_up_to_its_radius_and_a_band_is_the_sample_deviation(make_run, all_right):
    runs = load_runs([make_run("a"), make_run("b", seed=1, shards=all_right)])
    panel = draw_curves(make_table(make_sections(runs)).sections).figure.axes[0]
    [line] = panel.get_lines()
    assert line.get_drawstyle() == "steps-pre"  # what is drawn between two radii is certified at the larger one
    assert line.get_ydata()[0] == 75
    [band] = panel.collections
    heights = band.get_paths()[0].vertices
    assert heights[heights[:, 0] == 0, 1].min() == pytest.approx(75 - 50 / 2**0.5)  # of 50 and 100
    assert heights[:, 1].max() == 100
    low = np.isclose(heights[:, 1], 75 - 50 / 2**0.5)
    assert heights[low, 0].max() <= 2.5  # the band falls where the line does: one image of a seed has that radius


def told(runs):
    """What stands above the first panel, and the names of its lines."""
    panel = draw_curves(make_table(make_sections(runs)).sections).figure.axes[0]
    return panel.texts[0].get_text().replace("\n", " "), [text.get_text() for text in panel.get_legend().get_texts()]


def test_curves_say_what_bands_are_and_what_is_not_in_them(make_run, all_right):
    paths = [make_run("a"), make_run("b", seed=1, shards=all_right), make_run("c", method="adaptive", shards=all_right)]
    above, lines = told(load_runs(paths))
    assert lines == ["Cohen et al. (2 seeds)", "ARS (1 seed)"]
    assert "; 4 images;" in above
    assert "bands: one standard deviation over the seeds; besides, the choice of images leaves a " in above
    assert above.endswith("standard error of up to 25.0 points")  # half of four images are right
    above, lines = told(load_runs(paths[2:]))
    assert lines == ["ARS"]
    assert "bands" not in above
    assert above.endswith("; 4 images the choice of images leaves a standard error of up to 0.0 points")


def test_lines_of_other_numbers_of_images_say_so(make_run, make_record):
    few = [[make_record(index, 1, 1, 4.5 / 255) for index in range(3)]]
    paths = [make_run("a"), make_run("b", method="adaptive", shards=few, examples=9)]
    above, lines = told(load_runs(paths, partial=True))
    assert lines == ["Cohen et al., 4 images", "ARS, 3 images so far"]
    assert " images;" not in above
    assert "; 3 images so far " in told(load_runs(paths[1:], partial=True))[0]


def test_curves_of_runs_that_only_abstain_are_drawn(make_run, make_record):
    path = make_run("a", shards=[[make_record(0, 0, 0, 0.0)]])
    picture = draw_curves(table_of(path).sections)
    assert picture.svg.startswith(b"<?xml")
    assert picture.png.startswith(b"\x89PNG")


def test_methods_that_are_not_registered_have_lines_of_their_own(make_run):
    runs = [make_run(name, method=name, given="0" * 16) for name in ("mine:plain", "mine:masked")]
    figure = draw_curves(table_of(*runs).sections).figure
    lines = [(line.get_color(), line.get_linestyle()) for line in figure.axes[0].get_lines()]
    assert len(lines) == len(set(lines)) == 2


def test_on_a_page_colours_follow_its_stylesheet_and_no_id_is_used_twice(make_run):
    table = table_of(make_run("a"), make_run("b", method="mine:net"))
    looks = looks_of(["cohen", "mine:net"])
    inline = [draw_curves([[block]], looks=looks, bare=True).inline(looks) for block in table.blocks]
    for text in inline:
        assert text.startswith("<svg viewBox=")
        for name in ("--m-cohen", "--m-mine-net", "--ink", "--line"):
            assert f"var({name})" in text
        assert not re.search("#[0-9a-f]{6}|DejaVu|<style|<title", text)
    one, two = (set(re.findall(r' id="([^"]+)"', text)) for text in inline)
    assert one
    assert not one & two


def test_words_of_a_figure_on_a_page_keep_their_decimals(make_run, make_record):
    runs = [make_run(f"{alpha}", method=method, shards=[[make_record(0, 0, 0, 0.02, alpha=alpha)]])
            for method, alpha in (("cohen", 0.001), ("static_mask", 0.05))]  # fmt: skip
    assert "α = 0.001" in draw_curves(table_of(*runs).sections, bare=True).inline({})
