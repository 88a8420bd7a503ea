"""Committed certificates of trained models under attack: gradients through the noise find nothing within the radius."""

from pathlib import Path

import pytest
import torch
from scipy.stats import binom
from torch.nn import functional as F

from ars.certification.certifier import predict
from ars.runs.shards import read_certification
from ars.training.attack import attack
from ars.workflows.load import load_run

DIGITS = Path(__file__).parents[2] / "results" / "digits"
pytestmark = pytest.mark.slow
IMAGES, STEPS, DRAWS, VOTES = 6, 12, 24, 400


@pytest.fixture(scope="module", params=["cohen", "static_mask", "adaptive"])
def attacked(request):
    """How often the certified label still wins, of VOTES, at a number of times the radius; and the labels that do."""
    run = DIGITS / f"{request.param}-s0.75-seed0"
    _, benchmark, model = load_run(run, torch.device("cpu"))
    records = read_certification(run / "certify" / "test").records
    certified = sorted(
        (record.certificate for record in records if record.certificate.label is not None), key=lambda one: one.radius
    )
    chosen = certified[20:80:10][:IMAGES]  # neither those with next to no radius nor those with the largest
    images, _ = benchmark.examples("test", [certificate.index for certificate in chosen])
    labels = torch.tensor([certificate.label for certificate in chosen])
    radii = torch.tensor([certificate.radius for certificate in chosen]).view(-1, 1, 1, 1)

    def at(times, seed=991):
        generator = torch.Generator().manual_seed(3)

        def loss(moved):
            logits = model(moved.repeat_interleave(DRAWS, dim=0), generator)
            return F.cross_entropy(logits, labels.repeat_interleave(DRAWS))

        worst = attack(loss, images, epsilon=times * radii, steps=STEPS, norm="linf")
        assert ((worst - images).abs() <= times * radii * (1 + 1e-5)).all()
        answers = predict(model, worst, n=VOTES, alpha=0.001, seed=seed)
        return labels.tolist(), answers

    return at


def lost(labels, answers):
    """Of how many images the label has, at a level of .001, less than half of the draws."""
    return sum(
        binom.cdf(answer.counts[label], VOTES, 0.5) < 0.001 for label, answer in zip(labels, answers, strict=True)
    )


@pytest.mark.false_alarm(1e-8)
def test_nothing_within_the_radius_takes_the_label_away(attacked, seed):
    """Each label keeps more than .65 of the draws, more than four times those of any other."""
    labels, answers = attacked(0.99, seed)
    assert lost(labels, answers) == 0
    assert [answer.label for answer in answers] == labels


def test_the_attack_is_strong_enough_to_break_radii_six_times_as_large(attacked):
    """Ten classes, 1,000 draws and networks that are smoother than the worst leave room beyond a certified radius."""
    labels, answers = attacked(6.0)
    assert lost(labels, answers) >= IMAGES // 2
