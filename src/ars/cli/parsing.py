"""The parser of commands: what it cannot read gets one sentence, not its usage."""

import argparse
import re
from typing import NoReturn

from ars.experiments.plain_words import KINDS, meant, one_of


class Parser(argparse.ArgumentParser):
    """As argparse's, but for its errors."""

    def error(self, message: str) -> NoReturn:
        """Say what is wrong and where help is; exit code 2."""
        self.exit(2, f"ars: {told(message, self.prog)}\n")


def told(message: str, command: str) -> str:
    """What argparse says, in plain words.

    >>> told("argument --n-estimate: invalid int value: '1e4'", "ars certify")
    "--n-estimate must be a whole number, got 1e4; 'ars certify --help' says more"
    >>> told("argument COMMAND: invalid choice: 'cerify' (choose from 'demo', 'certify')", "ars")
    "there is no command cerify; did you mean certify? 'ars --help' says more"
    """
    more = f"'{command} --help' says more"
    if it := re.fullmatch(r"argument (\S+): invalid (\w+) value: '(.*)'", message):
        return f"{it[1].partition('/')[0]} must be {KINDS.get(it[2], f'a {it[2]}')}, got {it[3]}; {more}"
    if it := re.fullmatch(r"argument (\S+): invalid choice: '(.*)' \(choose from (.*)\)", message):
        choices = [choice.strip("'") for choice in it[3].split(", ")]
        named = it[1] in ("COMMAND", "ACTION")
        wrong = f"there is no {it[1].lower()} {it[2]}" if named else f"{it[1]} must be {one_of(choices)}, got {it[2]}"
        return f"{wrong}{meant(it[2], choices) or ';'} {more}"
    if it := re.fullmatch(r"the following arguments are required: (.*)", message):
        return f"{command} needs {it[1]}; {more}"
    return f"{message.removeprefix('argument ')}; {more}"
