"""ars push: share a trained model on the Hugging Face Hub."""

import argparse
from pathlib import Path

from ars.cli.options import Subparsers, add_command

TEACH = """\
Upload a trained run to the Hugging Face Hub: its weights, recipe and records, and a model card with what was measured.
No path of this machine, no image and no name of an image is uploaded. Sign in with 'hf auth login' once.

  ars push runs/ars user/name                   in Python, ars.load("user/name") then loads the model
  ars push runs/ars user/name --private
"""


def add_to(commands: Subparsers) -> None:
    """Add the command."""
    parser = add_command(commands, "push", run, summary="share a trained model on the Hugging Face Hub", teach=TEACH)
    parser.add_argument("folder", type=Path, metavar="RUN", help="a run folder made by ars train")
    parser.add_argument("repository", metavar="USER/NAME", help="the repository to create or update")
    parser.add_argument("--private", action="store_true", help="create it as a private repository")


def run(options: argparse.Namespace) -> int:
    """Upload, and say where it is."""
    from ars.workflows.hub import push

    print(push(options.folder, options.repository, private=options.private))
    return 0
