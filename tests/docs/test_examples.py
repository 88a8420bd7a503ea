"""The Python of the site's pages and of the notebooks runs as printed, and prints what is shown below it."""

import json
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
EXAMPLE = re.compile(r"^```python\n(.*?)^```(?:\n\n```text\n(.*?)^```)?", flags=re.DOTALL | re.MULTILINE)
PAGES = ("index", "start", "certificates", "choosing", "masks", "extend", *(f"reference/{name}" for name in (
    "certifying", "models", "mechanisms", "theory", "data",
)))  # fmt: skip
FAST = {"choosing", "reference/models", "reference/mechanisms", "reference/theory", "reference/data"}
NOTEBOOKS = sorted((ROOT / "notebooks").glob("*.ipynb"))
NUMBER = re.compile(r"█+|\d+(?:\.\d+)?(?:e-\d+)?")


def check(printed, shown):
    """Equal text, with numbers that may differ a little: on another device some votes do."""
    assert NUMBER.sub("#", printed).split() == NUMBER.sub("#", shown).split()
    for mine, theirs in zip(NUMBER.findall(printed), NUMBER.findall(shown), strict=True):
        if "█" not in mine:
            least = 0 if "." in theirs else 4 if float(theirs) < 50 else 0
            assert float(mine) == pytest.approx(float(theirs), rel=0.15, abs=least)


def run(examples, name, capsys):
    names = {"__name__": name}
    for code, shown in examples:
        exec(compile(code, name, "exec"), names)
        check(capsys.readouterr().out, shown)


@pytest.mark.parametrize("page", [pytest.param(page, marks=() if page in FAST else pytest.mark.slow) for page in PAGES])
def test_the_examples_of_a_page_print_what_it_shows(page, capsys):
    examples = EXAMPLE.findall((ROOT / "docs" / f"{page}.md").read_text(encoding="utf-8"))
    assert examples
    run(examples, page, capsys)


@pytest.mark.slow
@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_prints_what_it_holds(path, capsys, monkeypatch):
    pyplot = pytest.importorskip("matplotlib.pyplot")
    pyplot.switch_backend("agg")
    cells = [cell for cell in json.loads(path.read_text(encoding="utf-8"))["cells"] if cell["cell_type"] == "code"]
    shown = ("".join("".join(output.get("text", "")) for output in cell["outputs"]) for cell in cells)
    run([("".join(cell["source"]), text) for cell, text in zip(cells, shown, strict=True)], path.stem, capsys)
    pyplot.close("all")


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_is_small_and_says_what_its_pictures_show(path):
    text = path.read_text(encoding="utf-8")
    assert len(text) < 300_000
    assert "/tmp" not in text
    for cell in json.loads(text)["cells"]:
        if cell["cell_type"] == "code":
            drawn = any("image/png" in output.get("data", {}) for output in cell["outputs"])
            assert drawn == ("alt" in cell["metadata"])
            assert not any(output["output_type"] == "error" for output in cell["outputs"])


def test_a_number_that_differs_is_noticed():
    check("radius 5.3/255, 34 of 40", "radius 5.4/255, 36 of 40")
    for wrong in ("radius 5.3/255, 3 of 40", "radius 9.3/255, 34 of 40", "radii 5.3/255, 34 of 40"):
        with pytest.raises(AssertionError):
            check(wrong, "radius 5.4/255, 36 of 40")
