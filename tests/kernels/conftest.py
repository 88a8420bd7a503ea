"""Networks with something to fold; kernels run on the GPU, or in Triton's interpreter where there is none."""

import os

import pytest
import torch
from torch import nn

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
if DEVICE == "cpu":
    os.environ["TRITON_INTERPRET"] = "1"  # before a kernel is imported


@pytest.fixture
def device():
    return torch.device(DEVICE)


@pytest.fixture
def disturb(device):
    """Random BatchNorm statistics and weights, so that folding has something to fold."""

    def change(network: nn.Module, seed: int = 0) -> nn.Module:
        generator = torch.Generator().manual_seed(seed)
        for module in network.modules():
            if isinstance(module, nn.BatchNorm2d):
                for part, low, high in (
                    (module.weight, 0.5, 1.0),
                    (module.bias, -0.2, 0.2),
                    (module.running_mean, -0.2, 0.2),
                    (module.running_var, 0.5, 2.0),
                ):
                    part.data.uniform_(low, high, generator=generator)
        return network.to(device).eval()

    return change


@pytest.fixture
def poisoned():
    """What a call returns into memory that was NaN before: the allocator hands the same block out again."""

    def call(run):
        out = run()
        out.fill_(float("nan"))
        del out
        return run()

    return call
