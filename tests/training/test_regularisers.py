import pytest
import torch

from ars.smoothing.mechanism import Release
from ars.training.regularisers import consistency_loss, log_mean_prediction, mean_square, smoothed_loss
from ars.training.settings import Consistency, MaskPrior

from .tiny import batch, logits_of, make_model, settings, train

LOGITS = 3 * torch.randn(3, 5, 4, generator=torch.Generator().manual_seed(0))


def disagreement(logits):
    """mean_i KL(F^ || F_i), as printed, in float64."""
    each = logits.double().softmax(dim=-1)
    mean = each.mean(dim=0)
    return float((mean * (mean / each).log()).sum(dim=-1).mean())


def test_the_consistency_loss_is_the_papers():
    mean = LOGITS.double().softmax(dim=-1).mean(dim=0)
    entropy = -(mean * mean.log()).sum(dim=-1).mean()
    expected = 10 * disagreement(LOGITS) + 0.5 * float(entropy)
    assert float(consistency_loss(LOGITS, weight=10, entropy=0.5)) == pytest.approx(expected, rel=1e-5)


def test_draws_that_agree_cost_only_their_entropy():
    same = LOGITS[:1].expand(3, -1, -1)
    assert float(consistency_loss(same, weight=10, entropy=0.0)) == pytest.approx(0, abs=1e-5)


def test_sure_and_opposite_draws_have_a_finite_loss_and_gradient():
    logits = torch.tensor([[[1e4, -1e4]], [[-1e4, 1e4]]], requires_grad=True)
    loss = consistency_loss(logits, weight=1, entropy=1)
    loss.backward()
    assert loss.isfinite()
    assert logits.grad.isfinite().all()


def test_the_smoothed_loss_is_of_the_mean_probability():
    labels = torch.tensor([0, 1, 2, 3, 0])
    mean = LOGITS.double().softmax(dim=-1).mean(dim=0)
    assert torch.allclose(log_mean_prediction(LOGITS).double(), mean.log(), atol=1e-5)
    expected = -mean[torch.arange(5), labels].log().sum()
    assert float(smoothed_loss(LOGITS, labels)) == pytest.approx(float(expected), rel=1e-5)


def test_the_mean_square_counts_pixels_and_steps_alike():
    one = torch.ones(1, 1, 1, 1)
    halves, ones = Release(one, 0.5 * torch.ones(2, 1, 4, 4), one), Release(one, torch.ones(2, 3, 4, 4), one)
    assert float(mean_square([halves])) == 0.25
    assert float(mean_square([halves, ones])) == (0.25 + 1) / 2


def test_consistency_makes_noisy_draws_agree():
    with_it, without = (
        train(make_model("cohen"), settings(draws=2, consistency=Consistency(weight=weight)), steps=60)
        for weight in (10.0, 0.0)
    )
    images, labels = batch(1000, count=128)
    logits = [logits_of(model, images, draws=8) for model in (with_it, without)]
    assert disagreement(logits[0]) < 0.7 * disagreement(logits[1])
    assert (logits[0].mean(dim=0).argmax(dim=1) == labels).float().mean() > 0.8  # and not by saying nothing


@pytest.mark.parametrize("method", ["adaptive", "static_mask"])
def test_the_mask_prior_makes_masks_smaller(method):
    def openness(weight):
        model = train(make_model(method), settings(mask_prior=MaskPrior(weight=weight)), steps=30).eval()
        with torch.no_grad():
            return float(mean_square(model.mechanism.release(batch(1000)[0], torch.Generator().manual_seed(0))[-1:]))

    assert openness(2.0) < 0.8 * openness(0.0)
