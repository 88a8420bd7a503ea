"""The page of a report: self-contained, with all that is said and every caveat."""

import json
import re
import subprocess
import sys

import pytest

from ars.methods.registry import methods
from ars.report import write_report
from ars.report.page import style_of
from ars.report.style import looks_of

from ..runs.conftest import DRAWS


@pytest.fixture
def page_of(tmp_path):
    def write(*runs):
        write_report(runs, tmp_path / "out")
        return (tmp_path / "out" / "index.html").read_text(encoding="utf-8")

    return write


def test_the_page_says_what_it_shows(runs, page_of, tmp_path):
    page = page_of(*runs)
    for text in ("at least 1 − α", "our class bounds", "mask w₂", "torch {&#34;cuda&#34;: null}", "<dd>float32</dd>"):
        assert text in page
    assert str(tmp_path) not in page
    assert not re.search(r"https?:|@import|url\((?!#)|<(iframe|object|base)\b", page)  # it needs no network


def test_colours_are_those_of_the_registry():
    style = style_of(looks_of([*methods(), "mine:net"]))
    for name, method in methods().items():
        assert f"--m-{name}: {method.colour.lower()};" in style
        assert f".m-{name} {{" in style
    assert ".m-mine-net {" in style


def test_published_accuracies_stand_beside_ours(make_run, make_record, page_of):
    path = make_run("a", kind="cifar_backgrounds", shards=[[make_record(0, 0, 0, 0.01, dim=3 * 32 * 32)]])
    (path / "benchmark.json").write_text('{"title": "CIFAR-10", "class_names": ["a", "b", "c"], "shape": [3, 32, 32]}')
    page = page_of(path)
    assert page.count('data-name="paper"') == 1  # under the paper's own bound only
    assert re.search(r'data-name="paper" class="paper">63\.6 ', page)
    assert "In the paper, not run here: static mask" in page


def test_the_vote_and_the_training_time_of_a_run_have_columns(make_run, page_of):
    path = make_run("a", method="adaptive")
    assert 'data-name="vote"' not in page_of(path)
    model = json.loads((path / "certify/test/settings.json").read_text())["model"]
    tally = {"images": 300, "draws": 100, "correct": 240, "seed": 0, "seconds": 1, "precision": "float32"}
    (path / "vote.json").write_text(json.dumps({**tally, "model": model}))
    (path / "timing.json").write_text('{"train_seconds": 90}')
    page = page_of(path)
    assert re.findall(r'data-name="(vote|training min)" class="">([\d.]+)<', page)[:2] == [
        ("vote", "80.0"),
        ("vote", "80.0"),
    ]
    assert '<td data-name="training min" class="">1.5</td>' in page
    (path / "vote.json").write_text(json.dumps({**tally, "model": "of other weights"}))
    assert 'data-name="vote"' not in page_of(path)


@pytest.mark.parametrize("name", ["title", "method"])
def test_names_from_files_are_escaped_and_no_formulas(make_run, page_of, name):
    assert "<script>alert" not in page_of(make_run("a", **{name: r"<script>alert(1)</script> $\frac$"}))


def test_names_of_classes_that_are_no_text_are_shown_as_far_as_they_are(make_run, page_of, tmp_path):
    kept = make_run(tmp_path / "a") / "benchmark.json"
    kept.write_text(json.dumps({**json.loads(kept.read_text()), "class_names": ["zero", "n\udce9ght", "two"]}))
    assert "n?ght" in page_of(kept.parent)


def test_torch_and_matplotlib_are_not_loaded_by_the_import():
    code = "import sys, ars.report; print([name for name in ('torch', 'matplotlib', 'rich') if name in sys.modules])"
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert result.stdout.strip() == "[]"


def test_headings_and_lists_name_the_norm(make_run, make_record, page_of):
    page = page_of(make_run("a"), make_run("b", shards=[[make_record(0, 0, 0, 0.6, norm="l2")]]))
    headings = re.findall(r'<h2 id="h-\d">(.*?)</h2>', page)
    assert headings == ["digits on photographs, 6×6, σ = 0.5, ℓ2", "digits on photographs, 6×6, σ = 0.5, ℓ∞"]
    for norm, radius in (("ℓ2", "ℓ2 radius, Cohen"), ("ℓ∞", "ℓ∞ radius (1/255), Cohen")):
        assert f"no {norm} perturbation of the image" in page
        assert f"<p>{norm} perturbations, radii in" in page
        assert radius in page


def test_the_page_says_whose_alpha_and_which_images(make_run, make_record, page_of):
    other = [[make_record(index, 1, 1, 4.5 / 255, alpha=0.4) for index in range(4)]]
    runs = [make_run("theirs"), make_run("ours", method="adaptive", shards=other, data={"seed": 7})]
    page = page_of(*runs)
    assert page.count('<th scope="col" class="">α</th>') == 2
    assert page.count("only those of one set can be compared: theirs | ours.") == 2
    assert "<dt>seed of the test inputs</dt><dd>Cohen et al.: 0; ARS: 7</dd>" in page
    page = page_of(*runs[:1])
    assert '<th scope="col" class="">α</th>' not in page
    assert re.search(rf"bound, α = 0.05, N = {DRAWS:,}; \d+ test images, \d of \d classes\.", page)
