"""A digest of a model, which lies beside its records."""

from collections.abc import Iterator
from hashlib import sha256
from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn

from ars.certification.our_networks import as_made
from ars.certification.plain_tensors import plain_parts
from ars.experiments.hidden_numbers import Named, by_place, hidden_numbers, inside, plain_numbers, written
from ars.smoothing import SmoothedClassifier, last, minimum_variance
from ars.smoothing.mechanism import Step

if TYPE_CHECKING:
    from hashlib import _Hash

AT_ONCE = 1024  # rows of a tensor; all references of Sukenik et al. would take a second copy of them


def fingerprint(model: SmoothedClassifier) -> str:
    """A digest of the weights, the parts and the noise: records of two models of the same code are never mixed.

    Of a model that has not answered yet: calls may leave features, caches and lists of times in it.
    """
    digest = sha256(repr(model.mechanism.sigmas).encode())
    for step in model.mechanism.steps:
        for name in ("beta", "rate"):  # of noise that is not Gaussian, or not the same everywhere
            digest.update(f"{name} {getattr(step, name)}".encode() if hasattr(step, name) else b"")
    for name, value in _saved(model):
        _add(digest, name, value)
    for setting in _settings(model):
        digest.update(setting.encode())
    try:
        for name, value in hidden_numbers(model):
            _add(digest, name, value)
        digest.update(plain_numbers(model).encode())
    except RecursionError:
        raise ValueError(
            "the model keeps objects in objects, too deep to look into, so its records could not be told from another "
            "model's; keep them in lists or elsewhere"
        ) from None
    return digest.hexdigest()[:16]


def _add(digest: "_Hash", name: str, value: Tensor | str) -> None:
    if isinstance(value, str):
        digest.update(f"{name} {value}".encode())
        return
    digest.update(f"{name} {value.dtype} {list(value.shape)}".encode())
    rows = value.detach().reshape(value.shape or (1,))
    for start in range(0, len(rows), AT_ONCE):
        some = rows[start : start + AT_ONCE].cpu().contiguous()
        digest.update(some.flatten().view(torch.uint8).numpy())  # type: ignore[arg-type]


def _saved(model: SmoothedClassifier) -> Named:
    """All that is saved, then what is not: the images that Sukenik et al.'s noise is measured from."""
    saved = model.state_dict()
    others = {name: tensor for name, tensor in model.named_buffers() if name not in saved}
    for name, value in [*sorted(saved.items()), *sorted(others.items())]:
        yield from _numbers(name, value) if isinstance(value, Tensor) else inside(name, value)


def _numbers(name: str, tensor: Tensor) -> Named:
    parts = plain_parts(tensor)
    if parts is None:
        raise ValueError(
            f"the numbers of {name}, a {type(tensor).__name__} on {tensor.device}, cannot be looked at, so its records "
            "could not be told from another model's; keep them in a plain tensor, and call lazy layers once before"
        )
    yield from by_place(name, parts)


def _settings(model: SmoothedClassifier) -> Iterator[str]:
    """What no tensor tells: types and settings of parts, but not of networks that we made; an unusual combination."""
    if model.combine is not (last if len(model.mechanism.steps) == 1 else minimum_variance):
        yield f"combine {getattr(model.combine, '__qualname__', type(model.combine).__qualname__)}"
    for name, part in _telling("", model):
        yield f"{name} {written(part)}"


def _telling(name: str, part: nn.Module) -> Iterator[tuple[str, nn.Module]]:
    """Parts by their names, without what says nothing: boxes around others, ours whose tensors say it, our steps."""
    if as_made(part):
        return
    ours, children = type(part).__module__.startswith("ars."), list(part.named_children())
    box = bool(children) and (ours or type(part) in (nn.Sequential, nn.ModuleList, nn.ModuleDict))
    if not box and not (ours and (isinstance(part, Step) or part.state_dict())):
        yield name, part
    for child_name, child in children:
        yield from _telling(f"{name}.{child_name}" if name else child_name, child)
