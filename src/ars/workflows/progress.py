"""The progress of a certification, for display; loads no torch."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from ars.runs.records import Record


@dataclass(frozen=True)
class Progress:
    """Counts over the images of this process's shards: total, done (in all sessions) and fresh (in this session).

    draws and seconds are those of this session. right counts labels that are right and certified; radii is the sum of
    their radii. In the shard in progress, drawn of at_most draws are made.
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
        """The progress after adding records of an earlier session."""
        right = [record.certificate.radius for record in records if record.correct]
        return replace(
            self, done=self.done + len(records), right=self.right + len(right), radii=self.radii + sum(right)
        )

    def made(self, records: Sequence[Record], *, seconds: float) -> "Progress":
        """The progress after adding records of this session, which has taken so many seconds."""
        certificates = [record.certificate for record in records]
        draws = sum(sum(certificate.counts) + sum(certificate.select_counts) for certificate in certificates)
        found = self.found(records)
        fresh = self.fresh + len(records)
        return replace(found, fresh=fresh, draws=self.draws + draws, seconds=seconds, drawn=0, at_most=0)

    @property
    def draws_a_second(self) -> float:
        """The average over this session."""
        return self.draws / self.seconds if self.seconds > 0 else 0.0

    @property
    def certified(self) -> float:
        """The share of images whose label is right and certified."""
        return self.right / max(self.done, 1)

    @property
    def average_radius(self) -> float:
        """The mean over all images; wrong labels and abstentions count as 0."""
        return self.radii / max(self.done, 1)

    @property
    def seconds_left(self) -> float | None:
        """The remaining time at this session's pace; None before its first image."""
        return self.seconds / self.fresh * (self.total - self.done) if self.fresh else None
