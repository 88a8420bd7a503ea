"""The page in the system's Chromium: no request, working controls, nothing wider than a phone."""

import os

import pytest

from ars.report.archive import write_results

from .browser import Browser, find_browser
from .conftest import build_cell, build_results


@pytest.fixture(scope="module")
def page(tmp_path_factory):
    root = build_results(tmp_path_factory.mktemp("page") / "results")
    write_results(root, root)
    return root / "index.html"


@pytest.fixture(scope="module")
def chromium():
    program = find_browser()
    if program is None:
        if os.environ.get("ARS_BROWSER") == "required":
            pytest.fail("ARS_BROWSER=required, but there is no Chromium; install the package chromium")
        pytest.skip("there is no Chromium on this machine")
    browser = Browser(program)
    yield browser
    browser.close()


@pytest.fixture
def browser(chromium):
    chromium.resize(1200, 900)
    chromium.errors.clear()
    yield chromium
    assert chromium.errors == []


SHOWN = "[...document.querySelectorAll('.view:not([hidden])')].map(v => v.querySelector('h2').textContent).join('; ')"
BOUND = "[...document.querySelectorAll('.view:not([hidden]) .bound:not([hidden])')].map(b => b.dataset.bound).join()"


def pick(browser, name, value):
    browser.run(f'document.querySelector(\'input[name="{name}"][value="{value}"]\').click()')


def test_the_page_asks_for_nothing(browser, page):
    browser.open(page)
    assert [address for address in browser.requests if not address.startswith("data:")] == [page.resolve().as_uri()]


def test_controls_show_one_view_and_write_the_fragment(browser, page):
    browser.open(page)
    assert browser.run(SHOWN) == "CIFAR-10 on backgrounds, 64×64, σ = 0.5"  # the largest with the three main methods
    assert browser.run("document.querySelectorAll('.view:not([hidden]) .masks img').length") == 5  # four of ARS
    pick(browser, "k", "32")
    pick(browser, "bound", "classes")
    assert browser.run(SHOWN) == "CIFAR-10 on backgrounds, 32×32, σ = 0.5"
    assert browser.run(BOUND) == "classes"
    assert browser.run("location.hash") == "#benchmark=cifar_backgrounds&recipe=fast&k=32&sigma=0.5&bound=classes"
    assert "32×32, σ = 0.5, our class bounds" in browser.run("document.getElementById('status').textContent")


def test_methods_that_have_no_colour_of_their_own_are_seen(browser, tmp_path):
    build_cell(tmp_path / "fast", method="cohen")
    recipe = build_cell(tmp_path / "fast") / "recipe.yaml"
    recipe.write_text(recipe.read_text().replace("adaptive", "mine"))
    write_results(tmp_path, tmp_path)
    browser.open(tmp_path / "index.html")
    for method in ("cohen", "mine"):
        stroke = browser.run(f"getComputedStyle(document.querySelector('g.m-{method} .line')).stroke")
        assert stroke.startswith("rgb("), (method, stroke)


def test_another_benchmark_brings_its_own_sizes(browser, page):
    browser.open(page)
    pick(browser, "benchmark", "digits")
    assert browser.run(SHOWN) == "Digits on photographs, 24×24, σ = 0.75"
    offered = browser.run("[...document.querySelectorAll('input[name=k]:not(:disabled)')].map(r => r.value).join()")
    assert offered == "24"


def test_the_fragment_is_the_state(browser, page):
    browser.open(page, "#benchmark=cifar_backgrounds&recipe=paper&k=64&sigma=0.5&bound=cohen")
    assert browser.run("document.querySelectorAll('.view:not([hidden]) .bound:not([hidden]) tbody tr').length") == 1
    browser.run("location.hash = '#k=64&sigma=1&recipe=fast'")
    browser.run("dispatchEvent(new HashChangeEvent('hashchange'))")
    assert browser.run(SHOWN) == "CIFAR-10 on backgrounds, 64×64, σ = 1"


def test_a_fragment_that_names_nothing_shows_something(browser, page):
    browser.open(page, "#k=7&benchmark=%22x&sigma=0.5&what=ever")
    assert browser.run(SHOWN) == "CIFAR-10 on backgrounds, 64×64, σ = 0.5"


def test_the_keyboard_reaches_and_moves_the_controls(browser, page):
    browser.open(page)
    reached = []
    for _ in range(4):
        browser.press("Tab", 9)
        reached.append(browser.run("document.activeElement.name"))
    assert reached == ["benchmark", "recipe", "k", "sigma"]
    browser.run("document.querySelector('input[name=k]:checked').focus()")
    browser.press("ArrowLeft", 37)
    assert browser.run(SHOWN) == "CIFAR-10 on backgrounds, 32×32, σ = 0.5"


@pytest.mark.parametrize("width", [320, 375, 1200])
def test_nothing_is_wider_than_the_screen(browser, page, width):
    browser.resize(width, 800)
    browser.open(page, "#k=64&sigma=0.5")
    assert browser.run("document.documentElement.scrollWidth") <= width


FITS = "(box => box.scrollWidth <= box.clientWidth)(document.querySelector('.view:not([hidden]) .bound .scroll'))"


@pytest.mark.parametrize("width", [320, 390, 1100, 1400])
@pytest.mark.parametrize("benchmark", ["cifar_backgrounds", "digits"])
def test_no_column_is_hidden(browser, page, width, benchmark):
    browser.resize(width, 900)
    browser.open(page, f"#benchmark={benchmark}&k=64&sigma=0.5")
    assert browser.run(FITS)
    named = "getComputedStyle(document.querySelector('.view:not([hidden]) .bound td'), '::before').content"
    assert browser.run(named) == ('"standard"' if width < 600 else "none")


def test_a_number_leads_to_its_recipe(browser, page):
    browser.open(page, "#k=64&sigma=0.5")
    browser.run("document.querySelector('.view:not([hidden]) .m-adaptive td a').click()")
    browser.run("dispatchEvent(new HashChangeEvent('hashchange'))")
    opened = "[...document.querySelectorAll('.recipe[open]')].map(one => one.textContent).join()"
    assert "method: adaptive" in browser.run(opened)
    assert browser.run(SHOWN) == "CIFAR-10 on backgrounds, 64×64, σ = 0.5"


def test_every_picture_and_control_has_a_name(browser, page):
    browser.open(page)
    nameless = "[...document.querySelectorAll('img:not([alt]), svg:not([aria-label]):not([aria-hidden])')].length"
    assert browser.run(nameless) == 0
    assert browser.run("[...document.querySelectorAll('input')].every(i => i.labels[0].textContent.trim())")
