"""The training loop: every step uses fresh noise, as certification will.

All randomness of a step (data, noise, dropout) is seeded by (seed, step), so an interrupted run resumes from its
checkpoint and ends with the same weights as an uninterrupted one. Several processes share each batch with its noise;
the first of them validates and writes.
"""

import math
import shlex
import time
from collections.abc import Callable, Iterator
from itertools import islice
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from ars.data.benchmark import Benchmark, Labelled
from ars.kernels.backend import choosing
from ars.kernels.precision import Precision, autocast, current
from ars.runs.paths import CHECKPOINT, LOG
from ars.smoothing import SmoothedClassifier
from ars.smoothing.masked import WeightRange
from ars.tensors import OF_MODEL, CheckpointError, load_model, load_tensors, save_tensors, under
from ars.theory import Norm
from ars.training.loss import Objective
from ars.training.optimizers import (
    MovingAverage,
    load_optimizers,
    make_optimizers,
    optimizer_tensors,
    settings_of,
)
from ars.training.progress import (
    NEVER,
    Decision,
    Meetings,
    Pace,
    Progress,
    Standing,
    Tally,
    first_share,
    write_log,
)
from ars.training.ranks import Ranks
from ars.training.settings import TrainSettings
from ars.training.step import WARM_UP, Modes, fastest

IMAGES = 1000


@torch.no_grad()
def validate(
    model: SmoothedClassifier,
    benchmark: Benchmark,
    generator: torch.Generator,
    *,
    batch_size: int,
    precision: Precision,
) -> tuple[float, float]:
    """Accuracy and mean squared mask on held-out images, one draw each, on the generator's device.

    Both are NaN if the mask is, since no loss has seen the last update yet. Any other fault of the mask is raised.
    """
    model, device = model.eval(), generator.device
    indices = iter(range(min(IMAGES, benchmark.size("validation"))))
    correct, openness, seen, masks = 0.0, 0.0, 0, WeightRange()
    while batch := list(islice(indices, batch_size)):
        images, labels = (part.to(device) for part in benchmark.examples("validation", batch))
        with autocast(device, precision):
            releases = model.mechanism.release(images, generator)
            if any(bool(release.weight.isnan().any()) for release in releases):
                return math.nan, math.nan
            masks.add(model.mechanism.steps, releases)
            logits = model.classifier(model.combined(releases, generator))
        correct += float((logits.argmax(dim=1) == labels).sum())
        openness += float(releases[-1].weight.square().mean()) * len(batch)
        seen += len(batch)
    masks.check()
    return correct / seen, openness / seen


class Interrupted(Exception):
    """Training was stopped on request; its state is saved."""


def check_batch(benchmark: Benchmark, settings: TrainSettings) -> int:
    """The number of batches per epoch; refuses a batch larger than the training set."""
    if settings.batch_size > benchmark.train_size():
        raise ValueError(f"batch_size={settings.batch_size} is above the {benchmark.train_size()} training images")
    return benchmark.train_size() // settings.batch_size


