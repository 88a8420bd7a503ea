"""What jsonargparse says of a value or a key, in the words of who wrote them."""

import re
from collections.abc import Sequence
from difflib import get_close_matches

KINDS = {
    "int": "a whole number",
    "float": "a number",
    "bool": "true or false",
    "str": "a text",
    "tuple": "a list in brackets",
    "dict": "keys with values",
    "NoneType": "null",
}


def in_one_sentence(error: Exception) -> str:
    """What the parser or a dataclass of ours has to say, without the parser's own words.

    >>> in_one_sentence(ValueError("Parser key \\"train.epochs\\":\\n  Expected a <class 'int'>. Got value: abc"))
    'train.epochs must be a whole number, got abc'
    >>> in_one_sentence(ValueError("Group 'train' does not accept option 'epoch'"))
    'there is no key train.epoch'
    """
    return _told(" ".join(str(error).split()), "")


def one_of(choices: Sequence[str]) -> str:
    """Choices as a sentence names them.

    >>> one_of(["fixed", "radius", "curve"])
    'one of fixed, radius or curve'
    """
    *most, last = choices
    return f"one of {', '.join(most)} or {last}" if most else last


def meant(word: str, words: Sequence[str]) -> str:
    """A question that ends a sentence where one of the words may have been meant, else nothing."""
    near = get_close_matches(word, words, n=1)
    return f"; did you mean {near[0]}?" if near else ""


def _told(text: str, key: str) -> str:
    """A message about a key; the keys of parts stand one within the other."""
    if it := re.fullmatch(r'Parser key "([^"]+)": (.*)', text):
        return _told(it[2], _within(key, it[1]))
    if it := re.fullmatch(r"Problem with given class_path '[^']*': (.*)", text):
        return _told(it[1], key)
    if it := re.fullmatch(r"Does not validate .*? Errors: - (.*) Given value type: .*? Given value: ?(.*)", text):
        own = it[1].removesuffix(" - Expected a <class 'NoneType'>")
        if own.startswith(("Not a valid subclass", "Expected a dot import path")):
            return f"{key} must be keys with values or null, got {it[2]}"
        return _expected(key, it[1], it[2]) if own.startswith("Expected") else _told(own, key)
    if it := re.fullmatch(r"(Expected a .*)\. Got value: ?(.*)", text):
        return _expected(key, it[1], it[2])
    if it := re.fullmatch(r"(?:Group '([^']+)' does not accept option|Option) '([^']+)'(?: is not accepted)?", text):
        return f"there is no key {_within(_within(key, it[1]), it[2])}"
    return text


def _expected(key: str, errors: str, value: str) -> str:
    found = re.findall(r"Expected a (?:<class '(\w+)'>|typing\.Literal\[([^]]*)\])", errors)
    choices = [choice for _, listed in found for choice in re.findall(r"'([^']*)'", listed)]
    kinds = [KINDS.get(kind, kind) for kind, _ in found if kind]
    wanted = " or ".join([*([one_of(choices)] if choices and not kinds else choices), *kinds])
    return f"{key} must be {wanted}, got {value or 'nothing'}{meant(value, choices)}"


def _within(part: str, key: str | None) -> str:
    return ".".join(name for name in (part, key) if name)
