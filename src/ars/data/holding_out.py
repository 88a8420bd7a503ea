"""Which images are held out, decided by hashes: of a name alone, or of the numbers below a count."""

import hashlib

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
