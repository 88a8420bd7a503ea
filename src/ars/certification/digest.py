"""Which model made these records: a digest of its weights, its parts and its noise, stored beside them.

It distinguishes models of the same code. It does not detect changed code, closures, hooks, settings that were changed
inside a network of ``ars.models``, or numbers in lists, dictionaries or objects. For such changes a module can state
its version itself: an attribute ``version = 2`` of the module or its class is part of the digest.
"""

from collections.abc import Iterator
from functools import partial
from hashlib import sha256
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor, nn

from ars.smoothing import SmoothedClassifier, last, minimum_variance
from ars.smoothing.mechanism import Step

if TYPE_CHECKING:
    from hashlib import _Hash

AT_ONCE = 1024  # rows of a tensor; copying all references of Sukenik et al. at once would double their memory
PLAIN_VALUES = (bool, int, float, str, tuple, type(None))
OF_EVERY_MODULE = frozenset(vars(nn.Module()))
TRAINING_ONLY = frozenset({"p", "momentum", "inplace"})


def digest_model(model: SmoothedClassifier) -> str:
    """A digest of the weights, the parts and the noise, so that records of different models are never mixed."""
    digest = sha256(repr(model.mechanism.sigmas).encode())
    for step in model.mechanism.steps:
        for name in ("beta", "rate"):  # for noise that is not Gaussian, or depends on the image
            digest.update(f"{name} {getattr(step, name)}".encode() if hasattr(step, name) else b"")
    saved = model.state_dict()
    others = {name: tensor for name, tensor in model.named_buffers() if name not in saved}
    for name, value in [*sorted(saved.items()), *sorted(others.items())]:
        _add(digest, name, value)
    if model.combine is not (last if len(model.mechanism.steps) == 1 else minimum_variance):
        digest.update(f"combine {_combination(model.combine)}".encode())
    telling = dict(_telling_parts("", model))
    for name, part in telling.items():
        digest.update(f"{name} (('', {_kind(part)}, {_settings(part)}),)".encode())
    for name, part in model.named_modules():
        for key, value in sorted(vars(part).items()):  # tensors that are neither parameters nor buffers
            if isinstance(value, Tensor):
                _add(digest, f"{name}.{key}", value)
            elif isinstance(value, np.ndarray) and not value.dtype.hasobject:
                digest.update(f"{name}.{key} {value.dtype} {value.shape}".encode() + value.tobytes())
        version = getattr(part, "version", None)
        if version is not None and _is_setting(version) and not (name in telling and "version" in vars(part)):
            digest.update(f"{name} version {version!r}".encode())
    return digest.hexdigest()[:16]


def _add(digest: "_Hash", name: str, value: object) -> None:
    if not isinstance(value, Tensor):  # extra state of a module
        digest.update(f"{name} {value!r}".encode())
        return
    try:
        rows = value.detach().reshape(value.shape or (1,))
        digest.update(f"{name} {value.dtype} {list(value.shape)}".encode())
        for start in range(0, len(rows), AT_ONCE):
            part = rows[start : start + AT_ONCE].cpu().contiguous()
            digest.update(part.flatten().view(torch.uint8).numpy())  # type: ignore[arg-type]
    except (RuntimeError, NotImplementedError, TypeError, ValueError) as error:  # ValueError: of lazy layers
        raise ValueError(
            f"the numbers of {name}, a {type(value).__name__} on {value.device}, cannot be read, so the model cannot "
            "be identified; use a plain tensor, and call lazy layers once first"
        ) from error


def _combination(combine: object) -> str:
    """The name of a combination, with the plain values of a partial function or an object."""
    if isinstance(combine, partial):
        return f"{_combination(combine.func)} {combine.args} {sorted(combine.keywords.items())}"
    if isinstance(combine, nn.Module):  # which is among the parts
        return type(combine).__qualname__
    plain = {key: value for key, value in getattr(combine, "__dict__", {}).items() if _is_setting(value)}
    return getattr(combine, "__qualname__", type(combine).__qualname__) + (f" {sorted(plain.items())}" if plain else "")


def _telling_parts(name: str, part: nn.Module) -> Iterator[tuple[str, nn.Module]]:
    """Parts with settings that are not in their tensors: all but our own networks and steps, and plain containers."""
    ours, children = type(part).__module__.startswith("ars."), list(part.named_children())
    if type(part).__module__.startswith("ars.models."):
        for inner, module in part.named_modules(prefix=name):
            if not type(module).__module__.startswith(("torch.nn.", "ars.")):
                yield inner, module
        return
    box = bool(children) and (ours or type(part) in (nn.Sequential, nn.ModuleList, nn.ModuleDict))
    if not box and not (ours and (isinstance(part, Step) or part.state_dict())):
        yield name, part
    for child_name, child in children:
        yield from _telling_parts(f"{name}.{child_name}" if name else child_name, child)


def _kind(part: nn.Module) -> str:
    """The class as records name it, also where it has moved since."""
    return repr(type(part)).replace("ars.smoothing.input_dependent.", "ars.smoothing.nearest_noise.")


def _settings(part: nn.Module) -> tuple[tuple[str, object], ...]:
    """Attributes with plain values that matter in eval mode; for the user's classes private attributes count too."""
    named = {name: value for name, value in vars(part).items() if name not in OF_EVERY_MODULE}
    if type(part).__module__.startswith(("torch.nn.", "torch._dynamo.", "ars.")):
        named = {name: value for name, value in named.items() if name[0] != "_" and name not in TRAINING_ONLY}
        named = {name: tuple(value) if isinstance(value, list) else value for name, value in named.items()}
    return tuple((name, value) for name, value in named.items() if name[:2] != "__" and _is_setting(value))


def _is_setting(value: object) -> bool:
    return isinstance(value, PLAIN_VALUES) and (not isinstance(value, tuple) or all(map(_is_setting, value)))
