"""The page in the system's Chromium: no request whatever is done, working controls, nothing wider than a phone."""

import os

import pytest

from ars.report.paper.results import write_results

from .browser import Browser, find_browser
from .paper.conftest import COMMITTED, build_cell, build_results


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
    chromium.media()
    chromium.errors.clear()
    yield chromium
    assert chromium.asked() == []
    assert chromium.errors == []


SHOWN = "[...document.querySelectorAll('.first:not([hidden])')].map(v => v.querySelector('h2').textContent).join('; ')"
BOUND = "[...document.querySelectorAll('.first:not([hidden]) .bound:not([hidden])')].map(b => b.dataset.bound).join()"


def pick(browser, name, value):
    browser.run(f'document.querySelector(\'input[name="{name}"][value="{value}"]\').click()')


@pytest.mark.parametrize(
    "script",
    [
        "new Image().src = 'https://example.com/a'",
        "setTimeout(() => new Image().src = 'https://example.com/a', 300)",
        "document.querySelector('input').onchange = () => navigator.sendBeacon('https://example.com/a')",
        "setTimeout(() => new WebSocket('wss://example.com/a'), 300)",
    ],
)
def test_a_page_that_asks_for_something_is_caught(browser, tmp_path, script):
    path = tmp_path / "page.html"
    path.write_text(f"<input type=radio name=k value=32><script>{script}</script>")
    browser.open(path)
    pick(browser, "k", "32")
    assert [address.partition(":")[2] for address in browser.asked()] == ["//example.com/a"]


def test_the_committed_page_works_and_asks_for_nothing(browser):
    browser.open(COMMITTED / "index.html")
    values = "[...document.querySelectorAll('input')].map(one => [one.name, one.value])"
    seen = set()
    for name, value in reversed(browser.run(values)):  # the other benchmark last
        pick(browser, name, value)
        seen.add(browser.run(SHOWN))
    assert len(seen) > 3
    assert browser.asked() == []


def test_controls_show_one_view_and_write_the_fragment(browser, page):
    browser.open(page)
    assert browser.run(SHOWN) == "CIFAR-10 on backgrounds, 64×64, σ = 0.5"  # the largest with the three main methods
    assert browser.run("document.querySelectorAll('.view:not([hidden]) .masks img').length") == 5  # four of ARS
    pick(browser, "k", "32")
    pick(browser, "bound", "classes")
    assert browser.run(SHOWN) == "CIFAR-10 on backgrounds, 32×32, σ = 0.5"
    assert browser.run(BOUND) == "classes"
    assert (
        browser.run("location.hash")
        == "#benchmark=CIFAR-10+on+backgrounds&norm=%E2%84%93%E2%88%9E&recipe=fast&k=32&sigma=0.5&bound=classes"
    )
    assert "32×32, σ = 0.5, our class bounds" in browser.run("document.getElementById('status').textContent")


def test_noise_levels_of_other_sizes_are_seen_but_not_chosen(browser, page):
    browser.open(page, "#benchmark=CIFAR-10+on+backgrounds&recipe=fast&k=64&sigma=1")
    there = "[...document.querySelectorAll('input[name=sigma]')].filter(one => one.parentElement.offsetWidth)"
    state = f"{there}.map(one => [one.value, one.disabled, one.parentElement.title])"
    assert browser.run(state) == [["0.5", False, ""], ["1", False, ""]]
    pick(browser, "k", "32")
    assert browser.run(SHOWN) == "CIFAR-10 on backgrounds, 32×32, σ = 0.5"
    assert browser.run(state) == [["0.5", False, ""], ["1", True, "not run at k = 32"]]
    pick(browser, "sigma", "1")
    assert browser.run(SHOWN) == "CIFAR-10 on backgrounds, 32×32, σ = 0.5"
    pick(browser, "benchmark", "Digits on photographs")
    assert browser.run(state) == []  # one value is no choice


def test_the_fragment_is_the_state_and_one_that_names_nothing_shows_something(browser, page):
    browser.open(page, "#benchmark=CIFAR-10+on+backgrounds&recipe=paper&k=64&sigma=0.5&bound=cohen")
    assert browser.run("document.querySelectorAll('.first:not([hidden]) .bound:not([hidden]) tbody tr').length") == 1
    browser.run("location.hash = '#k=64&sigma=1&recipe=fast'")
    browser.run("dispatchEvent(new HashChangeEvent('hashchange'))")
    assert browser.run(SHOWN) == "CIFAR-10 on backgrounds, 64×64, σ = 1"
    browser.open(page, "#k=7&benchmark=%22x&sigma=0.5&what=ever")
    assert browser.run(SHOWN) == "CIFAR-10 on backgrounds, 64×64, σ = 0.5"


def test_the_keyboard_reaches_and_moves_the_controls(browser, page):
    browser.open(page)
    browser.run("document.querySelector('.first:not([hidden]) .bound:not([hidden]) tr:last-child a').focus()")
    reached = []
    for _ in range(4):
        browser.press("Tab", 9)
        reached.append(browser.run("document.activeElement.name"))
    assert reached == ["benchmark", "recipe", "k", "sigma"]
    browser.run("document.querySelector('input[name=k]:checked').focus()")
    browser.press("ArrowLeft", 37)
    assert browser.run(SHOWN) == "CIFAR-10 on backgrounds, 32×32, σ = 0.5"


TABLES = "[...document.querySelectorAll('section:not([hidden]) .bound:not([hidden]) table')]"
A4 = 718  # its width in CSS pixels, less margins of 1 cm


def open_all(browser, name, width):
    """Show a benchmark of the committed page at this width, with all details."""
    browser.resize(width, 900)
    browser.open(COMMITTED / "index.html", f"#benchmark={name}&k=64&sigma=0.5")
    browser.run("for (const one of document.querySelectorAll('details')) one.open = true")
    assert browser.run("document.documentElement.scrollWidth") <= width


