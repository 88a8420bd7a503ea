"""One optimisation step: freezing, CUDA graphs and fused kernels."""

from collections.abc import Mapping

import torch
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm

from ars.kernels.accelerate import NATIVE_BF16
from ars.kernels.precision import Precision
from ars.kernels.trainable import with_kernels
from ars.smoothing import SmoothedClassifier
from ars.smoothing.mechanism import Fresh
from ars.training.loss import Objective
from ars.training.optimizers import Optimizers


class Modes:
    """Sets the training mode for an epoch: the mask is always trained, the classifier after the mask-only epochs.

    A classifier that is not trained is in eval mode, as in certification: fixed statistics, no dropout. A frozen
    classifier, none of whose parameters require a gradient, is never trained.
    """

    def __init__(self, model: SmoothedClassifier, *, mask_only_epochs: int) -> None:
        self.model, self.mask_only_epochs = model, mask_only_epochs
        self.trainable = [parameter for parameter in model.classifier.parameters() if parameter.requires_grad]
        self._trained: bool | None = None

    def set(self, epoch: int) -> bool:
        """Set training mode and gradients for this epoch; returns whether the trained parts changed."""
        trained = bool(self.trainable) and epoch >= self.mask_only_epochs
        for parameter in self.trainable:
            parameter.requires_grad_(trained)
        self.model.train()
        self.model.classifier.train(trained)
        new, self._trained = trained != self._trained, trained
        return new


WARM_UP = 3  # ordinary steps before the capture: lazy initialisation, and the choice of convolution algorithms


class Stepper:
    """Takes a batch through the objective and updates the weights.

    With accumulate parts, a batch is processed one part after another, and the gradients add up to those of its mean
    loss. The parts draw their noise in turn from the same generator.
    """

    def __init__(self, objective: Objective, optimizers: Optimizers, *, accumulate: int = 1) -> None:
        self.objective, self.optimizers, self.accumulate = objective, optimizers, accumulate

    def __call__(
        self, images: Tensor, labels: Tensor, generator: Fresh, rates: Mapping[str, float]
    ) -> tuple[Tensor, Tensor]:
        """One step at these learning rates; returns the loss and the accuracy, on the device."""
        self._set(rates)
        return self._step(images, labels, generator)

    def _set(self, rates: Mapping[str, float]) -> None:
        for name, optimizer in self.optimizers.items():
            for group in optimizer.param_groups:
                if isinstance(group["lr"], Tensor):
                    group["lr"].fill_(rates[name])
                else:
                    group["lr"] = rates[name]

    def _step(self, images: Tensor, labels: Tensor, generator: Fresh) -> tuple[Tensor, Tensor]:
        for optimizer in self.optimizers.values():
            optimizer.zero_grad()
        parts = self.accumulate
        total = torch.zeros(2, device=images.device)  # loss, accuracy
        for part, answers in zip(images.chunk(parts), labels.chunk(parts), strict=True):
            loss, accuracy = self.objective(part, answers, generator)
            (loss / parts).backward()
            total += torch.stack([loss.detach(), accuracy]) / parts
        for optimizer in self.optimizers.values():
            optimizer.step()
        return total[0], total[1]


class GraphedStepper(Stepper):
    """The same step as a single launch: thousands of small kernels no longer wait for the host.

    Every batch must have the shape of the first, the generator must be freshly seeded, and parameters, optimiser state
    and learning rates must keep their places in memory.
    """

    _done = 0
    _stream: torch.cuda.Stream | None = None
    _graph: torch.cuda.CUDAGraph | None = None

    def __call__(
        self, images: Tensor, labels: Tensor, generator: Fresh, rates: Mapping[str, float]
    ) -> tuple[Tensor, Tensor]:
        """One step; from the first capture on, a replay of the graph."""
        self._set(rates)
        if self._done < WARM_UP:
            self._done += 1
            return self._on_another_stream(images, labels, generator)
        if self._graph is None:
            self._capture(images, labels)
        assert self._graph is not None
        assert isinstance(generator, torch.Generator)
        self._images.copy_(images)
        self._labels.copy_(labels)
        self._generator.manual_seed(generator.initial_seed())
        self._graph.replay()
        return self._results

    def _on_another_stream(self, images: Tensor, labels: Tensor, generator: Fresh) -> tuple[Tensor, Tensor]:
        """A step on a separate stream: a capture must not use memory that was first used on its own stream."""
        if self._stream is None:
            self._stream = torch.cuda.Stream()  # type: ignore[no-untyped-call]
        self._stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(self._stream):
            results = self._step(images, labels, generator)
        torch.cuda.current_stream().wait_stream(self._stream)
        return results

    def _capture(self, images: Tensor, labels: Tensor) -> None:
        self._images, self._labels = images.clone(), labels.clone()
        self._generator = torch.Generator(images.device)
        for optimizer in self.optimizers.values():
            optimizer.zero_grad()  # so that the graph allocates gradients in its own memory
        graph = torch.cuda.CUDAGraph()
        graph.register_generator_state(self._generator)
        # capture this thread only: another may pin memory for the next batches meanwhile
        with torch.cuda.graph(graph, capture_error_mode="thread_local"):
            self._results = self._step(self._images, self._labels, self._generator)
        self._graph = graph


# on an H200 a capture takes about 1 s and saves up to 30 ms per step; the kernels take 10 to 20 s and save 50 to 80 ms
GRAPH_PAYS, KERNELS_PAY = 50, 400


def fastest(
    model: SmoothedClassifier, precision: Precision, *, steps: int, alone: bool
) -> tuple[SmoothedClassifier, type[Stepper]]:
    """The fastest form of the model, and the fastest stepper for this many steps on its device.

    Several processes exchange gradients in the backward pass, which a graph cannot capture, so they use plain steps.
    """
    device = next(model.parameters()).device
    if device.type != "cuda" or steps < GRAPH_PAYS or not alone or not replayable(model):
        return model, Stepper
    native = torch.cuda.get_device_capability(device) >= NATIVE_BF16
    if precision == "bfloat16" and steps >= KERNELS_PAY and native:
        model = with_kernels(model)
    return model, GraphedStepper


def replayable(model: nn.Module) -> bool:
    """Whether the whole forward pass runs on the device, so that a replay repeats it: true of our and torch's layers.

    The user's own code and hooks may read values from the device or use Python's random numbers, which a graph would
    not repeat. BatchNorm without momentum reads the number of its batches.
    """
    return all(
        type(module).__module__.startswith(("ars.", "torch.nn."))
        and not (module._forward_hooks or module._forward_pre_hooks or module._backward_hooks)
        and "forward" not in vars(module)
        and not (isinstance(module, _BatchNorm) and module.momentum is None)
        for module in model.modules()
    )
