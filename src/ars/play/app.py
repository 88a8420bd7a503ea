"""The playground's layout in gradio: every computation is in session.py, everything that is shown in page.py."""

import secrets
import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import zip_longest
from pathlib import Path
from typing import Any

import gradio as gr
import numpy as np
from markupsafe import escape
from PIL import Image
from torch import Tensor

from ars.data.settings import DataError
from ars.play import page
from ars.play.page import Panel
from ars.play.session import (
    ALPHA,
    MODELS,
    Example,
    attack,
    count_votes,
    examples,
    one_draw,
    open_player,
    read_example,
    settings_for,
)
from ars.report.style import looks_of

LEAD = (
    "Each model classifies many noisy copies of an image and takes a vote. Within the certified radius <b>no</b> "
    "attack can change the winner. A radius of 5/255 covers every change of up to five of the 255 levels in all pixels "
    "at once."
)
HONEST = (
    f"Each radius holds by itself with probability {1 - ALPHA:.1%}, at any moment of the count. Certifying again until "
    "a radius pleases breaks this promise."
)
PAUSE = 0.15
"""Seconds between two views of the votes."""
AGE = 600
"""Seconds after which dropped files are deleted."""
MOST_BYTES = "20mb"
START = 7
"""The example that is chosen at first."""
SCROLL = """(...inputs) => {
  if (innerWidth < 900) document.getElementById("votes").scrollIntoView();
  return inputs;
}"""
STOPPED = "() => document.querySelectorAll('.busy').forEach(part => { part.textContent = 'stopped' })"
Views = tuple[str, str, str]


def make_app() -> gr.Blocks:
    """The whole page; it keeps nothing but the number of the example that each visitor chose."""
    shown = examples()
    players = {name: open_player(name) for name in MODELS}
    sigma, share = players[MODELS[0]].trained
    side = players[MODELS[0]].shape[-1]

    def chosen(number: int, dropped: str | None) -> Example:
        return read_example(Path(dropped), side) if dropped else shown[min(max(int(number), 0), len(shown) - 1)]

    def begin(image: Tensor, truth: int | None, names: Sequence[str], sigma: float, share: float) -> list[Panel]:
        players = [open_player(name, sigma=sigma, share=share) for name in MODELS if name in names]
        return [Panel(player, one_draw(player, image, seed=secrets.randbits(32)), truth) for player in players]

    def preview(number: int, dropped: str | None, *options: Any) -> tuple[str, str, str, str]:
        try:
            example = chosen(number, dropped)
        except DataError as error:
            return (_small(str(error), "wrong"), "", "", "")
        return (_small(example.about), *_views(begin(example.image, example.truth, *options)))

    def certify(number: int, dropped: str | None, *options: Any) -> Iterator[Views]:
        try:
            example = chosen(number, dropped)
        except DataError as error:
            raise gr.Error(str(error), print_exception=False) from error
        seed = secrets.randbits(32)  # fresh, because visitors choose the images
        panels = [replace(panel, busy="checking the model") for panel in begin(example.image, example.truth, *options)]
        if not panels:
            raise gr.Error("Choose at least one model.", print_exception=False)
        yield _views(panels)
        counts = [count_votes(panel.player, example.image, settings_for(panel.player, seed=seed)) for panel in panels]
        last = time.monotonic()
        for row in zip_longest(*counts):
            panels = [
                replace(panel, count=count, busy="") if count else panel
                for panel, count in zip(panels, row, strict=True)
            ]
            if time.monotonic() - last > PAUSE:
                last = time.monotonic()
                yield _views(panels)
        for position, panel in enumerate(panels):
            if panel.count is not None and panel.count.radius > 0:
                panels[position] = replace(panel, busy="attacking")
                yield _views(panels)
                found = attack(panel.player, example.image, panel.count, seed=seed)
                panels[position] = replace(panel, attacked=found, busy="")
        yield _views(panels)

    with gr.Blocks(title="ARS playground", analytics_enabled=False, fill_width=True, delete_cache=(AGE, AGE)) as app:
        number = gr.State(START)
        _html(f'<div class="play"><h1>Adaptive Randomized Smoothing</h1><p class="lead">{LEAD}</p></div>')
        with gr.Row():
            with gr.Column(scale=0, min_width=300, elem_id="controls"):
                gallery = gr.Gallery(
                    [(_enlarged(example), example.about) for example in shown], label="test images", show_label=False,
                    columns=5, rows=2, height="auto", allow_preview=False, selected_index=START, elem_id="gallery",
                    object_fit="contain", buttons=[], format="png", interactive=False,
                )  # fmt: skip
                dropped = gr.File(
                    label="your own image", show_label=False, file_types=["image"], height=44, elem_id="file"
                )
                about = _html()
                with gr.Row():
                    start = gr.Button("Certify", variant="primary", min_width=120, elem_id="certify")
                    stop = gr.Button("Stop", min_width=80, elem_id="stop")
                _html(_small(HONEST))
                titles = [(player.method.title, name) for name, player in players.items()]
                models = gr.CheckboxGroup(
                    titles, value=[MODELS[0], MODELS[-1]], label="Models, side by side", elem_id="models"
                )
                noise = gr.Slider(0.25, 1.5, sigma, step=0.05, label="Noise σ", info=f"trained at {sigma:g}")
                told = f"ARS only, trained at {share:g}"
                first = gr.Slider(0.05, 0.95, share, step=0.05, label="Share of the first look", info=told)
            with gr.Column(scale=1, min_width=280, elem_id="results"):
                views = [_html(elem_id=name) for name in ("votes", "stages", "attacks")]
        inputs = [number, dropped, models, noise, first]
        quiet: dict[str, Any] = {"show_progress": "hidden", "api_visibility": "private"}
        run = start.click(certify, inputs, views, js=SCROLL, trigger_mode="once", **quiet)
        stop.click(None, cancels=[run], js=STOPPED, **quiet)
        gallery.select(_selected, None, [number, dropped], **quiet)
        gr.on(
            [app.load, number.change, dropped.change, models.change, noise.change, first.change],
            preview, inputs, [about, *views], cancels=[run], trigger_mode="always_last", **quiet,
        )  # fmt: skip
    return app


