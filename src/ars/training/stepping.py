"""One step of training: loss, gradients, update; as it stands, or captured once as a CUDA graph and replayed."""

from collections.abc import Mapping

import torch
from torch import Tensor

from ars.smoothing.mechanism import Fresh
from ars.training.objective import Objective

WARM_UP = 3  # ordinary steps before the capture: lazy initialisation, and the choice of convolution algorithms


class Stepper:
    """Takes a batch through the objective and updates the weights.

    With accumulate parts, a batch goes through one part after another and the gradients add up to those of its mean
    loss; the parts draw their noise one after another from the same generator.
    """

    def __init__(
        self, objective: Objective, optimizers: Mapping[str, torch.optim.Optimizer], *, accumulate: int = 1
    ) -> None:
        self.objective, self.optimizers, self.accumulate = objective, optimizers, accumulate

    def __call__(
        self, images: Tensor, labels: Tensor, generator: Fresh, rates: Mapping[str, float]
    ) -> tuple[Tensor, Tensor]:
        """One step at these learning rates; returns the loss and the share of right answers, on the device."""
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
        total = torch.zeros(2, device=images.device)  # loss, right answers
        for some, answers in zip(images.chunk(parts), labels.chunk(parts), strict=True):
            loss, accuracy = self.objective(some, answers, generator)
            (loss / parts).backward()
            total += torch.stack([loss.detach(), accuracy]) / parts
        for optimizer in self.optimizers.values():
            optimizer.step()
        return total[0], total[1]


class GraphedStepper(Stepper):
    """The same step as one launch: thousands of small kernels no longer wait for the host.

    Every batch has the shape of the first, the generator is fresh from its seed, and what the step reads (parameters,
    optimiser state, learning rates) stays where it is in memory.
    """

    def __init__(
        self, objective: Objective, optimizers: Mapping[str, torch.optim.Optimizer], *, accumulate: int = 1
    ) -> None:
        super().__init__(objective, optimizers, accumulate=accumulate)
        self._done = 0
        self._stream: torch.cuda.Stream | None = None
        self._graph: torch.cuda.CUDAGraph | None = None

    def __call__(
        self, images: Tensor, labels: Tensor, generator: Fresh, rates: Mapping[str, float]
    ) -> tuple[Tensor, Tensor]:
        """One step, by the graph once there is one."""
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
        """A capture must not meet memory that was first used on the stream it takes."""
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
            optimizer.zero_grad()  # gradients that the graph makes lie in its own memory
        graph = torch.cuda.CUDAGraph()
        graph.register_generator_state(self._generator)
        # what other threads do is no part of it: one that pins memory for the next batches may run meanwhile
        with torch.cuda.graph(graph, capture_error_mode="thread_local"):
            self._results = self._step(self._images, self._labels, self._generator)
        self._graph = graph
