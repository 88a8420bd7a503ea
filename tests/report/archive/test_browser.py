"""The page in the system's Chromium: no request whatever is done, working controls, nothing wider than a phone."""

import os
import re

import pytest

from ars.report.archive import write_results

from .browser import Browser, find_browser
from .conftest import COMMITTED, build_cell, build_results


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


SHOWN = "[...document.querySelectorAll('.view:not([hidden])')].map(v => v.querySelector('h2').textContent).join('; ')"
BOUND = "[...document.querySelectorAll('.view:not([hidden]) .bound:not([hidden])')].map(b => b.dataset.bound).join()"


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


def test_noise_levels_of_other_sizes_are_seen_but_not_chosen(browser, page):
    browser.open(page, "#benchmark=cifar_backgrounds&recipe=fast&k=64&sigma=1")
    there = "[...document.querySelectorAll('input[name=sigma]')].filter(one => one.parentElement.offsetWidth)"
    state = f"{there}.map(one => [one.value, one.disabled, one.parentElement.title])"
    assert browser.run(state) == [["0.5", False, ""], ["1", False, ""]]
    pick(browser, "k", "32")
    assert browser.run(SHOWN) == "CIFAR-10 on backgrounds, 32×32, σ = 0.5"
    assert browser.run(state) == [["0.5", False, ""], ["1", True, "not run at k = 32"]]
    pick(browser, "sigma", "1")
    assert browser.run(SHOWN) == "CIFAR-10 on backgrounds, 32×32, σ = 0.5"
    pick(browser, "benchmark", "digits")
    assert browser.run(state) == [["0.75", False, ""]]


def luminance(colour):
    """Of a colour as CSS has it, after WCAG 2."""
    parts = (int(part) / 255 for part in re.findall(r"\d+", colour))
    linear = (part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts)
    return sum(weight * part for weight, part in zip((0.2126, 0.7152, 0.0722), linear, strict=True))


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_controls_stand_out_from_the_page(browser, page, scheme):
    browser.media(scheme=scheme)
    browser.open(page)
    edge = "getComputedStyle(document.querySelector('input:not(:checked):not(:disabled) + span')).borderTopColor"
    around = "getComputedStyle(document.getElementById('choose')).backgroundColor"
    dark, light = sorted(luminance(browser.run(colour)) for colour in (edge, around))
    assert (light + 0.05) / (dark + 0.05) >= 3  # WCAG 2, 1.4.11


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


@pytest.mark.parametrize("width", [320, 390, 1000, 1400])
@pytest.mark.parametrize("name", ["cifar_backgrounds", "digits"])
def test_no_column_is_hidden(browser, width, name):
    browser.resize(width, 900)
    browser.open(COMMITTED / "index.html", f"#benchmark={name}&k=96&sigma=1")
    assert browser.run(FITS)
    named = "getComputedStyle(document.querySelector('.view:not([hidden]) .bound td'), '::before').content"
    assert browser.run(named) == ('"standard"' if width < 600 else "none")


A4 = 718  # its width in CSS pixels, less margins of 1 cm


@pytest.mark.parametrize("name", ["cifar_backgrounds", "digits"])
def test_nothing_is_cut_off_on_paper(browser, name):
    browser.resize(A4, 1000)
    browser.media("print")
    browser.open(COMMITTED / "index.html", f"#benchmark={name}&k=64&sigma=0.5")
    browser.run("for (const one of document.querySelectorAll('details')) one.open = true")
    boxes = "[...document.querySelectorAll('section:not([hidden]) :is(.scroll, pre)')].filter(box => box.clientWidth)"
    assert browser.run(f"{boxes}.length") > 40  # the table, that of what was run, and every recipe
    assert browser.run(f"{boxes}.every(box => box.scrollWidth <= box.clientWidth)")
    assert browser.run("document.documentElement.scrollWidth") <= A4


