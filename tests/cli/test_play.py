"""ars play before it serves; tests/play has the page."""

import socket
import sys

import pytest


def test_without_gradio_one_sentence_says_what_to_install(monkeypatch, refused):
    monkeypatch.setitem(sys.modules, "gradio", None)
    assert "pip install 'adaptive-smoothing[play]'" in refused(["play"])


@pytest.mark.parametrize("port", ["0", "70000"])
def test_a_port_that_does_not_exist_is_refused(port, refused):
    assert "--port must be from 1 to 65535" in refused(["play", "--port", port])


def test_a_port_that_is_taken_is_refused(refused):
    pytest.importorskip("gradio")
    with socket.create_server(("127.0.0.1", 0)) as taken:
        assert "--port" in refused(["play", "--no-browser", "--port", str(taken.getsockname()[1])])


def test_it_is_never_shared_through_others(refused):
    assert "--share" in refused(["play", "--share"])
