"""How a step is made fast: start-up costs seconds once, and is chosen where the steps that follow earn it back."""

from collections.abc import Mapping

import torch

from ars.certification.sampling import Precision
from ars.kernels.training import with_kernels
from ars.smoothing import SmoothedClassifier
from ars.training.objective import Objective
from ars.training.stepping import GraphedStepper, Stepper

# on an H200 a capture takes about a second and saves up to 30 ms a step, the kernels take 10 to 20 s and save 50 to 80
GRAPH_PAYS, KERNELS_PAY = 50, 400


def make_stepper(
    model: SmoothedClassifier, optimizers: Mapping[str, torch.optim.Optimizer], precision: Precision, *, steps: int
) -> Stepper:
    """The fastest way through so many steps on the model's device."""
    device = next(model.parameters()).device
    if device.type != "cuda" or steps < GRAPH_PAYS:
        return Stepper(Objective(model, precision), optimizers)
    if precision == "bfloat16" and steps >= KERNELS_PAY:
        model = with_kernels(model)
    return GraphedStepper(Objective(model, precision), optimizers)
