"""Did an attack change a label? Decided on fresh draws, with a stated probability of a false alarm."""

from collections.abc import Sequence
from dataclasses import dataclass

from scipy.stats import binomtest

from ars.certification.certifier import Certifier
from ars.smoothing.mechanism import Images

N_SELECT = 100


@dataclass(frozen=True)
class Verdict:
    """The votes at a candidate: does another class have a larger probability than the label?

    challenger is the class that leads, or comes second to the label, on selection draws of its own; p_value is that of
    the fresh votes if the label's probability were at least the challenger's.
    """

    label: int
    challenger: int
    counts: tuple[int, ...]
    p_value: float

    @property
    def winner(self) -> int:
        """The class with the most votes."""
        return self.counts.index(max(self.counts))


def judge(
    certifier: Certifier, images: Images, labels: Sequence[int], indices: Sequence[int], *, draws: int
) -> list[Verdict]:
    """Votes on candidates, one verdict each; the certifier's seed must be another than that of the certificates.

    If no label lost its lead, the expected share of verdicts with p_value <= level is at most that level.
    """
    selected = certifier.votes(images, indices, n=N_SELECT, stage="select")
    counted = certifier.votes(images, indices, n=draws, stage="estimate")
    verdicts = []
    for label, first, counts in zip(labels, selected.tolist(), counted.tolist(), strict=True):
        challenger = max((name for name in range(len(first)) if name != label), key=lambda name: first[name])
        against, own = counts[challenger], counts[label]
        p_value = binomtest(against, against + own, 0.5, alternative="greater").pvalue if against + own else 1.0
        verdicts.append(Verdict(label, challenger, tuple(counts), float(p_value)))
    return verdicts
