import json
import re
import subprocess
import sys
from hashlib import sha256
from html.parser import HTMLParser

import pytest

from ars.report import ReportError, write_report
from ars.report.listed import LIST, make_list, remove_listed


class References(HTMLParser):
    """Everything that a browser would fetch or run."""

    def __init__(self, page):
        super().__init__()
        self.found = []
        self.tags = set()
        self.feed(page)

    def handle_starttag(self, tag, attributes):
        self.tags.add(tag)
        self.found += [value for name, value in attributes if name in {"src", "href", "srcset", "data", "action"}]


@pytest.fixture
def runs(make_run):
    return [
        make_run("ars-0", method="adaptive", stages=3, environment={"python": "3.11", "torch": {"cuda": None}}),
        make_run("ars-1", method="adaptive", seed=1),
        make_run("cohen-0", sigma=0.25),
    ]


def test_the_files_of_a_report(runs, tmp_path):
    report = write_report(runs, tmp_path / "new" / "out")
    names = {"index.html", "table.md", "table.json", "curves.svg", "curves.png", "report-files.json"}
    names |= {"pipeline-ars-0.svg", "pipeline-ars-0.png", "images-ars-0.csv", "images-ars-1.csv", "images-cohen-0.csv"}
    assert {file.name for file in report.files} == names
    assert {file.name for file in (tmp_path / "new" / "out").iterdir()} == names
    assert len(report.table.sections) == 2


def test_equal_runs_give_equal_bytes(runs, tmp_path):
    first, second = (write_report(runs, tmp_path / name) for name in ("first", "second"))
    for one, other in zip(first.files, second.files, strict=True):
        assert one.read_bytes() == other.read_bytes(), one.name


def test_the_page_needs_no_network(runs, tmp_path):
    write_report(runs, tmp_path / "out")
    page = (tmp_path / "out" / "index.html").read_text(encoding="utf-8")
    references = References(page)
    assert all(reference.startswith(("data:image/", "#")) for reference in references.found)
    assert not references.tags & {"script", "link", "iframe", "object", "base"}
    assert not re.search(r"https?:|@import|url\(", page)


def test_the_page_says_what_it_shows(runs, tmp_path):
    write_report(runs, tmp_path / "out")
    page = (tmp_path / "out" / "index.html").read_text(encoding="utf-8")
    for text in (
        "With probability at least 1 − α over the random draws",
        "under Cohen et al.&#39;s bound",
        "The same votes under our class bounds",
        "mask w₂",
        "torch {&#34;cuda&#34;: null}",
        "<details>",
        "failure probability, α",
        "float32",
    ):
        assert text in page
    assert str(tmp_path) not in page


def test_a_grid_of_radii_is_reported_as_such(make_run, make_decided, tmp_path):
    records = [make_decided(index, 1, 1, index % 4) for index in range(8)]
    write_report([make_run("a", shards=[records])], tmp_path / "out")
    page = (tmp_path / "out" / "index.html").read_text(encoding="utf-8")
    assert "decided at these radii only" in page
    assert "up to 10,000, until decided at 0, 0.00784313, 0.0156862" in page
    assert "class bounds" not in page


def test_published_accuracies_stand_beside_a_published_benchmark(make_run, make_record, tmp_path):
    path = make_run("a", kind="cifar_backgrounds", shards=[[make_record(0, 0, 0, 0.01, dim=3 * 32 * 32)]])
    (path / "benchmark.json").write_text('{"title": "CIFAR-10", "class_names": ["a", "b", "c"], "shape": [3, 32, 32]}')
    write_report([path], tmp_path / "out")
    page = (tmp_path / "out" / "index.html").read_text(encoding="utf-8")
    assert "Published in the paper" in page
    assert "Súkeník et al." in page


def test_names_from_files_are_escaped(make_run, tmp_path):
    write_report([make_run("a", title="<script>alert(1)</script>")], tmp_path / "out")
    assert "<script>" not in (tmp_path / "out" / "index.html").read_text(encoding="utf-8")


def test_names_of_classes_that_are_no_text_are_shown_as_far_as_they_are(make_run, tmp_path):
    run = make_run(tmp_path / "a")
    kept = run / "benchmark.json"
    kept.write_text(json.dumps({**json.loads(kept.read_text()), "class_names": ["zero", "n\udce9ght", "two"]}))
    write_report([run], tmp_path / "out")
    assert "n?ght" in (tmp_path / "out" / "index.html").read_text(encoding="utf-8")


def test_a_refused_report_leaves_the_old_one(runs, tmp_path):
    out = tmp_path / "out"
    write_report(runs, out)
    before = {file.name: file.read_bytes() for file in out.iterdir()}
    (runs[0] / "certify/test/stages.npz").write_bytes(b"cut")
    with pytest.raises(ReportError):
        write_report(runs, out)
    assert {file.name: file.read_bytes() for file in out.iterdir()} == before


