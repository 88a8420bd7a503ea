"""From a recipe to objects."""

from collections.abc import Sequence
from typing import Protocol, assert_never

import torch
from jaxtyping import Shaped
from torch import Tensor, nn

from ars.data.benchmark import Benchmark
from ars.experiments.importing import import_classifier
from ars.experiments.keeping import kept_benchmark
from ars.experiments.recipe import Recipe
from ars.methods import adaptive, cohen, static_mask, sukenik, unicr
from ars.methods.unicr import paper_beta
from ars.models import Normalize, StaticMask, UNet, cifar_resnet, resnet50, small_cnn
from ars.smoothing import SmoothedClassifier


class Inputs(Protocol):
    """What a model is built for; every Benchmark is one."""

    @property
    def shape(self) -> tuple[int, int, int]:
        """Channels, height, width."""

    @property
    def class_names(self) -> Sequence[str]:
        """The classes in the order of their labels."""

    def moments(self) -> tuple[list[float], list[float]]:
        """Mean and standard deviation of each channel."""

    def references(self) -> Shaped[Tensor, "n c h w"]:
        """Training inputs that noise is measured from."""


def build_benchmark(recipe: Recipe, device: torch.device) -> Benchmark:
    """The recipe's benchmark, its tensors on the device."""
    return kept_benchmark(recipe.data, device)


def build_model(recipe: Recipe, inputs: Inputs, device: torch.device) -> SmoothedClassifier:
    """The recipe's smoothed classifier with fresh weights, a function of the recipe's seed alone."""
    with torch.random.fork_rng(devices=[device] if device.type == "cuda" else []):
        torch.manual_seed(recipe.seed)
        model = _method(recipe, inputs)
    return model.to(device=device, memory_format=torch.channels_last)  # type: ignore[call-overload, no-any-return]


def _method(recipe: Recipe, inputs: Inputs) -> SmoothedClassifier:
    channels, height, width = inputs.shape
    classifier = _classifier(recipe, inputs)
    if recipe.method == "cohen":
        return cohen(classifier, sigma=recipe.sigma)
    if recipe.method == "static_mask":
        return static_mask(classifier, StaticMask(height, width), sigma=recipe.sigma)
    if recipe.method == "unicr":
        return unicr(classifier, sigma=recipe.sigma, beta=recipe.beta or paper_beta(height, recipe.sigma))
    if recipe.method == "sukenik":
        return sukenik(classifier, inputs.references(), sigma=recipe.sigma)
    if recipe.method == "adaptive":
        mask = UNet(width=recipe.mask.width, in_channels=channels)
        return adaptive(classifier, mask, sigma=recipe.sigma, share=recipe.share)
    assert_never(recipe.method)


def _classifier(recipe: Recipe, inputs: Inputs) -> nn.Module:
    """The network behind its normalisation; one that is imported brings its own."""
    if recipe.classifier.factory is not None:
        return import_classifier(recipe.classifier.factory)
    return nn.Sequential(Normalize(*inputs.moments()), _network(recipe, len(inputs.class_names)))


def _network(recipe: Recipe, classes: int) -> nn.Module:
    if recipe.classifier.name == "small_cnn":
        return small_cnn(classes, width=recipe.classifier.width)
    if recipe.classifier.name == "cifar_resnet":
        return cifar_resnet(recipe.classifier.depth, classes, block_scale=recipe.classifier.block_scale)
    if recipe.classifier.name == "resnet50":
        return resnet50(classes)
    assert_never(recipe.classifier.name)
