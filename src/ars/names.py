"""Names from files of others, shown without an effect on a terminal or a page."""

import re
from typing import Any

CONTROL = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069]")
"""What moves the cursor, changes colours, ends a line or turns the direction of a text; not a new line or a tab."""


def shown(text: str) -> str:
    """The text without an effect on a terminal or a page: control characters as \\u001b.

    >>> print(shown("cat\x1b[31m"))
    cat\\u001b[31m
    """
    return CONTROL.sub(lambda found: f"\\u{ord(found[0]):04x}", text)


def shown_name(text: object) -> str:
    """The same for a name, which has one line."""
    return shown(str(text)).replace("\n", "\\n").replace("\t", "\\t")


def shown_values(tree: Any) -> Any:
    """The same for all texts in a mapping or list, its keys too."""
    if isinstance(tree, dict):
        return {shown_values(key): shown_values(value) for key, value in tree.items()}
    if isinstance(tree, list):
        return [shown_values(value) for value in tree]
    return shown_name(tree) if isinstance(tree, str) else tree
