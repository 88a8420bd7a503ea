"""What training minimises."""

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from ars.certification.evaluating import evaluating
from ars.certification.sampling import Precision, autocast
from ars.smoothing import MaskedGaussian, SmoothedClassifier
from ars.smoothing.mechanism import Fresh, Generators, Images, Release, Tape
from ars.theory import Norm
from ars.training.attack import attack
from ars.training.regularisers import Draws, consistency_loss, mean_square, smoothed_loss
from ars.training.settings import TrainSettings


class Objective(nn.Module):
    """The cross-entropy of noisy draws and what a recipe adds to it, as one module that wrappers see a step through.

    Computes and nothing else: no host synchronisation, shapes that do not change, no randomness but the generator's
    (and dropout's). With nothing added it is one forward pass. SmoothAdv's epsilon is a tensor on the device, outside
    of the saved state, which warm_up writes between steps: a captured graph reads the new value.

    norm: that of the adversarial examples, where there are any; the one that will be certified.
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
        device = next(model.parameters()).device
        self.register_buffer("epsilon", torch.tensor(settings.smoothadv.epsilon, device=device), persistent=False)

    def forward(self, images: Images, labels: Tensor, generator: Fresh) -> tuple[Tensor, Tensor]:
        """The mean loss of a batch and the share of draws that were right, both on the device."""
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
        """The logits of every draw, and the releases of all draws, draw after draw."""
        draws = self.settings.draws
        many = images if draws == 1 else torch.cat([images] * draws)
        with autocast(images.device, self.precision):
            releases = self.model.mechanism.release(many, noise)
            logits = self.model.classifier(self.model.combine(releases)).float()
        return logits.unflatten(0, (draws, -1)), releases

    def _adversarial(self, images: Images, labels: Tensor, noise: Tape) -> Images:
        """Images moved against the mean prediction over the draws that the weights will then be trained on.

        In eval mode, as in Salman et al.'s code: BatchNorm uses its running statistics and does not update them, so
        that a step updates them once, and dropout is off, so that the noise is all that is random.
        """

        def loss(moved: Images) -> Tensor:
            return smoothed_loss(self._draw(moved, noise.rewound())[0], labels)

        how = self.settings.smoothadv
        with evaluating(self.model):
            return attack(loss, images, epsilon=self.epsilon, steps=how.steps, norm=self.norm)
