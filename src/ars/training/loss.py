"""The training loss and its regularisers."""

import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.nn import functional as F

from ars.kernels.precision import Precision, autocast
from ars.smoothing import MaskedGaussian, SmoothedClassifier
from ars.smoothing.mechanism import Fresh, Generators, Images, Release, Tape
from ars.theory import Norm
from ars.training.attack import attack
from ars.training.settings import TrainSettings

Draws = Float[Tensor, "draws b classes"]


def log_mean_prediction(logits: Draws) -> Float[Tensor, "b classes"]:
    """log F^, with F^ the mean of the draws' softmax: the prediction of the smoothed soft classifier."""
    return torch.logsumexp(F.log_softmax(logits, dim=-1), dim=0) - math.log(len(logits))


def smoothed_loss(logits: Draws, labels: Int[Tensor, "b"]) -> Float[Tensor, ""]:
    """-log F^(label), summed over the images: the objective that SmoothAdv's attack maximises."""
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


class Objective(nn.Module):
    """The cross-entropy of noisy draws and a recipe's regularisers, as one module for DistributedDataParallel to wrap.

    It only computes: no host synchronisation, constant shapes, and no randomness except the generator's (and
    dropout's). Without regularisers it is one forward pass. SmoothAdv's epsilon is a non-persistent buffer on the
    device, which warm_up writes between steps so that a captured graph reads the new value.

    norm is that of the adversarial examples, which is the norm to be certified.
    """

    epsilon: Tensor

    def __init__(
        self,
        model: SmoothedClassifier,
        precision: Precision,
        settings: TrainSettings = TrainSettings(),  # noqa: B008 (frozen)
        *,
        norm: Norm = "linf",
    ) -> None:
        super().__init__()
        self.model, self.precision, self.settings, self.norm = model, precision, settings, norm
        self.masked = [at for at, step in enumerate(model.mechanism.steps) if isinstance(step, MaskedGaussian)]
        if settings.mask_prior.weight and not self.masked:
            raise ValueError("train.mask_prior needs a model with a mask, and this one has none; set its weight to 0")
        if any(step.exact for step in model.mechanism.steps):
            raise ValueError("rounded noise has no gradient; train without exact mode, and certify with it")
        device = next(model.parameters()).device
        self.register_buffer("epsilon", torch.tensor(settings.smoothadv.epsilon, device=device), persistent=False)

    def forward(self, images: Images, labels: Tensor, generator: Fresh) -> tuple[Tensor, Tensor]:
        """The mean loss of a batch and the share of correct draws, both on the device."""
        settings = self.settings
        noise: Generators = Tape(generator) if settings.smoothadv.epsilon else generator
        if isinstance(noise, Tape):
            images = self._adversarial(images, labels, noise)
            noise = noise.rewound()
        logits, releases = self._draw(images, noise)
        answers = labels.expand(len(logits), -1).flatten()
        loss = F.cross_entropy(logits.flatten(0, 1), answers)
        if settings.consistency.weight:
            loss = loss + consistency_loss(
                logits, weight=settings.consistency.weight, entropy=settings.consistency.entropy
            )
        if settings.mask_prior.weight:
            loss = loss + settings.mask_prior.weight * mean_square([releases[at] for at in self.masked])
        return loss, (logits.detach().flatten(0, 1).argmax(dim=1) == answers).to(torch.float32).mean()

    def warm_up(self, epoch: int) -> None:
        """Set SmoothAdv's epsilon for an epoch, counted from 0."""
        if self.settings.smoothadv.epsilon:
            self.epsilon.fill_(self.settings.smoothadv.at(epoch))

    def _draw(self, images: Images, noise: Generators) -> tuple[Draws, list[Release]]:
        """The logits [draws, b, classes], and the releases of all draws, one draw after another."""
        draws = self.settings.draws
        many = images if draws == 1 else torch.cat([images] * draws)
        with autocast(images.device, self.precision):
            releases = self.model.mechanism.release(many, noise)
            logits = self.model.classifier(self.model.combined(releases, noise)).float()
        return logits.unflatten(0, (draws, -1)), releases

    def _adversarial(self, images: Images, labels: Tensor, noise: Tape) -> Images:
        """Images moved against the mean prediction over the same draws that the weights are then trained on.

        The model is in eval mode, as in Salman et al.'s code: BatchNorm does not update its running statistics, so they
        are updated once per step, and without dropout only the noise is random.
        """

        def loss(moved: Images) -> Tensor:
            return smoothed_loss(self._draw(moved, noise.rewound())[0], labels)

        steps = self.settings.smoothadv.steps
        with _eval_mode(self.model):
            return attack(loss, images, epsilon=self.epsilon, steps=steps, norm=self.norm)


@contextmanager
def _eval_mode(model: nn.Module) -> Iterator[None]:
    """Set every module to eval mode within the block, then restore each module's mode."""
    modes = [(module, module.training) for module in model.modules()]
    model.eval()
    try:
        yield
    finally:
        for module, training in modes:
            module.training = training
