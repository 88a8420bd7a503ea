"""From a recipe to a model, and checks that the model can be certified with its settings."""

import math
from collections.abc import Sequence
from typing import assert_never

import torch
from torch import nn

from ars.certification.certifier import check_request
from ars.certification.settings import CertifySettings
from ars.data.benchmark import Benchmark
from ars.methods.builder import Inputs
from ars.methods.paper_values import paper_beta
from ars.methods.registry import method_called
from ars.models import Normalize, cifar_resnet, resnet50, small_cnn
from ars.recipes.recipe import Recipe
from ars.recipes.user_code import import_classifier
from ars.smoothing import SmoothedClassifier
from ars.theory import unicr_radius_linf


def build_model(recipe: Recipe, inputs: Inputs, device: torch.device) -> SmoothedClassifier:
    """The recipe's smoothed classifier with fresh weights, which depend only on the recipe's seed."""
    with torch.random.fork_rng(devices=[device] if device.type == "cuda" else []):
        torch.manual_seed(recipe.seed)
        model: SmoothedClassifier = method_called(recipe.method).build(recipe, inputs, _classifier(recipe, inputs))
    return model.to(device=device, memory_format=torch.channels_last)  # type: ignore[call-overload, no-any-return]


def _classifier(recipe: Recipe, inputs: Inputs) -> nn.Module:
    """The network behind its normalisation; an imported classifier has its own normalisation."""
    if recipe.classifier.factory is not None:
        return import_classifier(recipe.classifier.factory)
    return nn.Sequential(Normalize(*inputs.moments()), _network(recipe, len(inputs.class_names), inputs.shape[0]))


def _network(recipe: Recipe, classes: int, channels: int) -> nn.Module:
    if recipe.classifier.name == "small_cnn":
        return small_cnn(classes, width=recipe.classifier.width, in_channels=channels)
    if recipe.classifier.name == "cifar_resnet":
        depth, scale = recipe.classifier.depth, recipe.classifier.block_scale
        return cifar_resnet(depth, classes, block_scale=scale, in_channels=channels)
    if recipe.classifier.name == "resnet50":
        return resnet50(classes, channels)
    assert_never(recipe.classifier.name)


def check_certifiable(model: SmoothedClassifier, settings: CertifySettings, shape: Sequence[int]) -> None:
    """Refuse settings with which images of this shape could not be certified, whatever the weights."""
    check_request(model, settings, dim=math.prod(shape))


def check_subset(benchmark: Benchmark, settings: CertifySettings) -> None:
    """Refuse more examples than the test set has."""
    images, examples, every = benchmark.size("test"), settings.examples, settings.every
    available = len(range(0, images, every))
    if examples <= available:
        return
    widest = (images - 1) // (examples - 1)  # the largest step that leaves enough images; 0 if none does
    advice = f", or certify.every to {widest} or less (--every)" if widest else ""
    raise ValueError(
        f"{benchmark.title} has {available} test images at every={every}, so {examples} are too many; "
        f"set certify.examples to {available} or fewer (--examples of ars certify){advice}"
    )


def check_noise(recipe: Recipe) -> None:
    """Check, before any image is read, that the packages for the radius of the recipe's noise are installed.

    Only UniCR needs more than closed forms. The tables computed here are cached for the certificates.
    """
    if recipe.method == "unicr":
        side = recipe.data.options.get("size", 32)  # any size will do for benchmarks of one size
        beta = recipe.beta or paper_beta(side, recipe.sigma)
        unicr_radius_linf(recipe.sigma, beta, 3 * side**2, 0.75, 0.25)
