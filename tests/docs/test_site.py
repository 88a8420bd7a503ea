"""The site has every page, its figures are drawn by a script, and it loads nothing from elsewhere."""

import re
import runpy
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import numpy as np
import pytest

ROOT = Path(__file__).parents[2]
NUMBER = re.compile(r"(?<![\w#])-?\d+\.?\d*(?!\w)")


def nav_pages(items):
    for item in items:
        [target] = item.values()
        yield from [target] if isinstance(target, str) else nav_pages(target)


@pytest.fixture
def gathered(tmp_path):
    script = runpy.run_path(str(ROOT / "docs" / "gather.py"))
    script["gather"].__globals__["PAGES"] = tmp_path / "build" / "pages"
    script["gather"]()
    return tmp_path / "build" / "pages"


def test_every_page_can_be_found_and_every_entry_leads_to_a_page(gathered):
    entries = list(nav_pages(tomllib.loads((ROOT / "zensical.toml").read_text(encoding="utf-8"))["project"]["nav"]))
    pages = {path.relative_to(ROOT / "docs").as_posix() for path in (ROOT / "docs").rglob("*.md")}
    pages |= {f"notebooks/{path.stem}.md" for path in (ROOT / "notebooks").glob("*.ipynb")}
    assert all((gathered / entry).is_file() for entry in entries)
    assert pages - set(entries) == set()
    assert len(entries) == len(set(entries))


def test_links_of_the_repository_lead_to_their_places_on_the_site():
    script = runpy.run_path(str(ROOT / "docs" / "gather.py"))
    rewrite, linked = script["rewrite"], set()
    page = ROOT / "docs" / "results.md"
    table = "../results/tables/masks.md"
    assert rewrite(f"[a]({table}) [b](../EXPERIMENTS.md#words)", page, linked) == (
        "[a](results/tables/masks.md) [b](EXPERIMENTS.md#words)"
    )
    assert linked == {ROOT / "results/tables/masks.md", ROOT / "EXPERIMENTS.md"}
    assert rewrite("[a](../src/ars/lazy.py) `[b](../src)`", page, linked) == "a `[b](../src)`"
    assert rewrite("[a](docs/train.md) [b](README.md)", ROOT / "CHANGELOG.md", linked) == "[a](train.md) [b](index.md)"
    assert rewrite("[a](../docs/train.md#x)", ROOT / "notebooks" / "masks.ipynb", linked) == "[a](../train.md#x)"
    assert rewrite("[a](missing.md) ![b](figures/masks.png)", page, linked) == (
        "[a](missing.md) ![b](figures/masks.png)"
    )


def figures():
    return runpy.run_path(str(ROOT / "docs" / "figures.py"))


def test_curves_are_those_of_the_theory_and_of_the_records(tmp_path, monkeypatch):
    """Up to rounding, where the version of matplotlib is the one that drew them."""
    script = figures()
    monkeypatch.setattr(sys, "argv", ["figures.py", "draws.svg", "noise.svg", "--out", str(tmp_path)])
    script["main"]()
    import matplotlib

    for name in ("draws.svg", "noise.svg"):
        drawn, kept = (folder / name for folder in (tmp_path, ROOT / "docs" / "figures"))
        assert drawn.stat().st_size > 10_000
        if f"matplotlib=={matplotlib.__version__}" in (ROOT / "constraints.txt").read_text(encoding="utf-8"):
            mine, theirs = (NUMBER.findall(path.read_text(encoding="utf-8")) for path in (drawn, kept))
            assert len(mine) == len(theirs), f"run python docs/figures.py {name}"
            assert np.allclose(np.array(mine, float), np.array(theirs, float), atol=0.01), f"figures.py {name}"


@pytest.mark.slow
def test_pictures_are_drawn(tmp_path, monkeypatch):
    script = figures()
    monkeypatch.setattr(sys, "argv", ["figures.py", "--out", str(tmp_path)])
    script["main"]()
    assert {path.name for path in tmp_path.iterdir()} == set(script["FIGURES"])
    assert all((ROOT / "docs" / "figures" / name).is_file() for name in script["FIGURES"])


def test_every_picture_has_words(gathered):
    for page in gathered.rglob("*.md"):
        for words in re.findall(r"!\[(.*?)\]\(", page.read_text(encoding="utf-8"), flags=re.DOTALL):
            assert len(words) > 20, page


@pytest.mark.slow
def test_the_site_is_built_loads_nothing_and_a_broken_link_ends_the_build(gathered):
    pytest.importorskip("zensical")
    pytest.importorskip("mkdocstrings")
    pytest.importorskip("l2m4m")
    folder = gathered.parents[1]
    for name in ("src", "docs"):
        (folder / name).symlink_to(ROOT / name)
    shutil.copyfile(ROOT / "zensical.toml", folder / "zensical.toml")
    build = [sys.executable, "-m", "zensical", "build", "--strict"]
    subprocess.run(build, cwd=folder, check=True, capture_output=True)
    pages = list((folder / "build" / "site").rglob("*.html"))
    assert len(pages) > 30
    for page in pages:
        text = page.read_text(encoding="utf-8")
        assert not re.search(r"<(?:script|img|iframe|source)[^>]* src=\"?(?:https?:)?//", text), page
        assert not re.search(r"<link[^>]* rel=\"?(?:stylesheet|preconnect|icon)[^>]* href=\"?(?:https?:)?//", text), (
            page
        )
    assert "<math" in (folder / "build" / "site" / "certificates.html").read_text(encoding="utf-8")
    with (gathered / "start.md").open("a", encoding="utf-8") as page:
        page.write("\n[nowhere](nowhere.md)\n")
    assert subprocess.run(build, cwd=folder, check=False, capture_output=True).returncode != 0