OPENED = "[...document.querySelectorAll('.recipe[open]')].map(one => one.querySelector('summary').textContent)"
FOCUS = "document.activeElement.textContent"
NUMBER = ".view:not([hidden]) .bound:not([hidden]) .m-adaptive td a"
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


def test_a_number_opens_all_recipes_that_it_comes_from_and_keeps_what_is_chosen(browser, page):
    browser.open(page)
    pick(browser, "k", "32")
    pick(browser, "bound", "classes")
    address = follow(browser, NUMBER)
    ids = [f"open=recipe-{name.replace('/', '-')}" for name in BOTH]
    chosen = "#benchmark=cifar_backgrounds&recipe=fast&k=32&sigma=0.5&bound=classes"
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


def test_a_lead_opens_the_recipes_of_both_methods(browser, page):
    browser.open(page, "#k=32&recipe=fast")
    follow(browser, ".view:not([hidden]) .bound:not([hidden]) .leads a")
    assert browser.run(OPENED) == ["fast/cohen-k32-s0.5-seed0", "fast/cohen-k32-s0.5-seed1", *BOTH]


def test_a_seed_opens_its_own_recipe_and_closes_those_of_another_link(browser, page):
    browser.open(page, "#k=32&recipe=fast")
    follow(browser, NUMBER)
    seed = NUMBER.replace("td a", "td.seeds a:last-child")
    follow(browser, seed)
    assert browser.run(OPENED) == BOTH[1:]
    browser.run("scrollTo(0, 0)")
    browser.run(f"document.querySelector('{seed}').click()")  # the address stays as it is
    assert browser.run("scrollY") > 0


def test_links_from_before_what_is_chosen_was_kept_still_open_their_recipe(browser, page):
    browser.open(page, "#recipe-fast-adaptive-k32-s0.5-seed1")
    assert browser.run(OPENED) == BOTH[1:]


def test_recipes_of_folders_with_spaces_open(browser, tmp_path):
    for seed in (0, 1):
        build_cell(tmp_path / "our own", seed=seed)
    write_results(tmp_path, tmp_path)
    browser.open(tmp_path / "index.html")
    follow(browser, NUMBER)
    assert browser.run(OPENED) == [f"our own/adaptive-k64-s0.5-seed{seed}" for seed in (0, 1)]


def test_the_keyboard_reaches_every_number(browser, page):
    browser.open(page, "#k=32&recipe=fast")
    numbers = browser.run(f"[...document.querySelectorAll('{NUMBER}')].map(one => one.textContent)")
    assert len(numbers) > 8
    browser.run("document.querySelector('.view:not([hidden]) .bound:not([hidden]) .scroll').focus()")
    stops = []
    for _ in range(4):  # Cohen et al.'s first number and two seeds before
        browser.press("Tab", 9)
        stops.append(browser.run(FOCUS))
    assert stops[1:] == ["0", "1", numbers[0]]
    for number in numbers[1:-2]:  # the last are the seeds
        browser.press("ArrowRight", 39)
        assert browser.run(FOCUS) == number
    browser.press("ArrowRight", 39)  # at the end it stays
    assert browser.run(FOCUS) == numbers[-3]
    browser.press("ArrowLeft", 37)
    assert browser.run(FOCUS) == numbers[-4]
    back = "new KeyboardEvent('keydown', { key: 'ArrowLeft', altKey: true, bubbles: true, cancelable: true })"
    assert browser.run(f"document.activeElement.dispatchEvent({back})")  # the browser's own, and left to it
    browser.run("document.activeElement.click()")
    assert browser.run("location.hash").endswith("&open=recipe-fast-adaptive-k32-s0.5-seed1")


def test_every_picture_and_control_has_a_name(browser, page):
    browser.open(page)
    nameless = "[...document.querySelectorAll('img:not([alt]), svg:not([aria-label]):not([aria-hidden])')].length"
    assert browser.run(nameless) == 0
    assert browser.run("[...document.querySelectorAll('input')].every(i => i.labels[0].textContent.trim())")
