"""Networks made ready for many noisy draws: BatchNorm folded, weights cast once, channels last, fused kernels.

Only networks that we know are changed, and only for bf16: float32 stays as it was trained, operation by operation.
Everything else runs as it is, under autocast. What is certified is the classifier as run.
"""

from copy import deepcopy
from importlib.util import find_spec
from weakref import WeakKeyDictionary

import torch
from jaxtyping import Float
from torch import Tensor, nn

from ars.kernels.fold import fold
from ars.kernels.resnet import FusedResNet
from ars.kernels.unet import FusedUNet, can_fuse
from ars.models import CifarResNet, ResNet50, UNet
from ars.smoothing import SmoothedClassifier
from ars.smoothing.mechanism import Images

# layers whose meaning in bf16 is that of autocast; a sequence of them is a network that we know
PLAIN = (
    nn.Conv2d, nn.BatchNorm2d, nn.ReLU, nn.LeakyReLU, nn.Linear, nn.Flatten, nn.Identity, nn.Dropout, nn.Dropout2d,
    nn.AdaptiveAvgPool2d, nn.AvgPool2d, nn.MaxPool2d, nn.Sequential,
)  # fmt: skip
# Compiling ResNet-50 takes 6 s and then saves half its time: it pays once about as much has been spent without.
COMPILE_AFTER = 8 * 10**9  # pixels drawn


class Half(nn.Module):
    """A frozen network in bf16, folded and channels last; compiled on a GPU once it has worked for long enough."""

    def __init__(self, network: nn.Module) -> None:
        super().__init__()
        self.network = fold(network).bfloat16().to(memory_format=torch.channels_last)  # type: ignore[call-overload]
        self.pixels = 0
        self.compiled: tuple[int, nn.Module] | None = None  # for one batch size; others run as they are

    def forward(self, x: Float[Tensor, "b c h w"]) -> Tensor:
        """The network on images in any dtype."""
        x = x.to(torch.bfloat16, memory_format=torch.channels_last)
        self.pixels += x[:, 0].numel()
        if self.compiled is None and self.pixels >= COMPILE_AFTER and x.device.type == "cuda" and find_spec("triton"):
            self.compiled = len(x), torch.compile(self.network, dynamic=False)  # type: ignore[assignment]
        run = self.network if self.compiled is None or self.compiled[0] != len(x) else self.compiled[1]
        with torch.backends.cudnn.flags(enabled=True, benchmark=True):  # the same shapes come again and again
            out: Tensor = run(x)
        return out


def prepare(model: SmoothedClassifier, images: Images) -> SmoothedClassifier:
    """The model with the networks that we know in bf16, in eval mode; it shares all the rest with the model given."""
    known: dict[int, nn.Module] = {}
    for module in model.modules():
        if _knows(module) and not any(id(module) == part for part in known):
            known.update({id(part): part for part in module.modules()})
            known[id(module)] = _ready(module, images)
    if not known:
        return model
    replaced = {part: module for part, module in known.items() if isinstance(module, Half | FusedResNet | FusedUNet)}
    # deepcopy takes from its memo what is there: the ready networks, and as they are all parts that hold none
    memo: dict[int, object] = dict(replaced)
    for module in model.modules():
        if id(module) not in known and not any(id(part) in known for part in module.modules()):
            memo[id(module)] = module
    for tensor in [*model.parameters(), *model.buffers()]:
        memo.setdefault(id(tensor), tensor)
    return deepcopy(model, memo)


_READY: WeakKeyDictionary[nn.Module, tuple[object, nn.Module]] = WeakKeyDictionary()


def _ready(network: nn.Module, images: Images) -> nn.Module:
    """The network made ready, from the cache unless its weights have changed since."""
    tensors = [*network.parameters(), *network.buffers()]
    if any(tensor.is_inference() for tensor in tensors):  # these count no versions
        return _build(network, images)
    state = (images.shape[1:], [(tensor.data_ptr(), tensor._version) for tensor in tensors])
    if network not in _READY or _READY[network][0] != state:
        _READY[network] = state, _build(network, images)
    return _READY[network][1]


def _build(network: nn.Module, images: Images) -> nn.Module:
    height, width = images.shape[-2:]
    if images.device.type == "cuda" and find_spec("triton"):
        if isinstance(network, CifarResNet) and network.conv1.in_channels <= 4 and height % 4 == 0 == width % 4:
            return FusedResNet(network, torch.bfloat16)
        if isinstance(network, UNet) and can_fuse(network):
            return FusedUNet(network, torch.bfloat16)
    return Half(network)


def _knows(module: nn.Module) -> bool:
    if type(module) in (CifarResNet, ResNet50, UNet):
        return True
    return type(module) is nn.Sequential and all(type(part) in PLAIN for part in module.modules())