class Trainer:
    """Trains a smoothed classifier in place, with separate optimisers for mask and classifier.

    identity is a digest of everything that determines the weights: a checkpoint with another identity is refused.
    """

    def __init__(
        self,
        model: SmoothedClassifier,
        benchmark: Benchmark,
        settings: TrainSettings,
        *,
        seed: int,
        precision: Precision,
        folder: Path,
        identity: str,
        norm: Norm = "linf",
        ranks: Ranks | None = None,
        spent: float = 0.0,
    ) -> None:
        self.ranks = ranks or Ranks()
        self.ranks.check(settings)
        self.model, self.benchmark, self.settings = model, benchmark, settings
        self.seed, self.precision, self.identity, self.norm = seed, precision, identity, norm
        self.checkpoint, self.log = folder / CHECKPOINT, folder / LOG
        self.device = next(model.parameters()).device
        self.steps_per_epoch = check_batch(benchmark, settings)
        self.optimizers = make_optimizers(model, settings)
        self.modes = Modes(model, mask_only_epochs=settings.mask_only_epochs)
        self.average = MovingAverage(model, settings.ema) if settings.ema else None
        self.step = 0
        self._seconds, self._began = spent, time.monotonic()
        self.tally = Tally(self.device)
        if self.checkpoint.exists():
            self._resume()
        if len({step for (step,) in self.ranks.gather([self.step])}) > 1:
            raise CheckpointError(f"not all processes see {self.checkpoint}; put the run on a shared disk")

    @property
    def steps(self) -> int:
        """The number of steps of the whole training."""
        whole = self.steps_per_epoch * self.settings.epochs
        return min(whole, self.settings.max_steps or whole)

    @property
    def seconds(self) -> float:
        """The time of training so far, over all sessions; a killed session counts up to its last checkpoint."""
        return self._seconds + time.monotonic() - self._began

    @property
    def evaluated(self) -> SmoothedClassifier:
        """The model that would be saved if training ended now."""
        return self.average.model if self.average else self.model

    def run(
        self,
        *,
        report: Callable[[Progress], None] = lambda progress: None,
        watch: Callable[[Standing], None] = lambda standing: None,
        stop: Callable[[], bool] = lambda: False,
    ) -> None:
        """Train to the end; report is called per epoch and watch about once per second, in the first process only.

        A single process checks stop after each step; several processes agree about once per second.
        """
        pace = Pace(self.step, steps=self.steps, batch_size=self.settings.batch_size, slow=WARM_UP)
        meetings = Meetings(self.ranks, self.tally, step=self.step, save_seconds=60 * self.settings.checkpoint_minutes)
        devices = [self.device] if self.device.type == "cuda" else []
        with current(self.device), torch.random.fork_rng(devices=devices), choosing():
            while self.step < self.steps:
                if self.modes.set(self.step // self.steps_per_epoch):
                    self._prepare()
                pace.begin_epoch(self.step)
                for images, labels in self._batches():
                    self._train_step(images.to(self.device), labels.to(self.device))
                    last = self.step == self.steps
                    ended = last or self.step % self.steps_per_epoch == 0
                    if not (ended or meetings.due(self.step, stop)):
                        continue
                    decision = meetings.hold(self.step, stop=stop())
                    if decision.first_bad != NEVER:
                        raise ArithmeticError(self._trouble("the loss is", decision.first_bad))
                    rate, left = pace.read(self.step)
                    if self.ranks.first:
                        watch(self._standing(decision, rate, left))
                    if ended:
                        progress = self._end_epoch(decision, rate, pace.start_up)
                        if self.ranks.first:
                            write_log(self.log, progress)
                            report(progress)
                    if decision.stop or decision.save:
                        self.save()
                    if decision.stop:
                        self.ranks.wait()
                        raise Interrupted
                    if last:
                        break
        self._check_weights()
        if self.average:
            self.average.hand_over()
        self.model.eval()

    def save(self) -> None:
        """Write the whole state to the checkpoint; a state with NaN or infinity is refused."""
        self._check_weights()
        if not self.ranks.first:
            return
        tensors = {OF_MODEL + name: tensor for name, tensor in self.model.state_dict().items()}
        tensors |= {f"optimizer/{name}": tensor for name, tensor in optimizer_tensors(self.optimizers).items()}
        if self.average:
            tensors |= {f"average/{name}": tensor for name, tensor in self.average.averaged.state_dict().items()}
        tensors["totals"] = self.tally.totals
        save_tensors(self.checkpoint, tensors, {"identity": self.identity, "step": self.step, "seconds": self.seconds})

    def _resume(self) -> None:
        tensors, about = load_tensors(self.checkpoint)
        if about.get("identity") != self.identity:
            raise CheckpointError(
                f"{self.checkpoint} belongs to another recipe; choose another folder, or remove that file"
            )
        load_model(self.model, under(tensors, OF_MODEL), self.checkpoint)
        load_optimizers(self.optimizers, under(tensors, "optimizer/"))
        if self.average:
            self.average.averaged.load_state_dict(under(tensors, "average/"))
        self.tally.put(*tensors["totals"].tolist())
        self.step = about["step"]
        self._seconds = about.get("seconds", 0.0)

    def _batches(self) -> Iterator[Labelled]:
        epoch, done = divmod(self.step, self.steps_per_epoch)
        return self.benchmark.train_batches(
            epoch, seed=self.seed, batch_size=self.settings.batch_size, start=done, rows=self.ranks.rows
        )

    def _prepare(self) -> None:
        """Build the step for the parts that are trained from now on."""
        steps = self.steps - self.step
        model, kind = fastest(self.model, self.precision, steps=steps, alone=self.ranks.size == 1)
        self.objective = Objective(model, self.precision, self.settings, norm=self.norm)
        shared = self.ranks.wrap(self.objective, self.settings)
        self.stepper = kind(shared, self.optimizers, accumulate=self.settings.accumulate)

    def _train_step(self, images: Tensor, labels: Tensor) -> None:
        generator = torch.Generator(self.device).manual_seed(step_seed(self.seed, self.step))
        # dropout uses the global generator, and differs between ranks
        torch.manual_seed(step_seed(self.seed, self.step, purpose=1, rank=self.ranks.rank))
        self.objective.warm_up(self.step // self.steps_per_epoch)
        loss, accuracy = self.stepper(images, labels, self.ranks.noise(generator), self._rates(self.step))
        if self.average:
            self.average.update()
        self.step += 1
        self.tally.add(loss, accuracy, step=self.step)

    def _position(self, step: int) -> tuple[int, int]:
        """The epoch that a step belongs to, and its number within it; both counted from 1."""
        epoch, before = divmod(step - 1, self.steps_per_epoch)
        return epoch + 1, before + 1

    def _standing(self, decision: Decision, rate: float, seconds_left: float) -> Standing:
        epoch, steps = self._position(self.step)
        means = (decision.loss / steps, decision.accuracy / steps)
        return Standing(epoch, self.settings.epochs, self.step, self.steps, *means, rate, seconds_left)

    def _end_epoch(self, decision: Decision, rate: float, start_up: float | None) -> Progress:
        """The progress at the end of an epoch; all processes get the first one's validation, and stop if it is NaN."""
        epoch, steps = self._position(self.step)
        means = (decision.loss / steps, decision.accuracy / steps)
        correct, openness = self.ranks.gather(self._validate() if self.ranks.first else (0.0, 0.0))[0]
        if math.isnan(openness):
            raise ArithmeticError(self._trouble("the mask is", self.step))
        self.tally.put(0.0, 0.0)
        share = first_share(self.evaluated.mechanism.sigmas)
        cut = steps if steps < self.steps_per_epoch else None
        return Progress(epoch, self.settings.epochs, *means, correct, openness, share, rate, start_up, cut)

    def _validate(self) -> tuple[float, float]:
        """Validate with the same noise after every epoch."""
        generator = torch.Generator(self.device).manual_seed(step_seed(self.seed, 0, purpose=2))
        return validate(
            self.evaluated, self.benchmark, generator, batch_size=self.settings.batch_size, precision=self.precision
        )

    def _check_weights(self) -> None:
        """Refuse non-finite weights; the last loss is from before the last update, so it does not show them."""
        if not bool(torch.stack([weight.isfinite().all() for weight in self.model.parameters()]).all()):
            raise ArithmeticError(self._trouble("the weights are", self.step))

    def _trouble(self, what: str, step: int) -> str:
        epoch, batch = self._position(step)
        rates = " and ".join(f"{rate:g} for the {name}" for name, rate in self._rates(step - 1).items())
        kept = (
            f"; the last good checkpoint is kept: start from its classifier with "
            f"--classifier.from_run {shlex.quote(str(self.checkpoint.parent))}"
        )
        return (
            f"{what} no longer a number at step {step} (epoch {epoch}, batch {batch} of "
            f"{self.steps_per_epoch}), with learning rates of {rates}; lower them and train again into another folder"
            f"{kept if self.checkpoint.exists() else ''}"
        )

    def _rates(self, step: int) -> dict[str, float]:
        """The learning rate of each optimiser after so many steps."""
        return {
            name: settings_of(self.settings, name).lr
            * self.settings.factor(name, step, steps_per_epoch=self.steps_per_epoch)
            for name in self.optimizers
        }


def step_seed(seed: int, step: int, *, purpose: int = 0, rank: int = 0) -> int:
    """The seed of one step's noise (purpose 0), of one rank's dropout (1) or of validation (2).

    The last word keeps these seeds distinct from those of a certification, which uses the words seed and index:
    SeedSequence ignores zeros at the end.
    """
    return int(np.random.SeedSequence([seed, step, purpose, rank, 1]).generate_state(1, np.uint32)[0])
