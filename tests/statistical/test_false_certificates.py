"""How often a radius is certified that is too large, at the class probability where that is easiest, end to end.

One pixel, and a classifier that compares it with a number: both the probability of the class and its true radius are
known. With probability p the noise leaves class 0, and moving the pixel by RADIUS makes it a tie. A certificate is false
if it states more than RADIUS for class 0, or any radius for class 1.
"""

import math

import numpy as np
import pytest
import torch
from scipy.special import ndtr, ndtri
from scipy.stats import binom
from torch import nn

from ars.certification.bounds import TOP_SHARE, lower_bound
from ars.certification.certifier import Certifier, predict
from ars.certification.settings import CertifySettings
from ars.smoothing import Gaussian, MaskedGaussian, SmoothedClassifier, compose, last, minimum_variance

ALPHA, N, PIXEL, NOISE = 0.05, 200, 0.25, 0.5
# p is between the lower bounds of two counts of N draws; a little less is the probability of the larger one
P = 0.75


def standard_errors(count, images, alpha=ALPHA):
    """By how many standard errors a rate exceeds alpha."""
    return (count / images - alpha) / math.sqrt(alpha * (1 - alpha) / images)


class Below(nn.Module):
    """Class 0 where the pixel is below a threshold."""

    def __init__(self, threshold):
        super().__init__()
        self.threshold = threshold

    def forward(self, image):
        score = image.double().flatten(1)[:, 0] - self.threshold
        return torch.stack([-score, score], dim=1)


class Saliency(nn.Module):
    def forward(self, image):
        return (2 * image).sigmoid()


def model_of(steps, radius):
    """Noise of NOISE in all: on one pixel a masked look, divided by its weight, is a look without a mask."""
    if steps == 1:
        return SmoothedClassifier(compose(Gaussian(NOISE)), last, Below(PIXEL + radius))
    half = NOISE * math.sqrt(2)
    mechanism = compose(Gaussian(half), MaskedGaussian(half, Saliency()))
    return SmoothedClassifier(mechanism, minimum_variance, Below(PIXEL + radius))


RADIUS = NOISE * float(ndtri(P))
MODES = {
    "fixed, Cohen's bound": {"bound": "cohen"},
    "fixed, class bounds": {"bound": "classes"},
    "radius, Cohen's bound": {"mode": "radius", "bound": "cohen", "tolerance": 0.05, "n_estimate": 2000},
    "radius, class bounds": {"mode": "radius", "bound": "classes", "tolerance": 0.05, "n_estimate": 2000},
    "curve": {"mode": "curve", "radii": (RADIUS / 2, RADIUS * (1 + 1e-6), 1.2 * RADIUS), "n_estimate": 1000},
}


def false_certificates(images, seed, *, exact, steps, **changes):
    """How many certificates of so many images are false."""
    settings = CertifySettings(**{"n_estimate": N, "alpha": ALPHA, "seed": seed, "exact": exact, **changes})
    certifier = Certifier(model_of(steps, RADIUS), settings)
    # PIXEL is a whole number of units, and 0.25 a float
    answers = certifier(torch.full((images, 1, 1, 1), PIXEL))
    assert {answer.exact for answer in answers} == {exact}
    return sum(answer.label == 1 or answer.radius > RADIUS for answer in answers)


@pytest.mark.parametrize("steps", [1, 2])
@pytest.mark.parametrize("exact", [False, True], ids=["default", "exact"])
@pytest.mark.parametrize("mode", MODES)
def test_try(mode, exact, steps):
    import time
    t = time.time()
    c = false_certificates(1000, 3, exact=exact, steps=steps, **MODES[mode])
    print(mode, exact, steps, c / 1000, time.time() - t)
