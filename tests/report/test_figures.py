import json

import numpy as np
import pytest
from matplotlib.backends.backend_agg import FigureCanvasAgg

from ars.report.curves import accuracy_curves, draw_curves
from ars.report.errors import ReportError
from ars.report.groups import make_sections
from ars.report.measures import certified_accuracy, outcomes
from ars.report.pipeline import draw_pipeline, load_stages
from ars.report.results import load_runs
from ars.report.table import make_table


def test_curves_are_the_certified_accuracies(make_records):
    answers = outcomes(make_records(), "cohen")
    radii = np.sort(np.concatenate([np.linspace(0, 9 / 255, 50), answers.radius]))  # and where they just hold
    expected = [certified_accuracy(answers, radius) for radius in radii]
    np.testing.assert_array_equal(accuracy_curves([answers, answers], radii), [expected, expected])


def test_a_drawn_curve_holds_a_value_up_to_its_radius_and_a_band_is_the_sample_deviation(make_run, make_record):
    better = [[make_record(index, 1, 1, 4.5 / 255) for index in range(4)]]
    runs = load_runs([make_run("a"), make_run("b", seed=1, shards=better)])
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


def test_curves_say_what_bands_are_and_what_is_not_in_them(make_run, make_record):
    better = [[make_record(index, 1, 1, 4.5 / 255) for index in range(4)]]
    paths = [make_run("a"), make_run("b", seed=1, shards=better), make_run("c", method="adaptive", shards=better)]
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


def test_a_figure_has_a_name_for_those_who_do_not_see_it(make_run):
    (run,) = load_runs([make_run("a", title="cats & <dogs>", stages=1)])
    heading = "cats &amp; &lt;dogs&gt;, 6×6, σ = 0.5, ℓ∞"
    curves = draw_curves(make_table(make_sections([run])).sections[:1]).svg.decode()
    start = f"<title>Certified accuracy against the radius: {heading}, under Cohen et al.'s bound, α = 0.05, N = 100;"
    assert start in curves
    assert f"<title>One draw taken apart: Cohen et al., {heading}" in draw_pipeline(run, load_stages(run)).svg.decode()


def test_curves_of_runs_that_only_abstain_are_drawn(make_run, make_record):
    path = make_run("a", shards=[[make_record(0, 0, 0, 0.0)]])
    picture = draw_curves(make_table(make_sections(load_runs([path]))).sections)
    assert picture.svg.startswith(b"<?xml")
    assert picture.png.startswith(b"\x89PNG")


def test_the_rows_of_the_pipeline_are_those_of_the_paper(make_run):
    (run,) = load_runs([make_run("a", stages=2)])
    stages = load_stages(run)
    assert [row.label for row in stages.rows] == ["input X", "m₁", "mask w₂", "w₂ · X", "m₂", "average"]
    assert [row.mask for row in stages.rows] == [False, False, True, False, False, False]
    assert (stages.index, stages.truth) == ((0, 1), (0, 1))


def test_a_single_step_has_neither_mask_nor_average(make_run):
    path = make_run("a", stages=2)
    file = path / "certify/test/stages.npz"
    with np.load(file) as arrays:
        kept = {name: arrays[name] for name in arrays.files if not name.endswith("_2")}
    np.savez(file, **{**kept, "average": kept["value_1"]})
    assert [row.label for row in load_stages(load_runs([path])[0]).rows] == ["input X", "m₁"]


def test_a_static_mask_is_called_so(make_run):
    path = make_run("a", stages=2)
    file = path / "certify/test/stages.npz"
    with np.load(file) as arrays:
        content = dict(arrays)
    content["weight_2"][:] = content["weight_2"][:1]
    np.savez(file, **content)
    assert "the same for all images" in load_stages(load_runs([path])[0]).rows[2].meaning


