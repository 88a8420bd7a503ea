"""A smoothed classifier: mechanism, then combination, then any network."""

from collections.abc import Sequence
from copy import copy
from importlib import import_module
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn

from ars.smoothing.combine import Combine, Denoised, with_generator
from ars.smoothing.mechanism import Composition, Generators, Images, Release
from ars.theory import Ball, Norm, TradeOff


class SmoothedClassifier(nn.Module):
    """g(combine(m_1, ..., m_k)), (m_1, ..., m_k) ~ mechanism(X).

    X are images in [0, 1]; the classifier maps images to logits and sees X only through the releases, so all that
    the mechanism guarantees holds for the labels too (post-processing).
    """

    def __init__(self, mechanism: Composition, combine: Combine, classifier: nn.Module) -> None:
        super().__init__()
        if not isinstance(mechanism, Composition):
            raise TypeError(f"the mechanism must be made by compose(...), got {type(mechanism).__name__}; compose it")
        if not callable(combine):
            raise TypeError(f"combine must be a function such as ars.last, got {type(combine).__name__}")
        if not isinstance(classifier, nn.Module):
            raise TypeError(
                f"the classifier must be a torch.nn.Module, got {type(classifier).__name__}; wrap it in one"
            )
        self.mechanism = mechanism
        self.combine = combine
        self.classifier = classifier

    def forward(self, x: Images, generator: Generators) -> Float[Tensor, "b classes"]:
        """The logits of one noisy draw for every image of the batch."""
        logits: Tensor = self.classifier(self.combined(self.mechanism.release(x, generator), generator))
        return logits

    def combined(self, releases: Sequence[Release], generator: Generators) -> Images:
        """The image that the classifier sees; the generator is that of the releases, which come first."""
        image: Images = with_generator(self.combine, releases, generator)
        return image

    @torch.no_grad()
    def stages(self, x: Images, generator: Generators) -> tuple[list[Release], Images]:
        """The stages of one draw, for display: the releases and the image that the classifier sees."""
        releases = self.mechanism.release(x, generator)
        return releases, self.combined(releases, generator)

    def guarantee(self, ball: Ball) -> TradeOff:
        """How much the label of one draw reveals about X, for every perturbation in the ball."""
        return self.mechanism.guarantee(ball)

    def radius(self, p_plus: float, p_minus: float, *, norm: Norm, dim: int) -> float:
        """The certified radius if the label has probability at least p_plus and every other class at most p_minus."""
        return self.mechanism.radius(p_plus, p_minus, norm=norm, dim=dim)

    # the usual names of huggingface_hub's mixin; found by name, because what knows run folders lies above this package

    @staticmethod
    def from_pretrained(name: str, **options: Any) -> "SmoothedClassifier":
        """ars.load: from a run folder, a pretrained name, or a repository user/name of the Hugging Face Hub."""
        model: SmoothedClassifier = import_module("ars").load(name, **options)
        return model

    def save_pretrained(self, folder: str) -> None:
        """ars.save: write a model that ars.load returned to a folder to share, with a model card."""
        import_module("ars").save(self, folder)

    def push_to_hub(self, repository: str, *, private: bool = False) -> str:
        """ars.push: upload a model that ars.load returned to user/name; returns its address."""
        return str(import_module("ars").push(self, repository, private=private))

    def localise(self, images: Images) -> Sequence[Composition]:
        """For each image, the mechanism of its votes and radius; with fixed noise it is the same for all images."""
        return [self.mechanism] * len(images)


def denoised(model: SmoothedClassifier, denoiser: nn.Module) -> SmoothedClassifier:
    """The smoothed classifier with a denoiser in front of its classifier; the noise and the guarantee are the same.

    denoiser(x, s) maps noisy images [b, c, h, w] and the standard deviation of their noise, [b, 1, h, w] or
    [b, c, h, w], to images (Salman et al., 2020). Nothing is copied.
    """
    if not isinstance(denoiser, nn.Module):
        raise TypeError(f"the denoiser must be a torch.nn.Module, got {type(denoiser).__name__}; wrap it in one")
    made = copy(model)
    made._modules = dict(model._modules)
    made.combine = Denoised(denoiser)
    return made
