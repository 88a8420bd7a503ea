"""Networks by import path, package:name, from the current folder or the environment."""

import importlib
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import torch
from torch import nn

from ars.certification.plain_tensors import plain_parts
from ars.data.benchmark import Benchmark, name_classes
from ars.report.results import About
from ars.smoothing import SmoothedClassifier
from ars.smoothing.mechanism import Images


def import_network(path: str, *, option: str) -> nn.Module:
    """Import package:attribute, a module or a function without arguments that returns one; option is what named it."""
    found = _attribute(path, option)
    if not isinstance(found, nn.Module) and callable(found):
        found = _call(path, found)
    if not isinstance(found, nn.Module):
        raise ValueError(f"{path} must be or return a SmoothedClassifier or an nn.Module, got {type(found).__name__}")
    return found


def import_classifier(path: str) -> nn.Module:
    """Import a classifier that is not smoothed yet."""
    found = import_network(path, option="--classifier")
    if isinstance(found, SmoothedClassifier):
        raise ValueError(f"{path} is smoothed already; name the classifier inside it, images in [0, 1] to logits")
    return found


def _attribute(path: str, option: str) -> Any:
    module_name, colon, names = path.partition(":")
    if not (module_name and colon and names):
        raise ValueError(f"{option} must look like package.module:attribute, got {path!r}")
    here = str(Path.cwd())
    if here not in sys.path:
        sys.path.insert(0, here)
    try:
        found: Any = importlib.import_module(module_name)
    except Exception as error:
        raise ValueError(
            f"cannot import {module_name} from {here} or the environment: {type(error).__name__}: {error}"
        ) from error
    for name in names.split("."):
        if not hasattr(found, name):
            raise ValueError(f"{module_name} has no attribute {names!r}; check what stands after the colon")
        found = getattr(found, name)
    return found


def _call(path: str, make: Callable[[], Any]) -> Any:
    try:
        return make()
    except Exception as error:
        raise ValueError(f"{path} was called without arguments and failed: {type(error).__name__}: {error}") from error


def no_numbers(saved: Mapping[str, object]) -> list[str]:
    """The names of the tensors that hold a NaN; a state dict may hold other things, and tensors of any kind."""
    tensors = {name: it for name, it in saved.items() if isinstance(it, torch.Tensor)}
    return [name for name, it in tensors.items() if any(map(_holds_nan, plain_parts(it) or ()))]


def _holds_nan(numbers: torch.Tensor) -> bool:
    real = numbers.is_floating_point() or numbers.is_complex()
    return real and torch.finfo(numbers.dtype).bits >= 8 and bool(numbers.isnan().any())  # those of 4 bits have none


def check_fit(
    name: str,
    model: SmoothedClassifier,
    benchmark: Benchmark | About,
    images: Images,
    *,
    trains: bool = False,
) -> None:
    """Refuse, before anything is drawn or trained, a model that cannot answer for an image of the benchmark.

    One that is to be trained must pass a gradient on, too. The model is left in eval mode.
    """
    unclear = no_numbers(model.state_dict())
    if unclear:
        raise ValueError(f"{name} holds weights that are no numbers, {unclear[0]} for one; give others, trained well")
    try:
        with torch.inference_mode(not trains):
            logits = model.eval()(images, torch.Generator(images.device).manual_seed(0))
    except Exception as error:  # anybody's code
        first = f"{type(error).__name__}: {error}".strip().partition("\n")[0]
        raise ValueError(
            f"{name} cannot take the {benchmark.title} images of shape {list(benchmark.shape)}: {first}"
        ) from error
    if not isinstance(logits, torch.Tensor):
        raise ValueError(
            f"{name} gives a {type(logits).__name__} for an image, expected a tensor of logits [b, classes]"
        )
    shape, classes = list(logits.shape), len(benchmark.class_names)
    if shape != [1, classes]:
        raise ValueError(
            f"{name} gives logits of shape {shape} for one image, {benchmark.title} has {classes} classes "
            f"({name_classes(benchmark.class_names)}); it should give [1, {classes}], a logit a class in this order: "
            "of a model of more classes pick these, net(x)[:, [3, 5, ...]], or take images of all that it knows"
        )
    if trains and not logits.requires_grad:
        raise ValueError(f"{name} passes no gradient on, so nothing can be trained; take no_grad out of its forward")