@pytest.mark.parametrize("channels", [1, 3])
def test_many_images_of_any_colour_are_drawn(make_run, make_record, channels):
    path = make_run("a", stages=12, shards=[[make_record(0, 0, 0, 0.01, dim=36 * channels)]])
    file = path / "certify/test/stages.npz"
    with np.load(file) as arrays:
        np.savez(file, **{name: value[:, :channels] if value.ndim == 4 else value for name, value in arrays.items()})
    benchmark = json.loads((path / "benchmark.json").read_text())
    (path / "benchmark.json").write_text(json.dumps({**benchmark, "shape": [channels, 6, 6]}))
    (run,) = load_runs([path])
    assert draw_pipeline(run, load_stages(run)).png.startswith(b"\x89PNG")


def above(picture):
    return [text.get_text().replace("\n", " ") for text in picture.figure.texts]


@pytest.mark.parametrize("images", [1, 8])
def test_the_pipeline_says_what_it_shows(make_run, images):
    (run,) = load_runs([make_run("a", method="adaptive", sigma=0.75, seed=3, stages=images)])
    picture = draw_pipeline(run, load_stages(run))
    heading, about = above(picture)
    assert heading == "ARS, digits on photographs, 6×6, σ = 0.75, ℓ∞, seed 3"
    assert about.startswith("one draw of each image; m: what a step releases, noise and all; w: a mask, dark hides")
    assert "; average: all that the classifier sees; above: the true class; below: the answer that is cert" in about
    assert about.endswith(" under Cohen et al.'s bound, α = 0.05, and its radius")
    figure = picture.figure
    renderer = FigureCanvasAgg(figure).get_renderer()
    for text in figure.texts:
        assert text.get_window_extent(renderer).x1 <= figure.bbox.x1


def test_the_pipeline_says_nothing_of_what_it_does_not_show(make_run):
    path = make_run("a", method="mine:net", given="0" * 16, stages=2)
    file = path / "certify/test/stages.npz"
    with np.load(file) as arrays:
        kept = {name: arrays[name] for name in arrays.files if not name.endswith("_2")}
    np.savez(file, **{**kept, "average": kept["value_1"], "index": np.array([7, 8])})
    (run,) = load_runs([path])
    heading, about = above(draw_pipeline(run, load_stages(run)))
    assert heading == "mine:net, digits on photographs, 6×6, σ = 0.5, ℓ∞"  # nothing was trained from a seed
    assert about == "one draw of each image; m: what a step releases, noise and all; above: the true class"


def test_stages_that_lack_an_array_are_refused(make_run):
    path = make_run("a", stages=2)
    np.savez(path / "certify/test/stages.npz", index=np.arange(2), truth=np.arange(2))
    (run,) = load_runs([path])
    with pytest.raises(ReportError, match="--stages N` again"):
        load_stages(run)


@pytest.mark.parametrize("size", [0, 10, 2000])
def test_cut_stages_are_refused(make_run, size):
    path = make_run("a", stages=2)
    file = path / "certify/test/stages.npz"
    file.write_bytes(file.read_bytes()[:size])
    (run,) = load_runs([path])
    with pytest.raises(ReportError, match="--stages N` again"):
        load_stages(run)


@pytest.mark.parametrize("change", [{"truth": np.array([0, 3])}, {"input": np.zeros((2, 3, 9, 9))}])
def test_stages_of_another_benchmark_are_refused(make_run, change):
    path = make_run("a", stages=2)
    file = path / "certify/test/stages.npz"
    with np.load(file) as arrays:
        np.savez(file, **{**arrays, **change})
    (run,) = load_runs([path])
    with pytest.raises(ReportError, match="stages of a draw"):
        load_stages(run)


def test_pickles_are_never_loaded(make_run):
    path = make_run("a", stages=2)
    np.savez(path / "certify/test/stages.npz", input=np.array([object()], dtype=object))
    (run,) = load_runs([path])
    with pytest.raises(ReportError, match=r"stages of a draw .*; run `ars certify .*a --stages N` again"):
        load_stages(run)
    (path / "certify/test/records.jsonl.gz").touch()  # as of a cell that was packed, where no draw can be added
    with pytest.raises(ReportError, match=r"stages of a draw .*; pack the cell again"):
        load_stages(run)


def test_a_run_without_stages_says_what_to_do(make_run):
    (run,) = load_runs([make_run("a")])
    with pytest.raises(ReportError, match="--stages N` first"):
        load_stages(run)
