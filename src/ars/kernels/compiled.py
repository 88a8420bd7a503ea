"""Networks without kernels in bf16: folded, channels last, and compiled once that pays off."""

from collections.abc import Callable
from copy import deepcopy

import torch
from jaxtyping import Float
from torch import Tensor, nn

from ars.kernels.backend import can_compile, choosing
from ars.kernels.fold import fold


class Float32Linear(nn.Module):
    """A linear layer in float32, whatever the type of its input: it costs nothing, and bf16 logits often tie."""

    def __init__(self, linear: nn.Linear) -> None:
        super().__init__()
        self.linear = linear

    def forward(self, x: Float[Tensor, "b features"]) -> Float[Tensor, "b classes"]:
        """The layer's output in float32."""
        with torch.autocast(x.device.type, enabled=False):
            out: Tensor = self.linear(x.float())
        return out


class ReflectConv(nn.Module):
    """A 3x3 convolution with reflect padding that copies a channels-last map once; torch copies it three times."""

    def __init__(self, conv: nn.Conv2d) -> None:
        super().__init__()
        self.conv = conv
        conv.padding_mode, conv.padding = "zeros", (0, 0)

    def forward(self, x: Float[Tensor, "b c h w"]) -> Float[Tensor, "b c2 h2 w2"]:
        """The convolution of the padded map."""
        batch, channels, height, width = x.shape
        shape = (batch, channels, height + 2, width + 2)
        padded = torch.empty(shape, dtype=x.dtype, device=x.device, memory_format=torch.channels_last)
        padded[:, :, 1:-1, 1:-1] = x
        padded[:, :, 0, 1:-1], padded[:, :, -1, 1:-1] = x[:, :, 1], x[:, :, -2]
        padded[:, :, :, 0], padded[:, :, :, -1] = padded[:, :, :, 2], padded[:, :, :, -3]
        out: Tensor = self.conv(padded)
        return out


class Half(nn.Module):
    """A frozen network in bf16, folded and channels last; its last linear layer stays in float32."""

    def __init__(self, network: nn.Module) -> None:
        super().__init__()
        self.network = fold(network)
        linears = [name for name, module in self.network.named_modules() if type(module) is nn.Linear]
        last = deepcopy(self.network.get_submodule(linears[-1])) if linears else None
        self.network.bfloat16().to(memory_format=torch.channels_last)  # type: ignore[call-overload]
        if isinstance(last, nn.Linear):
            self.network.set_submodule(linears[-1], Float32Linear(last))
        for name, module in list(self.network.named_modules()):
            if type(module) is nn.Conv2d and module.padding_mode == "reflect" and module.padding == (1, 1):
                self.network.set_submodule(name, ReflectConv(module))
        self.compiled: dict[int, Callable[[Tensor], Tensor]] = {}  # by batch size; other sizes run uncompiled

    def forward(self, x: Float[Tensor, "b ..."]) -> Tensor:
        """The network on images, or features, in any dtype."""
        # a network inside the user's own may get features that are not images
        x = x.to(torch.bfloat16, memory_format=torch.channels_last if x.ndim == 4 else torch.preserve_format)
        run = self.compiled.get(len(x), self.network)
        with choosing():
            out: Tensor = run(x)
        return out

    def compile_for(self, batch: int) -> None:
        """Compile the network for batches of this size, if there is a compiler."""
        if batch not in self.compiled and can_compile():
            self.compiled[batch] = torch.compile(self.network, dynamic=False)
