import math

import pytest
import torch
from torch import nn

from ars.certification.certifier import certify
from ars.methods.adaptive import adaptive
from ars.methods.cohen import cohen
from ars.methods.paper_values import paper_beta
from ars.methods.static_mask import static_mask
from ars.methods.sukenik import sukenik
from ars.methods.unicr import unicr
from ars.models import StaticMask
from ars.smoothing import last, minimum_variance
from ars.theory import UnsupportedThreat, ars_radius_linf, rs_radius_l2


class Brightness(nn.Module):
    """Class 1 where the mean is above one half."""

    def forward(self, x):
        mean = x.mean(dim=(1, 2, 3))
        return torch.stack([0.5 - mean, mean - 0.5], dim=1)


def test_adaptive_splits_the_budget_and_averages():
    model = adaptive(Brightness(), StaticMask(8, 8), sigma=0.5)
    assert model.mechanism.sigmas == pytest.approx((0.5 * math.sqrt(2), 0.5 * math.sqrt(2)))
    assert model.combine is minimum_variance
    assert static_mask(Brightness(), StaticMask(8, 8), sigma=0.5).combine is last
    quarter = adaptive(Brightness(), StaticMask(8, 8), sigma=0.5, share=0.25).mechanism.sigmas
    assert quarter[0] == pytest.approx(1.0)
    assert 1 / math.hypot(1 / quarter[0], 1 / quarter[1]) == pytest.approx(0.5)


def test_all_methods_at_one_sigma_state_the_same_linf_radius():
    models = [
        cohen(Brightness(), sigma=0.5),
        static_mask(Brightness(), StaticMask(8, 8), sigma=0.5),
        adaptive(Brightness(), StaticMask(8, 8), sigma=0.5),
    ]
    for model in models:
        radius = model.radius(0.9, 0.1, norm="linf", dim=192)
        assert radius == pytest.approx(ars_radius_linf([0.5], 192, 0.9, 0.1), rel=1e-9)


def test_masked_methods_refuse_l2_and_cohen_does_not():
    radius = cohen(Brightness(), sigma=0.5).radius(0.9, 0.1, norm="l2", dim=192)
    assert radius == pytest.approx(rs_radius_l2(0.5, 0.9, 0.1), rel=1e-9)
    for masked in (static_mask, adaptive):
        with pytest.raises(UnsupportedThreat, match="Gaussian"):
            masked(Brightness(), StaticMask(8, 8), sigma=0.5).radius(0.9, 0.1, norm="l2", dim=192)


@pytest.mark.parametrize("share", [0.0, 1.0, -1.0, math.nan, "half"])
def test_a_share_that_is_no_part_of_the_budget_is_refused(share):
    with pytest.raises(ValueError, match="share must"):
        adaptive(Brightness(), StaticMask(8, 8), sigma=0.5, share=share)


@pytest.mark.parametrize("references", [None, torch.rand(3, 4, 4), torch.rand(20, 3, 4, 4)])
def test_too_few_references_are_refused(references):
    with pytest.raises(ValueError, match="references"):
        sukenik(Brightness(), references, sigma=0.5)


def test_unicr_certifies_linf_a_little_below_cohen_and_refuses_l2():
    model = unicr(Brightness(), sigma=0.5, beta=2.25)
    certificate = certify(model, torch.full((3, 8, 8), 0.9), n_estimate=200, seed=0)
    assert certificate.label == 1
    assert 0 < certificate.radius < ars_radius_linf([0.5], 192, certificate.p_lower, certificate.p_upper)
    with pytest.raises(UnsupportedThreat, match=r"beta=2\.25"):
        certify(model, torch.full((3, 8, 8), 0.9), norm="l2", n_estimate=200, seed=0)


def test_sukenik_draws_and_certifies_each_image_at_its_own_noise_level():
    generator = torch.Generator().manual_seed(0)
    references = torch.rand(60, 3, 8, 8, generator=generator)
    model = sukenik(Brightness(), references, sigma=0.5)
    near, far = references[:1], torch.full((1, 3, 8, 8), 1.0)
    close, distant = certify(model, torch.cat([near, far]), n_estimate=300, seed=0)
    assert close.sigmas[0] < distant.sigmas[0]
    [level] = model.noise(far).tolist()
    assert distant.sigmas == (level,)
    # the level may move, so the radius is below that of constant noise of this level
    assert distant.radius < ars_radius_linf([level], 192, distant.p_lower, distant.p_upper)
    # what is drawn for an image does not depend on what else is in the batch
    [alone] = certify(model, far, n_estimate=300, seed=0, indices=[1])
    assert alone == distant


def test_sukenik_is_trained_with_the_mean_noise_level_of_its_references():
    """Of each reference to its nearest others, and to six decimals, so that every machine has the same noise."""
    generator = torch.Generator().manual_seed(0)
    contrast = torch.rand(60, 1, 1, 1, generator=generator)
    references = contrast * torch.rand(60, 3, 8, 8, generator=generator)
    pixels = references.flatten(1).double()
    distance = (pixels[:, None] - pixels).norm(dim=2).sort(dim=1).values[:, 1:21].mean(dim=1)
    levels = 0.5 * torch.exp(0.01 * (distance - distance.mean()))
    model = sukenik(Brightness(), references, sigma=0.5)
    assert model.noise.centre == round(distance.mean().item(), 6)
    assert model.mechanism.sigmas == (round(levels.mean().item(), 6),)
    assert model.mechanism.sigmas != (0.5,)


def test_the_papers_betas_are_those_of_its_cells():
    assert [paper_beta(48, sigma) for sigma in (0.12, 0.25, 0.5, 0.75, 1.0, 1.5)] == [2, 2, 2.25, 2, 2.25, 2]
    assert [paper_beta(96, sigma) for sigma in (0.12, 0.25, 0.5, 0.75, 1.0, 1.5)] == [2, 2, 2.25, 2.25, 2.25, 2.25]
    assert [paper_beta(64, sigma) for sigma in (0.12, 0.25, 0.5, 0.75, 1.0, 1.5)] == [2.25, 2, 2.25, 2, 2, 2]
    assert {paper_beta(32, sigma) for sigma in (0.12, 0.25, 0.5, 0.75, 1.0, 1.5)} == {2.25}
