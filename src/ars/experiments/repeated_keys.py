"""Keys that stand twice in a YAML file, of which every reader would silently take the last."""

from collections.abc import Iterator

import yaml


def repeated_key(text: str) -> str | None:
    """Which key stands twice, and where; None where none does, or the text is no YAML, which its reader says.

    >>> repeated_key("train:\\n  epochs: 3\\n  epochs: 4")
    'train.epochs stands twice, on lines 2 and 3; keep one of them'
    """
    try:
        root = yaml.compose(text, Loader=yaml.SafeLoader)
    except yaml.YAMLError:
        return None
    found = next(_repeated(root, "", set()), None) if root else None
    if found is None:
        return None
    name, first, second = found
    where = f"line {first}" if first == second else f"lines {first} and {second}"
    return f"{name} stands twice, on {where}; keep one of them"


def _repeated(node: yaml.Node, prefix: str, seen: set[int]) -> Iterator[tuple[str, int, int]]:
    """The dotted names with both lines; a node that an alias brings back is looked at once."""
    if id(node) in seen:
        return
    seen.add(id(node))
    if isinstance(node, yaml.SequenceNode):
        for item in node.value:
            yield from _repeated(item, prefix, seen)
    if not isinstance(node, yaml.MappingNode):
        return
    lines: dict[str, int] = {}
    for key, value in node.value:
        name, line = str(key.value), key.start_mark.line + 1
        if name in lines:
            yield prefix + name, lines[name], line
        lines[name] = line
        yield from _repeated(value, f"{prefix}{name}.", seen)
