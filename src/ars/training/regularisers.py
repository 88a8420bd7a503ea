"""What can be added to the cross-entropy; pure functions of logits and releases, all in float32 and on the device."""

import math
from collections.abc import Sequence

import torch
from jaxtyping import Float, Int
from torch import Tensor
from torch.nn import functional as F

from ars.smoothing.mechanism import Release

Draws = Float[Tensor, "draws b classes"]


def log_mean_prediction(logits: Draws) -> Float[Tensor, "b classes"]:
    """log F^, F^ the mean of the draws' softmax: the smoothed soft classifier's prediction."""
    return torch.logsumexp(F.log_softmax(logits, dim=-1), dim=0) - math.log(len(logits))


def smoothed_loss(logits: Draws, labels: Int[Tensor, "b"]) -> Float[Tensor, ""]:
    """-log F^(label), summed over the images: what SmoothAdv's attack raises."""
    return F.nll_loss(log_mean_prediction(logits), labels, reduction="sum")


def consistency_loss(logits: Draws, *, weight: float, entropy: float) -> Float[Tensor, ""]:
    """weight mean_i KL(F^ || F_i) + entropy H(F^), F_i the prediction of draw i (Jeong & Shin), a mean over images."""
    each, mean = F.log_softmax(logits, dim=-1), log_mean_prediction(logits)
    disagreement = F.kl_div(each, mean.expand_as(each), log_target=True, reduction="none").sum(dim=-1).mean()
    uncertainty = -(mean.exp() * mean).sum(dim=-1).mean()
    return weight * disagreement + entropy * uncertainty


def mean_square(releases: Sequence[Release]) -> Float[Tensor, ""]:
    """The mean of w^2 over images, pixels and steps: 1 masks nothing."""
    return torch.stack([release.weight.square().mean() for release in releases]).mean()
