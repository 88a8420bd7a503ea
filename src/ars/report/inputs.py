"""Whether two runs have the same test inputs, as far as their recipes and manifests tell."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

from ars.certification.seen_images import Look, difference
from ars.data.settings import PLACES

Item = TypeVar("Item")

NOT_OF_TEST = {"passes", "padding", "workers"}
"""Keys of a recipe's data that change no test input."""
SEEN = {*PLACES, "skip_unreadable"}
"""Keys whose effect is seen in the images themselves: where both runs have looked at these, they may differ."""


@dataclass(frozen=True)
class Inputs:
    """What decides test inputs: the recipe's data, and what the manifest says of the images; nothing, if it is old."""

    data: Mapping[str, Any]
    images: Look = ()
    order: str = ""

    def same(self, other: "Inputs") -> bool:
        """Whether nothing tells the inputs apart; a key that only one recipe has came with a later version."""
        seen = bool(self.images and other.images)
        mine, theirs = ({"seed": 0, **it.data} for it in (self, other))
        keys = (mine.keys() & theirs.keys()) - NOT_OF_TEST - (SEEN if seen else set())
        if self.order != other.order:
            return False
        return all(mine[key] == theirs[key] for key in keys) and difference(self.images, other.images) is None


def alike(items: Iterable[Item], same: Callable[[Item, Item], bool]) -> list[list[Item]]:
    """Items in sets of which each two are the same, the largest set first.

    >>> alike("aBbAa", lambda one, other: one.lower() == other.lower())
    [['a', 'A', 'a'], ['B', 'b']]
    """
    sets: list[list[Item]] = []
    for item in items:
        like = next((some for some in sets if all(same(item, other) for other in some)), None)
        sets.append([item]) if like is None else like.append(item)
    return sorted(sets, key=len, reverse=True)
