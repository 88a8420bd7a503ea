"""Certification in each of its modes, on models that are small enough to draw from many thousand times."""

import numpy as np
import pytest
import torch
from scipy.stats import norm

from ars.certification.certifier import certify
from ars.certification.votes import VoteCounter
from ars.smoothing import Gaussian, SmoothedClassifier, compose, last

N = 4000
# mean of 16 pixels with noise .5: P(class 1) = Phi((level - .5) / .125)
LEVELS = (0.45, 0.52, 0.6, 0.75, 0.95)


@pytest.fixture
def images():
    return torch.stack([torch.full((1, 4, 4), level) for level in LEVELS])


def run(model, x, mode, **options):
    return certify(model, x, norm="l2", n_select=100, n_estimate=N, alpha=0.05, seed=0, mode=mode, **options)


def test_a_curve_decides_the_radii_that_are_in_reach(cohen, images):
    """True radii .5 Phi^-1(p): with sums of 16 pixels, 4 |level - .5|."""
    grid = (0.0, 0.05, 0.3, 0.6, 0.9)
    answers = run(cohen(), images, "curve", radii=grid)
    true = [4 * abs(level - 0.5) for level in LEVELS]
    for answer, exact in zip(answers, true, strict=True):
        assert answer.radius < exact
        assert answer.radius == max(radius for radius in grid if radius < exact - 0.02)
        assert answer.radii == {"cohen": answer.radius}
        assert answer.stopped_by_data
        assert answer.p_lower == pytest.approx(norm.cdf(2 * answer.radius))
        assert answer.p_upper == 1 - answer.p_lower
    assert [answer.label for answer in answers] == [0, 1, 1, 1, 1]
    assert sum(answer.n_estimate for answer in answers) < 0.5 * len(answers) * N


def test_an_image_below_the_smallest_radius_is_an_abstention(cohen):
    (answer,) = run(cohen(), torch.full((1, 1, 4, 4), 0.52), "curve", radii=(0.5, 0.6))
    assert (answer.label, answer.radius, answer.p_lower, answer.p_upper) == (None, 0.0, 0.0, 1.0)
    assert answer.ended == "given up"


def test_a_planned_radius_is_the_ordinary_certificate_at_the_planned_n(cohen, images):
    answers = run(cohen(), images, "radius", tolerance=0.1)
    for index, answer in enumerate(answers):
        assert answer.planned <= N
        if answer.ended == "planned":
            same = certify(
                cohen(), images[index], norm="l2", n_select=100, n_estimate=answer.planned, alpha=0.05, seed=0,
                indices=[index],
            )  # fmt: skip
            assert (same.counts, same.radii, same.label) == (answer.counts, answer.radii, answer.label)
    assert len({answer.planned for answer in answers}) > 1
    full = run(cohen(), images, "fixed")
    assert sum(answer.n_estimate for answer in answers) < 0.7 * len(answers) * N
    assert sum(a.radius for a in answers) > 0.8 * sum(a.radius for a in full)


def test_a_class_that_loses_is_given_up_under_every_bound(cohen, monkeypatch):
    """A selection that was unlucky: class 0 was chosen, class 1 wins."""
    draw = VoteCounter.__call__

    def unlucky(*args, **options):
        votes = draw(*args, **options)
        return votes[:, ::-1].copy() if options["stage"] == "select" else votes

    monkeypatch.setattr(VoteCounter, "__call__", unlucky)
    (answer,) = run(cohen(), torch.full((1, 1, 4, 4), 0.6), "radius")
    assert (answer.label, answer.radius, answer.radii) == (None, 0.0, {"cohen": 0.0, "classes": 0.0})
    assert (answer.ended, answer.stopped_by_data) == ("given up", True)
    assert answer.n_estimate < answer.planned


@pytest.mark.parametrize("options", [{"mode": "curve", "radii": (0.1, 0.4)}, {"mode": "radius", "tolerance": 0.1}])
def test_neither_company_nor_batch_size_changes_a_certificate(cohen, images, options):
    together = run(cohen(), images, **options)
    assert run(cohen(), images, batch_size=300, **options) == together
    for index in range(5):
        assert run(cohen(), images[index], indices=[index], **options) == together[index]


def test_images_leave_the_batch_as_they_are_decided(cohen, images, monkeypatch):
    """Each is drawn for as often as its certificate says, and these draws are the first of its full ones."""
    drawn, draw = np.zeros(5, dtype=int), VoteCounter.__call__

    def counting(counter, mechanisms, images, indices, *, n, **options):
        drawn[indices] += n
        return draw(counter, mechanisms, images, indices, n=n, **options)

    monkeypatch.setattr(VoteCounter, "__call__", counting)
    answers = run(cohen(), images, "curve", radii=(0.1, 0.4))
    assert drawn.tolist() == [100 + answer.n_estimate for answer in answers]
    assert len(set(drawn)) > 1


@pytest.mark.parametrize("radii", [(1.9,), (0.1, 5.0)])  # too large for n_max, and one whose level is 1
def test_a_radius_that_no_votes_could_certify_is_refused_before_anything_is_drawn(cohen, images, radii):
    model = cohen()
    with pytest.raises(ValueError, match=f"radius {radii[-1]:g}"):
        run(model, images, "curve", radii=radii)
    assert not model.classifier.calls


class Local(SmoothedClassifier):
    """Noise that depends on the image: here on its place among those that are certified together."""

    def __init__(self, classifier, sigmas):
        super().__init__(compose(Gaussian(0.5)), last, classifier)
        self.sigmas = sigmas

    def localise(self, images):
        made = {sigma: compose(Gaussian(sigma)) for sigma in self.sigmas}
        return [made[sigma] for sigma in self.sigmas[: len(images)]]


@pytest.mark.parametrize(
    ("mode", "options"),
    [("fixed", {}), ("radius", {"tolerance": 0.1}), ("curve", {"radii": (0.05, 0.3, 0.9)})],
)
def test_each_image_is_decided_by_the_noise_and_the_levels_of_its_own_mechanism(cohen, images, mode, options):
    """The same votes would certify different radii."""
    sigmas = (0.5, 0.5, 0.25, 0.25, 1.0)
    answers = run(Local(cohen().classifier, sigmas), images, mode, **options)
    for index, (answer, sigma) in enumerate(zip(answers, sigmas, strict=True)):
        assert answer == run(cohen(sigma), images[index], mode, indices=[index], **options)
    assert len({answer.p_lower for answer in answers}) > 2


def test_a_radius_out_of_reach_of_one_images_noise_is_given_up_not_refused(cohen, images):
    answers = run(Local(cohen().classifier, (0.01,) * 5), images, "curve", radii=(0.01, 0.4))
    assert [answer.radius for answer in answers] == [0.01] * 5
    assert {answer.ended for answer in answers} == {"given up"}
