"""Where a certification stands, for whoever watches it; loads no torch."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from ars.certification.records import Record


@dataclass(frozen=True)
class Progress:
    """The images of this process's shards: total of them, done with those of earlier sessions, fresh in this one.

    draws and seconds are those of this session; right counts labels that are right and certified, radii adds theirs up.
    Of the shard under way, drawn of at most so many draws are made.
    """

    total: int
    done: int = 0
    fresh: int = 0
    draws: int = 0
    seconds: float = 0.0
    right: int = 0
    radii: float = 0.0
    drawn: int = 0
    at_most: int = 0

    def found(self, records: Sequence[Record]) -> "Progress":
        """With records of an earlier session."""
        right = [record.certificate.radius for record in records if record.correct]
        return replace(
            self, done=self.done + len(records), right=self.right + len(right), radii=self.radii + sum(right)
        )

    def made(self, records: Sequence[Record], *, seconds: float) -> "Progress":
        """With records of this session, which took so many seconds so far."""
        draws = sum(sum(one.certificate.counts) + sum(one.certificate.select_counts) for one in records)
        found = self.found(records)
        fresh = self.fresh + len(records)
        return replace(found, fresh=fresh, draws=self.draws + draws, seconds=seconds, drawn=0, at_most=0)

    @property
    def draws_a_second(self) -> float:
        """Of this session, over all that it did."""
        return self.draws / self.seconds if self.seconds > 0 else 0.0

    @property
    def certified(self) -> float:
        """The share of images whose label is right and certified."""
        return self.right / max(self.done, 1)

    @property
    def average_radius(self) -> float:
        """Over all images; a wrong label and an abstention count as 0."""
        return self.radii / max(self.done, 1)

    @property
    def seconds_left(self) -> float | None:
        """At this session's pace; None before it did anything."""
        return self.seconds / self.fresh * (self.total - self.done) if self.fresh else None
