"""When to stop drawing: rules that an engine asks as the votes come in.

    state = rule.start(selected)                    # [images, classes], the votes of the selection draws
    while state.going.any():
        n = rule.next_look(drawn, state)            # draw each image that goes on up to here, then
        state = rule.look(state, counts)            # [images, classes], the votes of all its estimation draws so far

Where and when an image stops depends on its own votes alone: not on the batch it is in, nor on the engine.
"""

from abc import ABC, abstractmethod
from dataclasses import dataclass, replace
from typing import get_args

import numpy as np
from numpy.typing import NDArray

from ars.certification.bounds import Bound, check_alpha
from ars.certification.martingale import reaches
from ars.certification.planning import plan_draws
from ars.certification.schedule import Ending, Outcome, Schedule

Votes = NDArray[np.int64]
Flags = NDArray[np.bool_]

# Wealth of the mirrored bet, that p >= p0 is false, at which an image is given up; never an unsound thing to do.
HOPELESS = 100.0
# Looks are a block apart at first, later this share of the draws so far: few looks, few draws too many.
SPACING = 0.05

_GOING = 0
_ENDINGS: tuple[Ending, ...] = get_args(Ending)
_CODES = {ending: code for code, ending in enumerate(_ENDINGS, start=1)}


@dataclass(frozen=True)
class State:
    """Where the images of a batch stand: votes of the selection draws [b, classes], the rest [b]."""

    selected: Votes
    planned: Votes
    certified: Votes
    ended: Votes

    @property
    def going(self) -> Flags:
        """Which images need more draws."""
        return np.asarray(self.ended == _GOING)

    @property
    def candidate(self) -> NDArray[np.intp]:
        """The class that each image's selection draws chose."""
        return np.asarray(self.selected.argmax(axis=1))


class Rule(ABC):
    """The draws of an image end at ``planned``, or before that where ``_decide`` says so."""

    def __init__(self, schedule: Schedule, *, alpha: float, block: int = 100) -> None:
        check_alpha(alpha)
        self.schedule, self.alpha, self.block = schedule, alpha, block

    def check(self) -> None:  # noqa: B027 - most rules refuse nothing
        """Refuse, before anything is drawn, what could never be certified."""

    def start(self, selected: Votes) -> State:
        """Nothing is drawn yet; what is planned depends on the selection draws alone."""
        none = np.zeros(len(selected), dtype=np.int64)
        planned = np.array([self._plan(votes) for votes in selected], dtype=np.int64)
        return State(np.asarray(selected, dtype=np.int64), planned, none, none)

    def next_look(self, drawn: Votes, state: State) -> Votes:
        """Up to how many draws each image goes before the next look: whole blocks, or all that is planned."""
        step = self.block * np.maximum(1, (SPACING * drawn).astype(np.int64) // self.block)
        return np.asarray(np.minimum(drawn + step, state.planned))

    def look(self, state: State, counts: Votes) -> State:
        """Decide on all votes so far; an image that has ended stays as it is."""
        n = counts.sum(axis=1)
        if (n > state.planned).any():
            raise ValueError(f"drew {n.max()} times where at most {state.planned[n.argmax()]} draws were planned")
        certified, hopeless = self._decide(state, counts, n)
        ended = np.where(n == state.planned, _CODES["planned"], _GOING)
        ended = np.where(hopeless & (ended == _GOING), _CODES["given up"], ended)
        if self.schedule.radii:
            ended = np.where(certified == len(self.schedule.radii), _CODES["certified"], ended)
        return replace(state, certified=certified, ended=np.where(state.going, ended, state.ended))

    def outcomes(self, state: State, counts: Votes) -> list[Outcome]:
        """What is to be recorded of images that have all ended."""
        return [
            Outcome(
                schedule=self.schedule,
                planned=int(planned),
                ended=_ENDINGS[int(ended) - 1],
                counts=tuple(int(count) for count in votes),
                certified=int(certified),
                p_lower=self._p_lower(int(certified)),
            )
            for planned, certified, ended, votes in zip(
                state.planned, state.certified, state.ended, counts, strict=True
            )
        ]

    def _plan(self, selected: Votes) -> int:
        return self.schedule.n_max

    def _p_lower(self, certified: int) -> float:
        return 0.0

    @abstractmethod
    def _decide(self, state: State, counts: Votes, n: Votes) -> tuple[Votes, Flags]:
        """How many radii of the grid are certified, more only of images that go on, and whether draws are hopeless."""


class FixedRule(Rule):
    """n_max draws, whatever they say."""

    def next_look(self, drawn: Votes, state: State) -> Votes:
        """One look, at the end."""
        return state.planned

    def _decide(self, state: State, counts: Votes, n: Votes) -> tuple[Votes, Flags]:
        return state.certified, np.zeros(len(n), dtype=bool)


class RadiusRule(Rule):
    """N planned from the selection draws; images whose class is not the most probable one are given up.

    Any bound at level alpha on the votes of the planned N holds with probability 1 - alpha: N does not depend on them,
    and giving up only takes certificates away. Under Cohen et al.'s bound p <= 1/2 is hopeless, under class bounds
    losing to another class.
    """

    def __init__(self, schedule: Schedule, *, alpha: float, bound: Bound, block: int = 100) -> None:
        super().__init__(schedule, alpha=alpha, block=block)
        self.bound: Bound = bound

    def _plan(self, selected: Votes) -> int:
        schedule = self.schedule
        assert schedule.tolerance is not None
        return plan_draws(
            selected.tolist(), alpha=self.alpha, bound=self.bound, n_max=schedule.n_max, tolerance=schedule.tolerance,
            block=self.block,
        )  # fmt: skip

    def _decide(self, state: State, counts: Votes, n: Votes) -> tuple[Votes, Flags]:
        at = np.arange(len(counts)), state.candidate
        against, before = n - counts[at], state.selected.sum(axis=1) - state.selected[at]
        if self.bound == "classes":
            others = counts.copy()
            others[at] = -1
            rival = others.argmax(axis=1)
            against, before = counts[at[0], rival], state.selected[at[0], rival]
        prior = np.stack([before, state.selected[at]]) + 0.5
        half = np.full(len(n), 0.5)
        hopeless = reaches(HOPELESS, against, counts[at] + against, prior=(prior[0], prior[1]), p0=half)
        return state.certified, hopeless
