"""A verdict says that a label lost its lead only if it did, as often as its p-value says."""

import numpy as np
import pytest
import torch
from scipy.stats import binom
from torch import nn

from ars import cohen
from ars.audit.verdict import judge
from ars.certification.certifier import Certifier
from ars.certification.settings import CertifySettings

REPEATS, DRAWS = 400, 200


class Threshold(nn.Module):
    """Class 0 where the first number of the noisy image is above a half, else class 1; class 2 never."""

    def forward(self, image):
        above = (image[:, 0, 0, 0] > 0.5).float()
        return torch.stack([above, 1 - above, torch.full_like(above, -1.0)], dim=1)


def verdicts(pixel, label, seed=5):
    """Verdicts on many copies of an image, each with its own draws."""
    images = torch.full((REPEATS, 1, 1, 1), pixel)
    certifier = Certifier(cohen(Threshold(), sigma=0.5), CertifySettings(seed=seed, precision="float32"))
    return judge(certifier, images, [label] * REPEATS, range(REPEATS), draws=DRAWS)


@pytest.mark.false_alarm(1e-6)
def test_a_label_that_ties_is_rarely_said_to_have_lost(seed):
    """At level .05, false alarms are binomial with at most that rate."""
    found = verdicts(0.5, 0, seed)
    assert {one.challenger for one in found} == {1}
    alarms = sum(one.p_value <= 0.05 for one in found)
    assert alarms <= binom.isf(1e-8, REPEATS, 0.05)
    assert np.mean([one.winner == 0 for one in found]) == pytest.approx(0.5, abs=0.2)


@pytest.mark.false_alarm(1e-7)
def test_a_label_that_lost_is_found_out_and_one_that_leads_is_not(seed):
    """The label has .27 or .73 of the draws."""
    lost, leads = verdicts(0.2, 0, seed), verdicts(0.8, 0, seed)
    assert sum(one.p_value <= 0.001 for one in lost) > 0.95 * REPEATS
    assert all(one.winner == 1 for one in lost)
    assert all(one.p_value > 0.5 for one in leads)


def test_a_verdict_counts_fresh_draws(monkeypatch):
    asked = []
    count = Certifier.votes
    monkeypatch.setattr(
        Certifier,
        "votes",
        lambda self, *args, **how: asked.append((how["stage"], how["n"])) or count(self, *args, **how),
    )
    [first, *_] = verdicts(0.8, 1)
    assert asked == [("select", 100), ("estimate", DRAWS)]
    assert sum(first.counts) == DRAWS