def test_files_of_an_earlier_report_are_removed(runs, tmp_path):
    out = tmp_path / "out"
    write_report(runs, out)
    report = write_report(runs[2:], out)
    assert {file.name for file in out.iterdir()} == {file.name for file in report.files}
    alone = write_report(runs[2:], tmp_path / "alone")
    assert [file.read_bytes() for file in report.files] == [file.read_bytes() for file in alone.files]


def test_files_of_the_user_stay(runs, tmp_path):
    out = tmp_path / "out"
    write_report(runs, out)
    (out / "images-mine.csv").write_text("mine")  # a name like ours, which no report wrote
    (out / "images-ars-0.csv").write_text("edited")
    kept = (out / "pipeline-ars-0.png").rename(tmp_path / "kept.png")
    (out / "pipeline-ars-0.png").symlink_to(kept)
    write_report(runs[2:], out)
    assert (out / "images-mine.csv").read_text() == "mine"
    assert (out / "images-ars-0.csv").read_text() == "edited"
    assert (out / "pipeline-ars-0.png").is_symlink()
    assert kept.exists()
    assert not (out / "pipeline-ars-0.svg").exists()


@pytest.mark.parametrize("text", ["[", "[]", '{"files": [1]}', '{"files": {"../mine.csv": "DIGEST"}}'])
def test_a_list_that_no_report_wrote_removes_nothing(tmp_path, text):
    out, mine = tmp_path / "out", tmp_path / "mine.csv"
    mine.write_text("mine")
    out.mkdir()
    (out / "images-ars-0.csv").write_text("theirs")
    (out / LIST).write_text(text.replace("DIGEST", sha256(b"mine").hexdigest()))
    remove_listed(out, written=[])
    assert mine.exists()
    assert (out / "images-ars-0.csv").exists()


def test_a_new_file_that_also_has_an_old_name_stays(tmp_path):
    """As where letter case does not tell names apart."""
    (tmp_path / LIST).write_bytes(make_list({"Images.csv": b"new"}))
    (tmp_path / "images.csv").write_bytes(b"new")
    (tmp_path / "Images.csv").hardlink_to(tmp_path / "images.csv")
    remove_listed(tmp_path, written=["images.csv"])
    assert (tmp_path / "Images.csv").exists()


def test_torch_and_matplotlib_are_not_loaded_by_the_import():
    code = "import sys, ars.report; print([name for name in ('torch', 'matplotlib', 'rich') if name in sys.modules])"
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert result.stdout.strip() == "[]"


def test_a_dollar_in_a_name_is_no_formula(make_run, tmp_path):
    write_report([make_run("a", title=r"$\frac$")], tmp_path / "out")


def test_links_and_lists_name_the_norm(make_run, make_record, tmp_path):
    l2 = make_run("b", shards=[[make_record(0, 0, 0, 0.6, norm="l2")]])
    write_report([make_run("a"), l2], tmp_path / "out")
    page = (tmp_path / "out" / "index.html").read_text(encoding="utf-8")
    links = re.findall(r'<a href="#section-\d">(.*?)</a>', page)
    assert links == ["digits on photographs, 6×6, σ = 0.5, ℓ2", "digits on photographs, 6×6, σ = 0.5, ℓ∞"]
    for norm, radius in (("ℓ2", "ℓ2 radius, Cohen"), ("ℓ∞", "ℓ∞ radius (1/255), Cohen")):
        assert f"<p>{norm} perturbations, radii in" in page
        assert radius in page


def test_the_page_says_whose_alpha_and_which_images(make_run, make_record, tmp_path):
    other = [[make_record(index, 1, 1, 4.5 / 255, alpha=0.4) for index in range(4)]]
    runs = [make_run("theirs"), make_run("ours", method="adaptive", shards=other, data={"seed": 7})]
    write_report(runs, tmp_path / "out")
    page = (tmp_path / "out" / "index.html").read_text(encoding="utf-8")
    assert page.count('<th scope="col">α</th>') == 2
    assert page.count('<th class="group" colspan="6">') == 2
    assert page.count("only those of one set can be compared: theirs | ours.") == 2
    assert re.search(r"seed of the test inputs</th><td>0</td><td>7</td>", page)
    write_report(runs[:1], tmp_path / "out")
    page = (tmp_path / "out" / "index.html").read_text(encoding="utf-8")
    assert '<th scope="col">α</th>' not in page
    assert re.search(r"bound, α = 0.05, N = 100; \d+ test images, \d of \d classes\.", page)
