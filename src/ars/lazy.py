"""Load the names of a package when they are first used, so that only code that needs torch waits for it."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from importlib import import_module
from typing import Any


def lazily(
    package: str, homes: Mapping[str, Iterable[str]], *, submodules: Sequence[str] = (), others: Sequence[str] = ()
) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """The __getattr__ and __dir__ of a package; homes maps each module to the names that it defines.

    >>> getattr_, dir_ = lazily("ars", {"ars.theory": ["Ball"]}, submodules=["theory"])
    >>> getattr_("Ball") is getattr_("theory").Ball, dir_()
    (True, ['Ball', 'theory'])
    """
    home_of = {name: home for home, names in homes.items() for name in names}

    def get(name: str) -> Any:
        if name in submodules:
            return import_module(f"{package}.{name}")
        if name not in home_of:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        return getattr(import_module(home_of[name]), name)

    return get, lambda: sorted([*home_of, *submodules, *others])
