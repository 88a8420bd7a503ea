"""Networks made ready for many noisy draws: BatchNorm folded, weights cast once, channels last, fused kernels.

Only networks that we know are changed, and only for bf16: float32 stays as it was trained, operation by operation.
Everything else runs as it is, under autocast. The noise is never touched: what is fused comes after it. What is
certified is the classifier as run.
"""

from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any
from weakref import WeakKeyDictionary

import torch
from torch import nn

from ars.certification.limits import BLOCK
from ars.certification.network_state import changed_by_hand, is_familiar, shares_parts, state, tensors_of
from ars.certification.our_networks import as_made
from ars.certification.plain_tensors import is_plain
from ars.kernels.fusing import fused
from ars.kernels.half import Half
from ars.kernels.images import Finish, FromImages
from ars.models import Normalize
from ars.smoothing import SmoothedClassifier, last, minimum_variance
from ars.smoothing.mechanism import Images

# layers whose meaning in bf16 is that of autocast; a sequence of them is a network that we know
PLAIN = (
    nn.Conv2d, nn.BatchNorm2d, nn.ReLU, nn.LeakyReLU, nn.Linear, nn.Flatten, nn.Identity, nn.Dropout, nn.Dropout2d,
    nn.AdaptiveAvgPool2d, nn.AvgPool2d, nn.MaxPool2d, nn.Sequential,
)  # fmt: skip

# Compiling ResNet-50 takes 6 s and then saves half its time: it pays once about as much has been spent without.
COMPILE_AFTER = 8 * 10**9  # pixels drawn


@contextmanager
def prepared(model: SmoothedClassifier, images: Images, *, draws: int, batch: int) -> Iterator[None]:
    """Within, the networks that we know run in bf16 and in eval mode; afterwards the model is as it was.

    So many draws in all are to come, in batches of ``batch``: what has long enough to work on a GPU is compiled.
    """
    undo: list[Callable[[], None]] = []

    def swap(owner: nn.Module, name: str, value: object) -> None:
        before = getattr(owner, name)
        setattr(owner, name, value)
        undo.append(lambda: setattr(owner, name, before))

    foreign = {id(part) for somebodys in model.modules() if not is_familiar(somebodys) for part in somebodys.modules()}
    try:
        for owner, name, network in list(known_networks(model)):
            made = ready(network, images)
            made.expect(images, draws, batch)
            swap(owner, name, StandIn(made.network, network) if id(owner) in foreign else made.network)
        finish = _finish(model)
        if finish is not None:
            pixels, classifier = finish
            swap(model, "combine", pixels)
            swap(model, "classifier", classifier)
        yield
    finally:
        for action in reversed(undo):
            action()


def known_networks(owner: nn.Module) -> Iterator[tuple[nn.Module, str, nn.Module]]:
    """Where in a model the largest networks are that we know: owner, name, network."""
    for name, child in owner._modules.items():
        if child is not None and _knows(child):
            yield owner, name, child
        elif child is not None and not isinstance(child, nn.DataParallel):  # its copies would share our scratch memory
            yield from known_networks(child)


class StandIn(nn.Module):
    """A network made ready, in a module of somebody's who may ask the network for more than its answer."""

    def __init__(self, made: nn.Module, network: nn.Module) -> None:
        super().__init__()
        self.made, self._of = made, [network]  # in a list, so that it is no part
        self.training = network.training

    def forward(self, *given: torch.Tensor, **named: torch.Tensor) -> object:
        """What the network made ready answers, by whatever name its image was given."""
        return self.made(*given, *named.values())

    def __getattr__(self, name: str) -> Any:
        """What is not ours is the network's, such as one of its layers."""
        return super().__getattr__(name) if name in ("made", "_of") else getattr(self._of[0], name)

    def __iter__(self) -> Iterator[nn.Module]:
        """The layers of a sequence."""
        return iter(self._of[0])  # type: ignore[call-overload,no-any-return]

    def __len__(self) -> int:
        """Their number."""
        return len(self._of[0])  # type: ignore[arg-type]

    def __getitem__(self, place: Any) -> Any:
        """One of them, or some."""
        return self._of[0][place]  # type: ignore[index]


@dataclass(frozen=True)
class Ready:
    """A network made ready: from what state, and how many pixels it was given so far in batches of each size."""

    state: object
    network: nn.Module
    pixels: Counter[int] = field(default_factory=Counter)

    def expect(self, images: Images, draws: int, batch: int) -> None:
        """Count these draws of the images, and compile what has no kernels once that pays."""
        self.pixels[batch] += draws * images[0, 0].numel()
        if images.device.type == "cuda" and self.pixels[batch] >= COMPILE_AFTER:
            for part in self.network.modules():
                if isinstance(part, Half):
                    part.compile_for(batch)


_READY: WeakKeyDictionary[nn.Module, Ready] = WeakKeyDictionary()


def ready(network: nn.Module, images: Images) -> Ready:
    """The network made ready for images of this size, from the cache unless its weights have changed since."""
    now = (images.shape[2:], images.device, state(network))
    if network not in _READY or _READY[network].state != now:
        kernels = fused(network, images, least=BLOCK)
        made = Half(network) if kernels is None else FromImages(kernels, torch.bfloat16)
        _READY[network] = Ready(now, made)
    return _READY[network]


def _finish(model: SmoothedClassifier) -> tuple[Finish, nn.Module] | None:
    """combine with the normalisation, and the classifier without, where the network has kernels."""
    parts = list(model.classifier.children()) if type(model.classifier) is nn.Sequential else []
    if type(model) is not SmoothedClassifier or model.combine not in (last, minimum_variance):
        return None
    if [type(part) for part in parts] != [Normalize, FromImages] or changed_by_hand(model.classifier):
        return None
    normalize, network = parts
    assert isinstance(normalize, Normalize)
    assert isinstance(network, FromImages)
    return Finish(model.combine, normalize, network.dtype), network.network


def _knows(module: nn.Module) -> bool:
    """Whether a network is one of ours, as it was made, or a sequence of plain layers; in float32 both."""
    plain = type(module) is nn.Sequential and all(type(part) in PLAIN for part in module.modules())
    usual = (plain or as_made(module)) and not changed_by_hand(module) and not shares_parts(module)
    return usual and all(_in_float32(tensor) for tensor in tensors_of(module))


def _in_float32(tensor: torch.Tensor) -> bool:
    """Or a count: what somebody keeps in half or double precision casts for itself what goes in and out."""
    return is_plain(tensor) and tensor.dtype in (torch.float32, torch.int64)
