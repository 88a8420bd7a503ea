"""The playground in the system's Chromium: it works with a mouse and a keyboard, and asks nobody else for anything."""

import os
import time

import pytest

from ..report.browser import Browser, find_browser

pytestmark = pytest.mark.slow
VOTES, ATTACKS = "document.querySelector('#votes').innerText", "document.querySelector('#attacks').innerText"
FINISHED = f"!/comes after|attacking|stopped/.test({ATTACKS})"
PATIENCE = 300
"""Seconds for work of a few seconds, because the machine may be busy."""


@pytest.fixture(scope="module")
def address():
    os.environ["GRADIO_ANALYTICS_ENABLED"] = "False"
    pytest.importorskip("gradio")
    from ars.play.app import launch

    app, address = launch(host="127.0.0.1", port=None, browser=False)
    yield address
    app.close(verbose=False)


@pytest.fixture
def page(address):
    program = find_browser()
    if program is None:
        pytest.skip("there is no Chromium on this machine")
    browser = Browser(program)
    browser.resize(1366, 768)
    browser.send("Page.navigate", url=address)
    wait(browser, "document.querySelectorAll('#stages img').length == 8")
    yield browser
    asked = [one for one in browser.asked() if not one.startswith((address, f"blob:{address}"))]
    errors = browser.errors
    browser.close()
    assert (asked, errors) == ([], [])


def wait(browser, condition):
    """Wait until an expression in the page is true."""
    until = time.monotonic() + PATIENCE
    while not browser.run(f"Boolean({condition})"):
        assert time.monotonic() < until, browser.run("document.body.innerText")
        time.sleep(0.1)


def drop(browser, path):
    """Give the page a file, as from a file dialogue."""
    root = browser.send("DOM.getDocument")["root"]["nodeId"]
    field = browser.send("DOM.querySelector", nodeId=root, selector="#file input[type=file]")["nodeId"]
    browser.send("DOM.setFileInputFiles", files=[str(path)], nodeId=field)


def test_certify_ends_with_verdicts_and_attacks_on_one_screen(page):
    page.run("document.querySelector('#certify').click()")
    wait(page, f"/so far|nothing certified yet/.test({VOTES})")
    wait(page, FINISHED)
    assert page.run(f"{VOTES}.match(/certified within/g).length") == 2
    assert page.run("document.documentElement.scrollHeight") <= 768
    assert page.run("[...document.images].every(image => image.alt && image.complete && image.naturalWidth)")


def test_a_phone_shows_it_without_scrolling_sideways(page):
    page.resize(360, 740)
    page.run("document.querySelector('#certify').click()")
    wait(page, FINISHED)
    assert page.run("document.documentElement.scrollWidth") <= 360
    assert page.run("document.querySelector('#votes').getBoundingClientRect().top") < 740  # it scrolled there


def test_stop_ends_the_count(page):
    page.run("document.querySelector('#certify').click()")
    wait(page, f"/so far|nothing certified yet/.test({VOTES})")
    page.run("document.querySelector('#stop').click()")
    time.sleep(1)  # for an update that was on its way
    before = page.run(VOTES)
    time.sleep(2)
    assert page.run(VOTES) == before
    assert page.run(f"/so far|nothing certified yet/.test({VOTES})")
    assert page.run(f"/stopped/.test({ATTACKS})")


def test_another_choice_clears_the_results(page):
    page.run("document.querySelector('#certify').click()")
    wait(page, FINISHED)
    page.run("document.querySelectorAll('#gallery button')[3].click()")
    wait(page, f"/no votes yet/.test({VOTES}) && /true class 3/.test(document.body.innerText)")
    page.run("document.querySelectorAll('#models input')[1].click()")
    wait(page, "document.querySelectorAll('#stages section').length == 3")


def test_a_dropped_image_is_fitted_and_a_damaged_one_refused(page, tmp_path):
    from PIL import Image

    Image.new("RGB", (64, 48), "red").save(tmp_path / "red.png")
    drop(page, tmp_path / "red.png")
    wait(page, "/red.png, resized and cropped to 24×24/.test(document.body.innerText)")
    page.run("document.querySelector('[aria-label=\"Clear\"], #file button[title]').click()")
    wait(page, "/true class 7/.test(document.body.innerText)")
    (tmp_path / "bad.png").write_text("no image")
    drop(page, tmp_path / "bad.png")
    wait(page, "/bad.png cannot be read/.test(document.body.innerText)")


def test_the_keyboard_reaches_every_control(page):
    reached = set()
    for _ in range(40):
        page.press("Tab", 9)
        reached.add(page.run("(e => e.closest('#gallery, #file, #certify, #stop, #models')?.id || e.type)"
                             "(document.activeElement)"))  # fmt: skip
    assert reached >= {"gallery", "file", "certify", "stop", "models", "range"}