def launch(*, host: str, port: int | None, browser: bool) -> tuple[gr.Blocks, str]:
    """Start serving in threads of this process; returns the app, to close, and its address."""
    app = make_app()
    accent, soft = looks_of(["adaptive"])["adaptive"].colour, "#5d6678"
    theme = gr.themes.Base(font=["system-ui", "sans-serif"], font_mono=["ui-monospace", "monospace"]).set(
        button_primary_background_fill=accent, button_primary_background_fill_dark=accent,
        button_primary_background_fill_hover=accent, button_primary_background_fill_hover_dark=accent,
        button_primary_text_color="white", slider_color=accent, slider_color_dark=accent,
        checkbox_background_color_selected=accent, checkbox_background_color_selected_dark=accent,
        body_text_color_subdued=soft, block_info_text_color=soft,
    )  # fmt: skip
    app.queue(default_concurrency_limit=1)
    _, address, _ = app.launch(
        server_name=host, server_port=port, inbrowser=browser, share=False, quiet=True, prevent_thread_lock=True,
        theme=theme, css=page.style(), footer_links=[], ssr_mode=False, mcp_server=False, max_file_size=MOST_BYTES,
        enable_monitoring=False, run_history=False,
    )  # fmt: skip
    return app, address


def _selected(event: gr.SelectData) -> tuple[int, None]:
    """The number of an example; a dropped file leaves."""
    return event.index, None


def _views(panels: Sequence[Panel]) -> Views:
    return page.votes(panels), page.stages(panels), page.attacks(panels)


def _enlarged(example: Example) -> Image.Image:
    pixels = (255 * example.image.permute(1, 2, 0).numpy()).round().astype(np.uint8)
    return Image.fromarray(pixels).resize((96, 96), Image.Resampling.NEAREST)


def _small(text: str, kind: str = "") -> str:
    return f'<p class="play small {kind}">{escape(text)}</p>'


def _html(value: str = "", **options: Any) -> gr.HTML:
    return gr.HTML(value, apply_default_css=False, **options)
