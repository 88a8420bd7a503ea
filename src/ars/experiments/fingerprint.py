"""A digest of a model, which its records carry."""

from collections.abc import Iterator
from hashlib import sha256

import torch
from torch import Tensor

from ars.certification.network_state import structure
from ars.smoothing import SmoothedClassifier
from ars.smoothing.mechanism import Step


def fingerprint(model: SmoothedClassifier) -> str:
    """A digest of the weights and the noise: records of two models of the same code are never mixed."""
    digest = sha256(repr(model.mechanism.sigmas).encode())
    for step in model.mechanism.steps:
        for name in ("beta", "rate"):  # of noise that is not Gaussian, or not the same everywhere
            digest.update(f"{name} {getattr(step, name)}".encode() if hasattr(step, name) else b"")
    for name, tensor in _tensors(model):
        digest.update(f"{name} {tensor.dtype} {list(tensor.shape)}".encode())
        digest.update(tensor.detach().cpu().contiguous().flatten().view(torch.uint8).numpy().tobytes())
    for setting in _settings(model):
        digest.update(setting.encode())
    return digest.hexdigest()[:16]


def _tensors(model: SmoothedClassifier) -> Iterator[tuple[str, Tensor]]:
    """All that is saved, then what is not: the images that Sukenik et al.'s noise is measured from."""
    saved = model.state_dict()
    yield from sorted(saved.items())
    yield from sorted((name, tensor) for name, tensor in model.named_buffers() if name not in saved)


def _settings(model: SmoothedClassifier) -> Iterator[str]:
    """Parts of which no tensor tells, by their types and settings: a mask without weights, that noise."""
    for name, part in model.named_modules():
        ours_or_theirs = not isinstance(part, Step) and not type(part).__module__.startswith("torch.")
        if ours_or_theirs and not part.state_dict() and not list(part.children()):
            yield f"{name} {structure(part)}"
