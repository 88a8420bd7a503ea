"""The command line: only parsing and printing; each command has its own file."""

import argparse
import re
import shlex
import sys
from collections.abc import Sequence
from difflib import get_close_matches
from typing import NoReturn

from ars.cli.errors import describe_error, plain_warnings, say, usable_streams

try:
    from ars import __version__
    from ars.certification.memory import is_short_of_memory
    from ars.cli import (
        attack,
        audit,
        certify,
        data,
        demo,
        doctor,
        pack,
        play,
        predict,
        push,
        radius,
        recipes,
        report,
        results,
        sweep,
        train,
        vote,
    )
    from ars.recipes.read import KINDS, one_of, suggestion
    from ars.workflows.processes import WorldError, read_world
except KeyboardInterrupt:  # before main could say so
    say("\nars: interrupted before anything was started")
    sys.exit(130)
except ModuleNotFoundError as error:
    say(f"ars: {describe_error(error)}")
    sys.exit(2)

COMMANDS = (
    demo,
    play,
    train,
    certify,
    vote,
    attack,
    audit,
    predict,
    report,
    recipes,
    sweep,
    pack,
    results,
    push,
    radius,
    data,
    doctor,
)


class Parser(argparse.ArgumentParser):
    """argparse's parser with plain error messages."""

    def error(self, message: str) -> NoReturn:
        """Say what is wrong and where help is; exit code 2."""
        self.exit(2, f"ars: {parse_error(message, self.prog)}\n")


def parse_error(message: str, command: str) -> str:
    """An error message of argparse, in plain words.

    >>> parse_error("argument --n-estimate: invalid int value: '1e4'", "ars certify")
    "--n-estimate must be a whole number, got 1e4; see 'ars certify --help'"
    >>> parse_error("argument COMMAND: invalid choice: 'cerify' (choose from 'demo', 'certify')", "ars")
    "there is no command cerify; did you mean certify? see 'ars --help'"
    """
    more = f"see '{command} --help'"
    if match := re.fullmatch(r"argument (\S+): invalid (\w+) value: '(.*)'", message):
        name, kind, value = match.groups()
        return f"{name.partition('/')[0]} must be {KINDS.get(kind, f'a {kind}')}, got {value}; {more}"
    if match := re.fullmatch(r"argument (\S+): invalid choice: '(.*)' \(choose from (.*)\)", message):
        name, value, listed = match.groups()
        choices, named = [choice.strip("'") for choice in listed.split(", ")], name in ("COMMAND", "ACTION")
        wrong = f"there is no {name.lower()} {value}" if named else f"{name} must be {one_of(choices)}, got {value}"
        return f"{wrong}{suggestion(value, choices) or ';'} {more}"
    if match := re.fullmatch(r"the following arguments are required: (.*)", message):
        return f"{command} needs {match[1]}; {more}"
    return f"{message.removeprefix('argument ')}; {more}"


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command; 0 on success, 2 with one sentence on bad input, 130 when interrupted."""
    usable_streams()
    given = sys.argv[1:] if arguments is None else list(arguments)
    options, unknown = make_parser().parse_known_args(given)
    if unknown:
        say(f"{_speaker()}: {unknown_options(unknown, options)}")
        return 2
    try:
        with plain_warnings():
            return int(options.run(options))
    except KeyboardInterrupt:
        command = shlex.join(["ars", *given])
        then = "run the same command again to resume" if options.resumable else "nothing was saved, so run it again"
        say(f"\n{_speaker()}: interrupted; {then}: {command}")
        return 130
    except BrokenPipeError:
        return 1
    except (ValueError, ArithmeticError, OSError, ModuleNotFoundError, MemoryError, RuntimeError) as error:
        if isinstance(error, RuntimeError) and not is_short_of_memory(error):
            raise
        known = MemoryError() if isinstance(error, RuntimeError) else error
        say(f"{_speaker()}: {describe_error(known)}")
        return 2


def unknown_options(given: Sequence[str], options: argparse.Namespace) -> str:
    """What is wrong with arguments that the command does not have, and the options that may have been meant."""
    names = [part for part in given if part.startswith("-")]  # without the values of options
    if not names:
        return f"{given[0]} is one argument too many; see '{options.parser.prog} --help'"
    known = options.parser._option_string_actions  # argparse has no public list of them
    guesses = [guess for name in names for guess in get_close_matches(name.partition("=")[0], known, n=1, cutoff=0.8)]
    question = f"did you mean {' and '.join(guesses)}? " if guesses else ""
    return f"there is no option {' or '.join(names)}; {question}'{options.known}' lists all options"


def _speaker() -> str:
    """The program's name, and the rank of this process if there are several."""
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
