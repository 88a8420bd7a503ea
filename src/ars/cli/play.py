"""ars play: the playground in a browser."""

import argparse
import os
import time

from ars.cli.interrupt import terminable
from ars.cli.options import Subparsers, add_command

TEACH = """\
Open a page on which you pick or drop an image, choose models and noise, and watch the votes fill up, the certified
radius grow, and an attack try to change the label. It uses the models that come with ars, and needs no network and no
GPU.

  ars play
  ars play --port 8080 --no-browser                 then open http://127.0.0.1:8080 yourself
  ars play --host 0.0.0.0                           for everyone who can reach this machine

The command needs the extra play: pip install 'adaptive-smoothing[play]'. Ctrl-C ends it.
"""
LOOPBACK = "127.0.0.1"
MISSING = "ars play needs gradio: pip install 'adaptive-smoothing[play]'"


def add_to(commands: Subparsers) -> None:
    """Add the command."""
    parser = add_command(commands, "play", run, summary="play with certificates in the browser", teach=TEACH)
    parser.add_argument("--host", default=LOOPBACK, help=f"the address to serve at (default: {LOOPBACK})")
    parser.add_argument("--port", type=int, help="the port to serve at (default: a free one from 7860 on)")
    parser.add_argument("--no-browser", action="store_true", help="do not open a browser")


def run(options: argparse.Namespace) -> int:
    """Serve until Ctrl-C."""
    if options.port is not None and not 1 <= options.port <= 65535:
        raise ValueError(f"--port must be from 1 to 65535, got {options.port}")
    os.environ.update(GRADIO_ANALYTICS_ENABLED="False", HF_HUB_DISABLE_TELEMETRY="1")  # before gradio is imported
    try:
        import gradio as gradio
    except ImportError:
        raise ValueError(MISSING) from None
    from ars.play.app import launch
    from ars.workflows.hardware import choose_device

    choose_device("cpu")  # leaves a core to the rest of the machine
    with terminable():
        try:
            app, address = launch(host=options.host, port=options.port, browser=not options.no_browser)
        except OSError as error:
            if "empty port" not in str(error):
                raise
            where = options.host if options.port is None else f"{options.host}:{options.port}"
            raise ValueError(
                f"nothing can be served at {where}: the port is taken, or the address is not of this machine; "
                "choose others with --port and --host"
            ) from None
        print(f"open {address} (Ctrl-C ends it)", flush=True)
        try:
            while True:
                time.sleep(3600)
        except KeyboardInterrupt:
            return 0
        finally:
            app.close(verbose=False)
