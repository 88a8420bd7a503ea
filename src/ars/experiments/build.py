"""From a recipe to objects."""

import torch
from torch import nn

from ars.data.benchmark import Benchmark
from ars.experiments.importing import import_classifier
from ars.experiments.keeping import kept_benchmark
from ars.experiments.recipe import Recipe
from ars.methods import adaptive, cohen, static_mask, sukenik, unicr
from ars.methods.unicr import paper_beta
from ars.models import Normalize, StaticMask, UNet, cifar_resnet, resnet50, small_cnn
from ars.smoothing import SmoothedClassifier


def build_benchmark(recipe: Recipe, device: torch.device) -> Benchmark:
    """The recipe's benchmark, its tensors on the device."""
    return kept_benchmark(recipe.data, device)


def build_model(recipe: Recipe, benchmark: Benchmark, device: torch.device) -> SmoothedClassifier:
    """The recipe's smoothed classifier with fresh weights, a function of the recipe's seed alone."""
    with torch.random.fork_rng(devices=[device] if device.type == "cuda" else []):
        torch.manual_seed(recipe.seed)
        model = _method(recipe, benchmark)
    return model.to(device=device, memory_format=torch.channels_last)  # type: ignore[call-overload, no-any-return]


def _method(recipe: Recipe, benchmark: Benchmark) -> SmoothedClassifier:
    channels, height, width = benchmark.shape
    classifier = _classifier(recipe, benchmark)
    if recipe.method == "cohen":
        return cohen(classifier, sigma=recipe.sigma)
    if recipe.method == "static_mask":
        return static_mask(classifier, StaticMask(height, width), sigma=recipe.sigma)
    if recipe.method == "unicr":
        return unicr(classifier, sigma=recipe.sigma, beta=recipe.beta or paper_beta(height, recipe.sigma))
    if recipe.method == "sukenik":
        return sukenik(classifier, benchmark.references(), sigma=recipe.sigma)
    mask = UNet(width=recipe.mask.width, in_channels=channels)
    return adaptive(classifier, mask, sigma=recipe.sigma, share=recipe.share)


def _classifier(recipe: Recipe, benchmark: Benchmark) -> nn.Module:
    """The network behind its normalisation; one that is imported brings its own."""
    if recipe.classifier.factory is not None:
        return import_classifier(recipe.classifier.factory)
    return nn.Sequential(Normalize(*benchmark.moments()), _network(recipe, len(benchmark.class_names)))


def _network(recipe: Recipe, classes: int) -> nn.Module:
    if recipe.classifier.name == "small_cnn":
        return small_cnn(classes, width=recipe.classifier.width)
    if recipe.classifier.name == "cifar_resnet":
        return cifar_resnet(recipe.classifier.depth, classes, block_scale=recipe.classifier.block_scale)
    return resnet50(classes)
