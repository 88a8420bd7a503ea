"""The checks of an audit, in one table: each asks one question of a model, and answers with a Finding.

A random check refuses a sound model with probability at most LEVEL. Passing means that no defect was found. It is not a
proof.
"""

from collections.abc import Callable
from dataclasses import dataclass

from ars.audit import guarantee_checks, network_checks, noise_checks
from ars.audit.answer import LEVEL, Answer
from ars.audit.draws import Subject
from ars.runs.audits import Finding


@dataclass(frozen=True)
class Check:
    """A check with its name and its question; by_chance is whether it may refuse a sound model by chance."""

    name: str
    question: str
    ask: Callable[[Subject], Answer]
    by_chance: bool = False

    def __call__(self, subject: Subject) -> Finding:
        """The answer; a defect that a check refuses by an error is found too."""
        try:
            answer = self.ask(subject)
        except (TypeError, ValueError) as error:
            answer = Answer(False, f"{error}")
        false_alarm = LEVEL if self.by_chance and answer.passed is not None else 0.0
        passed, said, p_value, figure = answer
        return Finding(self.name, self.question, passed, said, p_value, false_alarm, figure or {})


CHECKS = (
    Check("model check", "Does ars certify take the model?", network_checks.check_short, True),
    Check("likelihood ratio", "Do all releases together show no more of X than they state?",
          guarantee_checks.check_likelihood_ratio, True),
    Check("operating points", "Does any statistic beat the stated trade-off function?",
          guarantee_checks.check_operating_points, True),
    Check("radius", "Does the best test still have half of the votes at the certified radius?",
          guarantee_checks.check_radius, True),
    Check("votes", "Are the votes of draws independent?", network_checks.check_votes, True),
    Check("noise", "Is the noise what it states, up to its tails?", noise_checks.check_noise, True),
    Check("low bits", "Does rounding show more of X?", noise_checks.check_low_bits, True),
    Check("batches", "Are draws answered alike in batches of any size?", network_checks.check_batches),
    Check("masks", "Do weights and deviations see only releases?", noise_checks.check_masks),
    Check("eval mode", "Is everything in eval mode, and stays there?", network_checks.check_eval_mode),
    Check("autocast", "Do noise and guarantee hold under autocast to bf16?", noise_checks.check_autocast, True),
    Check("drift", "Does the model stay the same over many images?", network_checks.check_drift),
)  # fmt: skip
