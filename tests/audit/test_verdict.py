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


def verdicts(pixel, label):
    """Verdicts on many copies of an image, each with its own draws."""
    images = torch.full((REPEATS, 1, 1, 1), pixel)
    certifier = Certifier(cohen(Threshold(), sigma=0.5), CertifySettings(seed=5, precision="float32"))
    return judge(certifier, images, [label] * REPEATS, range(REPEATS), draws=DRAWS)


def test_a_label_that_ties_is_rarely_said_to_have_lost():
    """At level .05, false alarms are binomial with at most that rate; beyond the bound with probability 1e-6."""
    found = verdicts(0.5, 0)
    assert {one.challenger for one in found} == {1}
    alarms = sum(one.p_value <= 0.05 for one in found)
    assert alarms <= binom.isf(1e-6, REPEATS, 0.05)
    assert np.mean([one.winner == 0 for one in found]) == pytest.approx(0.5, abs=0.15)


def test_a_label_that_lost_is_found_out_and_one_that_leads_is_not():
    lost, leads = verdicts(0.2, 0), verdicts(0.8, 0)
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
