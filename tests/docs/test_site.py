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

from ..report.browser import Browser, find_browser

ROOT = Path(__file__).parents[2]
NUMBER = re.compile(r"(?<![\w#])-?\d+\.?\d*(?!\w)")


def nav_pages(items):
    for item in items:
        [target] = item.values()
        yield from [target] if isinstance(target, str) else nav_pages(target)


def gather_into(folder):
    script = runpy.run_path(str(ROOT / "docs" / "gather.py"))
    script["gather"](folder)
    return folder


@pytest.fixture(scope="module")
def gathered(tmp_path_factory):
    return gather_into(tmp_path_factory.mktemp("pages"))


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


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    """A folder with the built site in build/site, and how to build it again."""
    for package in ("zensical", "mkdocstrings", "l2m4m"):
        pytest.importorskip(package)
    folder = tmp_path_factory.mktemp("site")
    for name in ("src", "docs"):
        (folder / name).symlink_to(ROOT / name)
    shutil.copyfile(ROOT / "zensical.toml", folder / "zensical.toml")
    gather_into(folder / "build" / "pages")
    command = [sys.executable, "-m", "zensical", "build", "--strict"]
    subprocess.run(command, cwd=folder, check=True, capture_output=True)
    return folder, command


@pytest.mark.slow
def test_a_broken_link_ends_the_build(built, tmp_path):
    folder, command = built
    shutil.copytree(folder, tmp_path / "broken", symlinks=True)
    with (tmp_path / "broken" / "build" / "pages" / "start.md").open("a", encoding="utf-8") as page:
        page.write("\n[nowhere](nowhere.md)\n")
    assert subprocess.run(command, cwd=tmp_path / "broken", check=False, capture_output=True).returncode != 0


# The least contrast of a text with its background, by the formula of WCAG 2; where it is below 4.5, the text.
FAINT = """(() => {
  const light = c => c.map(v => (v /= 255) <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4)
    .reduce((sum, v, i) => sum + v * [0.2126, 0.7152, 0.0722][i], 0);
  const read = text => { const [r, g, b, a = 1] = text.match(/[\\d.]+/g).map(Number); return [r, g, b, a]; };
  const over = (top, below) => [0, 1, 2].map(i => top[i] * top[3] + below[i] * (1 - top[3]));
  const parents = e => e ? [...parents(e.parentElement), e] : [];
  return [...document.querySelectorAll("main *, .md-tabs *")].filter(e => {
    const style = getComputedStyle(e), line = parents(e);
    const opacity = line.reduce((product, parent) => product * getComputedStyle(parent).opacity, 1);
    const written = [...e.childNodes].some(n => n.nodeType === 3 && n.textContent.trim());
    if (!written || style.visibility === "hidden" || !e.offsetParent || opacity < 0.1) return false;
    const behind = line.map(parent => read(getComputedStyle(parent).backgroundColor))
      .reduce((below, colour) => over(colour, below), [255, 255, 255]);
    const [r, g, b, a] = read(style.color);
    const [low, high] = [light(over([r, g, b, a * opacity], behind)), light(behind)].sort((x, y) => x - y);
    return (high + 0.05) / (low + 0.05) < 4.5;
  }).map(e => e.textContent);
})()"""

SEARCH = """(async () => {
  document.querySelector(".md-search__button").click();
  const pause = () => new Promise(resolve => setTimeout(resolve, 100));
  let host;
  while (!(host = [...document.querySelectorAll("*")].find(e => e.shadowRoot?.querySelector("input")))) await pause();
  const field = host.shadowRoot.querySelector("input");
  field.focus();
  Object.getOwnPropertyDescriptor(HTMLInputElement.prototype, "value").set.call(field, "abstention");
  field.dispatchEvent(new InputEvent("input", {bubbles: true}));
  for (let i = 0; i < 200 && !host.shadowRoot.querySelector("ol a"); i++) await pause();
  return host.shadowRoot.querySelectorAll("ol a").length;
})()"""


@pytest.mark.slow
def test_a_reader_on_a_phone_or_without_a_network_can_read_it(built):
    """No request leaves the disk; nothing is wider than 360 px; text has contrast, and pictures have words."""
    if find_browser() is None:
        pytest.skip("there is no Chromium on this machine")
    site, browser = built[0] / "build" / "site", Browser(find_browser())
    try:
        pages = [path for part in (".", "notebooks", "reference") for path in sorted((site / part).glob("*.html"))]
        pages.remove(site / "404.html")  # which only a server shows
        assert len(pages) > 30
        browser.resize(360, 740)
        for scheme in ("light", "dark"):
            browser.media(scheme=scheme)
            browser.open(site / "index.html")
            browser.run("localStorage.clear()")  # where the site keeps the scheme that it began with
            for page in pages:
                browser.open(page)
                assert (
                    browser.run("document.body.dataset.mdColorScheme") == {"light": "default", "dark": "slate"}[scheme]
                )
                assert browser.run("document.documentElement.scrollWidth") <= 360, page
                assert browser.run(FAINT) == [], (page, scheme)
                assert browser.run("[...document.images].filter(i => !i.alt && !i.closest('.md-logo')).length") == 0
        browser.resize(1366, 768)
        browser.open(site / "certificates.html")
        assert browser.run("document.querySelectorAll('math').length") > 5
        browser.press("Tab", 9)
        assert browser.run("document.activeElement.matches('.md-skip')")
        assert browser.run(SEARCH) > 3
        assert [address for address in browser.asked() if not address.startswith("file:")] == []
        assert browser.errors == []
    finally:
        browser.close()