@pytest.mark.parametrize("width", [320, 390, 1024, 1600])
@pytest.mark.parametrize("name", ["CIFAR-10+on+backgrounds", "Digits+on+photographs"])
def test_no_column_is_cut_off_and_none_is_lost(browser, width, name):
    open_all(browser, name, width)
    assert browser.run(f"{TABLES}.every(table => table.scrollWidth <= table.parentElement.clientWidth)")
    seen = f"{TABLES}.flatMap(table => [...table.querySelectorAll('td')].filter(td => td.offsetWidth))"
    names = browser.run(f"{seen}.map(td => td.dataset.name)")
    rows = browser.run("document.querySelectorAll('.first:not([hidden]) .bound:not([hidden]) tbody tr').length")
    for column in ("standard", "≥ 1/255", "avg radius (/255)", "abstained", "n", "s/image"):
        assert names.count(column) == rows, column  # in one of the two tables


@pytest.mark.parametrize("name", ["CIFAR-10+on+backgrounds", "Digits+on+photographs"])
def test_nothing_is_cut_off_on_paper(browser, name):
    browser.media("print")
    open_all(browser, name, A4)
    boxes = "[...document.querySelectorAll('section:not([hidden]) :is(.card, pre)')].filter(box => box.clientWidth)"
    assert browser.run(f"{boxes}.length") > 40  # the tables and every recipe
    assert browser.run(f"{boxes}.every(box => box.scrollWidth <= box.clientWidth)")


@pytest.mark.parametrize(("width", "height"), [(390, 844), (1024, 768), (1600, 1000)])
def test_the_first_screen_has_the_verdict_the_best_row_and_the_curve(browser, width, height):
    browser.resize(width, height)
    browser.open(COMMITTED / "index.html")
    for part, least in ((".verdict", 1), (".star", 1), ("figure svg", 0.5)):
        box = f"document.querySelector('.first:not([hidden]) {part}').getBoundingClientRect()"
        top, bottom = browser.run(f"(box => [box.top, box.bottom])({box})")
        assert top >= 0, part
        assert (height - top) / (bottom - top) >= least, part


OPENED = "[...document.querySelectorAll('.recipe[open]')].map(one => one.querySelector('summary').textContent)"
FOCUS = "document.activeElement.textContent"
ROW = ".first:not([hidden]) .bound:not([hidden]) .m-adaptive th a"
BOTH = ["fast/adaptive-k32-s0.5-seed0", "fast/adaptive-k32-s0.5-seed1"]


def go(browser, step):
    """Do what changes the address, and wait until the page has heard of it; the address then."""
    return browser.run(f"""new Promise((done, fail) => {{
        addEventListener('hashchange', () => done(location.hash), {{ once: true }});
        setTimeout(() => fail('the address stays as it is'), 5000);
        {step};
    }})""")


def follow(browser, selector):
    return go(browser, f"document.querySelector('{selector}').click()")


def test_a_row_opens_all_recipes_that_it_comes_from_and_keeps_what_is_chosen(browser, page):
    browser.open(page)
    pick(browser, "k", "32")
    pick(browser, "bound", "classes")
    address = follow(browser, ROW)
    ids = [f"open=recipe-{name.replace('/', '-')}" for name in BOTH]
    chosen = "#benchmark=CIFAR-10+on+backgrounds&norm=%E2%84%93%E2%88%9E&recipe=fast&k=32&sigma=0.5&bound=classes"
    assert address == "&".join([chosen, *ids])
    assert (browser.run(OPENED), browser.run(FOCUS)) == (BOTH, BOTH[0])
    assert (go(browser, "history.back()"), browser.run(OPENED)) == (chosen, [])
    browser.open(page, address)  # by another reader, or after a reload
    assert browser.run(SHOWN) == "CIFAR-10 on backgrounds, 32×32, σ = 0.5"
    assert browser.run(BOUND) == "classes"
    assert browser.run(OPENED) == BOTH
    numbered = "[...document.querySelectorAll('[data-asked]')].map(one => getComputedStyle(one, '::after').content)"
    assert browser.run(numbered) == ['" (1 of 2)"', '" (2 of 2)"']
    assert 0 <= browser.run("document.querySelector('[data-asked]').getBoundingClientRect().top") < 900


def test_a_seed_opens_its_own_recipe_and_closes_those_of_another_link(browser, page):
    browser.open(page, "#k=32&recipe=fast")
    follow(browser, ROW)
    seed = ".view:not([hidden]) details.bound:not([hidden]) .m-adaptive td.seeds a:last-child"
    follow(browser, seed)
    assert browser.run(OPENED) == BOTH[1:]
    browser.run("scrollTo(0, 0)")
    browser.run(f"document.querySelector('{seed}').click()")  # the address stays as it is
    assert browser.run("scrollY") > 0


def test_recipes_of_folders_with_spaces_open(browser, tmp_path):
    for seed in (0, 1):
        build_cell(tmp_path / "our own", seed=seed)
    write_results(tmp_path, tmp_path)
    browser.open(tmp_path / "index.html")
    follow(browser, ROW)
    assert browser.run(OPENED) == [f"our own/adaptive-k64-s0.5-seed{seed}" for seed in (0, 1)]


def test_every_picture_and_control_has_a_name(browser, page):
    browser.open(page)
    nameless = "img:not([alt]), svg:not([aria-hidden]), figure[role=img]:not([aria-label])"
    assert browser.run(f"document.querySelectorAll('{nameless}').length") == 0
    assert browser.run("[...document.querySelectorAll('input')].every(i => i.labels[0].textContent.trim())")
