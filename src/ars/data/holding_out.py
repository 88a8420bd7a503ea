"""Which images are held out, and which come first, decided by hashes: of names, or of the numbers below a count."""

import hashlib
from collections import defaultdict
from collections.abc import Sequence

from ars.data.benchmark import Part


def share_of(name: str, salt: str) -> float:
    """A number in [0, 1) that depends on the name and the salt alone.

    >>> round(share_of("train/cat/1.png", "validation"), 3)
    0.604
    """
    return int.from_bytes(hashlib.sha256(f"{salt}:{name}".encode(errors="surrogateescape")).digest()[:8]) / 2**64


def part_of(name: str, *, validation: float, test: float = 0.0) -> Part:
    """The part that a name falls into, with these expected shares; other names do not matter, so files may be added."""
    share = share_of(name, "held out")
    if share < test:
        return "test"
    return "validation" if share < test + validation else "train"


def held_out(count: int, share: float) -> tuple[list[int], list[int]]:
    """The indices below count that stay and that are held out, the latter at least one and a share of all.

    A set of another count has others held out.
    """
    out = set(sorted(range(count), key=lambda index: share_of(str(index), "held out"))[: max(1, round(share * count))])
    return [index for index in range(count) if index not in out], sorted(out)


def classes_in_turn(names: Sequence[str], labels: Sequence[int]) -> list[int]:
    """An order of the names: round by round one of each class, as long as it has any.

    Hashes decide which one, and the order of the classes within a round: a step of as many names as there are classes
    would meet the same class in every round else.

    >>> labels = [0, 0, 0, 0, 1, 1, 1, 2]
    >>> [labels[index] for index in classes_in_turn("abcdefgh", labels)]
    [2, 0, 1, 0, 1, 1, 0, 0]
    """
    of_class: dict[int, list[int]] = defaultdict(list)
    for index in sorted(range(len(names)), key=lambda index: (share_of(names[index], "in its class"), names[index])):
        of_class[labels[index]].append(index)
    turns = [(turn, index) for indices in of_class.values() for turn, index in enumerate(indices)]
    return [index for _, index in sorted(turns, key=lambda it: (it[0], share_of(names[it[1]], "in its round"), it[1]))]
