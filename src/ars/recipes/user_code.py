"""The user's own code: importing networks, and reporting errors in them with their line."""

import importlib
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from traceback import extract_tb
from typing import Any

import torch
from torch import nn

from ars.certification.memory import is_short_of_memory
from ars.data.benchmark import Benchmark, name_classes
from ars.runs.run import About
from ars.smoothing import SmoothedClassifier
from ars.smoothing.mechanism import Images

LIBRARIES = (str(Path(torch.__file__).parent), str(Path(__file__).parents[1]))
GENERATOR_ADVICE = "a step may get several generators: pass its generator on to ars.normal_like or ars.draw_like"


@contextmanager
def explain_errors(name: str | None) -> Iterator[None]:
    """Turn any error in the user's code of this name into one sentence; None: there is no such code.

    Errors that already are sentences, and those about memory, pass unchanged.
    """
    try:
        yield
    except (ValueError, ArithmeticError, OSError, ImportError, MemoryError):
        raise
    except Exception as error:
        if name is None or is_short_of_memory(error):
            raise
        first = f"{type(error).__name__}: {error}".partition("\n")[0].rstrip(": ")
        theirs = [frame for frame in extract_tb(error.__traceback__) if not frame.filename.startswith(LIBRARIES)]
        place = f" ({theirs[-1].filename}, line {theirs[-1].lineno})" if theirs else ""
        advice = GENERATOR_ADVICE if "generator=list" in first else "fix it and run the same command again"
        raise ValueError(f"{name} failed: {first}{place}; {advice}") from error


def import_network(path: str, *, option: str) -> nn.Module:
    """Import package:attribute, a module or a function without arguments that returns one; option named the path."""
    found = _attribute(path, option)
    if not isinstance(found, nn.Module) and callable(found):
        try:
            found = found()
        except Exception as error:  # the user's code may raise anything
            why = f"{type(error).__name__}: {error}"
            raise ValueError(f"{path} was called without arguments and failed: {why}") from error
    if not isinstance(found, nn.Module):
        raise ValueError(f"{path} must be or return a SmoothedClassifier or an nn.Module, got {type(found).__name__}")
    return found


def import_classifier(path: str) -> nn.Module:
    """Import a classifier that is not smoothed."""
    found = import_network(path, option="--classifier")
    if isinstance(found, SmoothedClassifier):
        raise ValueError(f"{path} is already smoothed; name the classifier inside it, from images in [0, 1] to logits")
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
        why = f"{type(error).__name__}: {error}"
        raise ValueError(f"cannot import {module_name} from {here} or the environment: {why}") from error
    for name in names.split("."):
        if not hasattr(found, name):
            raise ValueError(f"{module_name} has no attribute {names!r}; check the name after the colon")
        found = getattr(found, name)
    return found


def tensors_with_nan(saved: Mapping[str, object]) -> list[str]:
    """The names of the tensors that hold a NaN; other values of a state dict are ignored."""
    return [name for name, value in saved.items() if isinstance(value, torch.Tensor) and _holds_nan(value)]


def _holds_nan(numbers: torch.Tensor) -> bool:
    try:
        return bool(numbers.isnan().any())
    except (RuntimeError, NotImplementedError):  # quantized or sparse tensors, for example
        return False


def check_fit(
    name: str, model: SmoothedClassifier, benchmark: Benchmark | About, images: Images, *, trains: bool = False
) -> None:
    """Refuse, before anything is drawn or trained, a model that cannot classify an image of the benchmark.

    With trains, the model must also pass gradients on. It is left in eval mode.
    """
    unclear = tensors_with_nan(model.state_dict())
    if unclear:
        raise ValueError(f"{name} has weights that are NaN, such as {unclear[0]}; use other weights")
    try:
        with torch.inference_mode(not trains):
            logits = model.eval()(images, torch.Generator(images.device).manual_seed(0))
    except Exception as error:  # the user's code may raise anything
        first = f"{type(error).__name__}: {error}".strip().partition("\n")[0]
        raise ValueError(
            f"{name} cannot take the {benchmark.title} images of shape {list(benchmark.shape)}: {first}"
        ) from error
    if not isinstance(logits, torch.Tensor):
        raise ValueError(
            f"{name} gives a {type(logits).__name__} for an image, expected a tensor of logits [b, classes]; for a "
            "classifier of transformers use ars.adapters.from_transformers, or --model transformers:PATH"
        )
    shape, classes = list(logits.shape), len(benchmark.class_names)
    if shape != [1, classes]:
        raise ValueError(
            f"{name} gives logits of shape {shape} for one image, but {benchmark.title} has {classes} classes "
            f"({name_classes(benchmark.class_names)}); it should give [1, {classes}], a logit per class in this order: "
            "select them from a model with more classes, net(x)[:, [3, 5, ...]], or use images of all its classes"
        )
    if trains and not logits.requires_grad:
        raise ValueError(
            f"{name} passes no gradient on, so nothing can be trained; remove no_grad from its forward pass"
        )
