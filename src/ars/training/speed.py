"""How a step is made fast: start-up costs seconds once, and is chosen where the steps that follow earn it back."""

import torch
from torch import nn
from torch.nn.modules.batchnorm import _BatchNorm

from ars.certification.network_state import changed_by_hand
from ars.certification.our_networks import as_made
from ars.certification.sampling import Precision
from ars.kernels.fusing import NATIVE_BF16
from ars.kernels.training import with_kernels
from ars.smoothing import SmoothedClassifier
from ars.training.stepping import GraphedStepper, Stepper

# on an H200 a capture takes about a second and saves up to 30 ms a step, the kernels take 10 to 20 s and save 50 to 80
GRAPH_PAYS, KERNELS_PAY = 50, 400


def fastest(
    model: SmoothedClassifier, precision: Precision, *, steps: int, alone: bool
) -> tuple[SmoothedClassifier, type[Stepper]]:
    """The model as it computes fastest, and the fastest way through so many steps on its device.

    Several processes exchange gradients on their way back, which a graph would have to know: they step as it stands.
    """
    device = next(model.parameters()).device
    if device.type != "cuda" or steps < GRAPH_PAYS or not alone or not replayable(model):
        return model, Stepper
    native = torch.cuda.get_device_capability(device) >= NATIVE_BF16
    if precision == "bfloat16" and steps >= KERNELS_PAY and native:
        model = with_kernels(model, usable=known)
    return model, GraphedStepper


def known(network: nn.Module) -> bool:
    """Whether a network of ours is as it was made, which the kernels take it to be."""
    return as_made(network) and not changed_by_hand(network)


def replayable(model: nn.Module) -> bool:
    """Whether all of a forward pass happens on the device, so that a replay repeats it: that of our and torch's layers.

    Code of someone else's may ask the device for a value or toss a coin of Python's, hooks too: a graph would not.
    BatchNorm without momentum asks for the number of its batches.
    """
    return not changed_by_hand(model) and all(
        type(module).__module__.startswith(("ars.", "torch.nn."))
        and not module._backward_hooks
        and not (isinstance(module, _BatchNorm) and module.momentum is None)
        for module in model.modules()
    )
