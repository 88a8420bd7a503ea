"""The command line: parsing and printing only; each command has a file of its own."""

import argparse
import shlex
import sys
from collections.abc import Sequence

from ars.certification.shortage import is_short_of_memory
from ars.cli.errors import plain_warnings, told
from ars.cli.streams import say, usable_streams

try:
    from ars import __version__
    from ars.cli import certify, data, demo, pack, predict, radius, report, results, sweep, train, vote
    from ars.cli.parsing import Parser
    from ars.experiments.world import WorldError, read_world
except KeyboardInterrupt:  # before main could say so
    say("\nars: interrupted before anything was begun")
    sys.exit(130)
except ModuleNotFoundError as error:
    say(f"ars: {told(error)}")
    sys.exit(2)

COMMANDS = (demo, train, certify, vote, predict, report, sweep, pack, results, radius, data)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command; 0 on success, 2 with one sentence on bad input, 130 when interrupted."""
    usable_streams()
    given = sys.argv[1:] if arguments is None else list(arguments)
    options, unknown = make_parser().parse_known_args(given)
    if unknown:
        names = [it for it in unknown if it.startswith("-")]  # without the values of options
        if not names:
            say(f"{_who()}: {unknown[0]} is one argument too many; '{options.usage}' says what it takes")
            return 2
        meant = [it for name in names if (it := options.nearest(name.partition("=")[0]))]
        guess = f"did you mean {' and '.join(meant)}? " if meant else ""
        say(f"{_who()}: there is no {' or '.join(names)}; {guess}'{options.known}' lists what there is")
        return 2
    try:
        with plain_warnings():
            return int(options.run(options))
    except KeyboardInterrupt:
        command = shlex.join(["ars", *given])
        then = "run the same command again to go on from here" if options.goes_on else "nothing is kept, so run it anew"
        say(f"\n{_who()}: interrupted; {then}: {command}")
        return 130
    except BrokenPipeError:
        return 1
    except (ValueError, ArithmeticError, OSError, ModuleNotFoundError, MemoryError) as error:
        say(f"{_who()}: {told(error)}")
        return 2
    except RuntimeError as error:
        if not is_short_of_memory(error):
            raise
        say(f"{_who()}: {told(MemoryError())}")
        return 2


def _who() -> str:
    """Who speaks; among several processes, which of them."""
    try:
        world = read_world()
    except WorldError:
        return "ars"
    return "ars" if world.size == 1 else f"ars ({world.name})"


def make_parser() -> argparse.ArgumentParser:
    """The parser with all commands; loads no torch."""
    parser = Parser(
        prog="ars",
        allow_abbrev=False,
        description="Image classifiers with certified, input-adaptive predictions (Adaptive Randomized Smoothing).",
        epilog="Start with 'ars demo'. Every command has its own --help.",
    )
    parser.add_argument("--version", action="version", version=f"ars {__version__}")
    commands = parser.add_subparsers(title="commands", metavar="COMMAND", required=True)
    for command in COMMANDS:
        command.add_to(commands)
    return parser
