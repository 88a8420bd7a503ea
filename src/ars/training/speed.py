"""How a step is made fast: start-up costs seconds once, and is chosen where the steps that follow earn it back."""

from torch import nn

from ars.certification.sampling import Precision
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
    if next(model.parameters()).device.type != "cuda" or steps < GRAPH_PAYS or not alone or not replayable(model):
        return model, Stepper
    if precision == "bfloat16" and steps >= KERNELS_PAY:
        model = with_kernels(model)
    return model, GraphedStepper


def replayable(model: nn.Module) -> bool:
    """Whether all of a forward pass happens on the device, so that a replay repeats it: that of our and torch's layers.

    Code of someone else's may ask the device for a value or toss a coin of Python's, hooks too: a graph would not.
    """
    return all(
        type(module).__module__.startswith(("ars.", "torch.nn."))
        and not (module._forward_hooks or module._forward_pre_hooks or module._backward_hooks)
        for module in model.modules()
    )
