import json

import numpy as np
import pytest
from matplotlib.backends.backend_agg import FigureCanvasAgg

from ars.report.pipeline_figure import draw_pipeline, load_stages
from ars.runs.records import ReportError
from ars.runs.run import load_runs


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


@pytest.mark.parametrize("images", [1, 8])
def test_what_stands_above_the_pipeline_has_room_and_names_its_seed(make_run, images):
    (run,) = load_runs([make_run("a", method="adaptive", sigma=0.75, seed=3, stages=images)])
    figure = draw_pipeline(run, load_stages(run)).figure
    heading, _ = (text.get_text().replace("\n", " ") for text in figure.texts)
    assert heading.startswith("ARS, ")
    assert heading.endswith("σ = 0.75, ℓ∞, seed 3")
    renderer = FigureCanvasAgg(figure).get_renderer()
    for text in figure.texts:
        assert text.get_window_extent(renderer).x1 <= figure.bbox.x1


@pytest.mark.parametrize("size", [0, 10, 2000])
def test_cut_stages_are_refused(make_run, size):
    path = make_run("a", stages=2)
    file = path / "certify/test/stages.npz"
    file.write_bytes(file.read_bytes()[:size])
    with pytest.raises(ReportError, match="--stages N` again"):
        load_stages(load_runs([path])[0])


def change(path, **arrays):
    """Replace arrays of the stages; None takes one out."""
    file = path / "certify/test/stages.npz"
    with np.load(file) as kept:
        np.savez(file, **{name: array for name, array in {**kept, **arrays}.items() if array is not None})


@pytest.mark.parametrize("changes", [{"truth": np.array([0, 3])}, {"input": np.zeros((2, 3, 9, 9))}, {"average": None}])
def test_stages_of_another_benchmark_or_without_an_array_are_refused(make_run, changes):
    path = make_run("a", stages=2)
    change(path, **changes)
    with pytest.raises(ReportError, match="stages of a draw"):
        load_stages(load_runs([path])[0])


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
