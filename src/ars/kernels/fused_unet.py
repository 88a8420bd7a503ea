"""The U-Net with one kernel per convolution: nothing is padded, upsampled or concatenated in memory."""

import torch
from jaxtyping import Float
from torch import Tensor, nn

from ars.kernels.fold import fold
from ars.kernels.layers import Conv, tile_for
from ars.models.unet import UNet, check_size

SLOPE = 0.01  # of nn.LeakyReLU


class FusedUNet(nn.Module):
    """A frozen U-Net of width 16 or 32 with kernels for its convolutions, in one dtype."""

    def __init__(self, network: UNet, dtype: torch.dtype) -> None:
        super().__init__()
        folded = fold(network)
        assert isinstance(folded, UNet)

        def fused(name: str, *, slope: float = SLOPE, split: int = 0, head: nn.Conv2d | None = None) -> Conv:
            conv = folded.get_submodule(name)
            assert isinstance(conv, nn.Conv2d)
            return Conv(conv, dtype, slope=slope, tile=tile_for(conv), split=split, head=head)

        levels = range(len(folded.downs))
        # a double convolution is [conv, norm, dropout, activation] twice
        self.encoders = [(fused(f"encoders.{i}.0"), fused(f"encoders.{i}.4")) for i in levels]
        self.downs = [fused(f"downs.{i}.0") for i in levels]
        self.bottom = (fused("bottom.0"), fused("bottom.4"))
        self.halvings = [fused(f"halvings.{i}", slope=1.0) for i in levels]
        self.decoders = [
            (
                fused(f"decoders.{i}.0", split=self.halvings[i].outputs),
                fused(f"decoders.{i}.4", head=folded.to_mask if i == 0 else None),
            )
            for i in levels
        ]

    def forward(self, x: Float[Tensor, "b h w 4"]) -> Float[Tensor, "b 1 h w"]:
        """One weight per pixel, in float32."""
        check_size(*x.shape[1:3])  # in smaller images, mirrored indices would fall into the previous draw
        skips = []
        for (one, two), down in zip(self.encoders, self.downs, strict=True):
            skips.append(two(one(x)))
            x = down(skips[-1])
        x = self.bottom[1](self.bottom[0](x))
        for halve, (one, two), skip in reversed(list(zip(self.halvings, self.decoders, skips, strict=True))):
            x = two(one(halve(x), second=skip, up=2))
        return x.unsqueeze(1)
