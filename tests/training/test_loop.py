import dataclasses
import json

import pytest
import torch
from torch import nn

from ars.recipes.build import build_model
from ars.tensors import CheckpointError, load_tensors
from ars.training import loop
from ars.training.loop import IMAGES, validate
from ars.training.loss import Objective
from ars.training.progress import first_share
from ars.training.settings import Consistency, MaskPrior, Optimizer, Schedule, SmoothAdv

from .conftest import RECIPE, interrupt, training
from .tiny import equal, state


def log(trainer):
    """The lines of train.jsonl without what a clock says."""
    lines = [json.loads(line) for line in trainer.log.read_text().splitlines()]
    timed = ("images_a_second", "start_up_seconds")
    return [{key: line[key] for key in line if key not in timed} for line in lines]


@pytest.mark.parametrize(
    ("recipe", "stops"), [(RECIPE, (1, 5)), (training(mask_only_epochs=1), (2,))], ids=["both", "the mask first"]
)
def test_an_interrupted_run_ends_in_the_same_weights_and_the_same_log(make_trainer, tmp_path, recipe, stops):
    """And the global generator neither matters nor moves."""
    whole = make_trainer(tmp_path / "whole", recipe)
    whole.run()
    for stop_at in stops:
        interrupt(make_trainer(tmp_path / f"broken-{stop_at}", recipe), stop_at)
        resumed = make_trainer(tmp_path / f"broken-{stop_at}", recipe)
        assert resumed.step == stop_at
        torch.manual_seed(999)
        expected = torch.rand(4)
        torch.manual_seed(999)
        resumed.run()
        assert torch.equal(torch.rand(4), expected)
        assert equal(state(whole.model), state(resumed.model))
        assert log(whole) == log(resumed)
    assert [line["epoch"] for line in log(whole)] == [1, 2]


def test_an_epoch_that_is_cut_short_is_reported_with_the_steps_it_had(make_trainer, tmp_path):
    recipe, seen = training(max_steps=7), []
    whole, longer = make_trainer(tmp_path / "whole", recipe), make_trainer(tmp_path / "longer")
    whole.run(report=seen.append)
    assert whole.step == whole.steps == 7
    assert not whole.model.training
    interrupt(longer, 7)
    assert [(at.epoch, at.steps) for at in seen] == [(1, None), (2, 2)]
    sums = load_tensors(longer.checkpoint)[0]["totals"].tolist()
    assert [2 * seen[-1].loss, 2 * seen[-1].accuracy] == pytest.approx(sums)
    assert seen[-1].validation_accuracy == whole._validate()[0]

    interrupt(make_trainer(tmp_path / "broken", recipe), 6)
    resumed = make_trainer(tmp_path / "broken", recipe)
    resumed.run()
    assert equal(state(whole.model), state(resumed.model))
    assert log(whole) == log(resumed)


SHORT = training(epochs=1, batch_size=256)
AVERAGING = training(epochs=1, batch_size=256, ema=0.8)
EVERYTHING = dataclasses.replace(
    training(
        batch_size=32,
        draws=2,
        accumulate=2,
        ema=0.9,
        consistency=Consistency(weight=2.0),
        smoothadv=SmoothAdv(epsilon=0.02, steps=1, warmup=4),
        mask_prior=MaskPrior(weight=0.1),
    ),
    share="learned",
)


def test_a_run_with_everything_on_resumes_to_the_same_state(make_trainer, tmp_path):
    def run(folder, *, until):
        trainer = make_trainer(tmp_path / folder, EVERYTHING)
        interrupt(trainer, until)
        assert float(trainer.objective.epsilon) == pytest.approx(0.02 / 4)  # the first of four epochs of warm-up
        return load_tensors(trainer.checkpoint)[0]

    whole = run("whole", until=4)
    first = run("broken", until=2)
    resumed = run("broken", until=4)
    assert equal(whole, resumed)
    assert (int(first["average/n_averaged"]), int(whole["average/n_averaged"])) == (2, 4)


def test_the_average_is_what_is_validated_and_kept(make_trainer, tmp_path):
    plain = make_trainer(tmp_path / "plain", SHORT)
    averaged = make_trainer(tmp_path / "averaged", AVERAGING)
    expected, seen = None, []

    def follow():  # asked after every step whether to stop
        nonlocal expected
        if plain.step == len(seen):
            return False
        seen.append(plain.step)
        now = [parameter.detach().clone() for parameter in plain.model.parameters()]
        expected = now if expected is None else [0.8 * a + 0.2 * b for a, b in zip(expected, now, strict=True)]
        return False

    plain.run(stop=follow)
    averaged.run()
    for parameter, wanted in zip(averaged.model.parameters(), expected, strict=True):
        assert torch.allclose(parameter, wanted, rtol=1e-4, atol=1e-6)
    again, _ = averaged._validate()
    log = (tmp_path / "averaged" / "train.jsonl").read_text().splitlines()
    assert again == json.loads(log[-1])["validation_accuracy"]
    broken = make_trainer(tmp_path / "broken", AVERAGING)
    interrupt(broken, broken.steps)  # also where it was stopped after the last step
    resumed = make_trainer(tmp_path / "broken", AVERAGING)
    resumed.run()
    assert equal(state(averaged.model), state(resumed.model))


@pytest.mark.parametrize(("changes", "share"), [({"share": 0.3}, 0.3), ({"method": "cohen"}, None)])
def test_the_log_names_the_share_of_the_first_step(make_trainer, tmp_path, changes, share):
    seen = []
    make_trainer(tmp_path / "run", dataclasses.replace(SHORT, **changes)).run(report=seen.append)
    assert [progress.share for progress in seen] == [share]


def test_a_learned_share_in_the_log_is_that_of_the_average_which_is_kept(make_trainer, tmp_path):
    trainer, seen = make_trainer(tmp_path / "run", dataclasses.replace(AVERAGING, share="learned")), []
    trainer.run(report=seen.append)
    assert seen[-1].share == first_share(trainer.model.mechanism.sigmas) != 0.5


def test_validation_has_the_same_noise_after_every_epoch_and_none_of_training(make_trainer, tmp_path, monkeypatch):
    seeds = []

    def watched(model, benchmark, generator, **how):
        seeds.append(generator.initial_seed())
        return 0.5, 0.5

    monkeypatch.setattr(loop, "validate", watched)
    trainer = make_trainer(tmp_path / "run")
    for trainer.step in (5, 10):
        trainer._validate()
    assert seeds == [loop.step_seed(RECIPE.seed, 0, purpose=2)] * 2
    assert seeds[0] not in [loop.step_seed(RECIPE.seed, step) for step in range(trainer.steps)]


@pytest.fixture
def steps(monkeypatch):
    """What every step is called with, instead of the step: its seeds and labels; all losses are 2."""
    seen = []

    def step(stepper, images, labels, generator, rates):
        seen.append((generator.initial_seed(), torch.initial_seed(), tuple(labels.tolist())))
        return torch.tensor(2.0), torch.tensor(0.25)

    monkeypatch.setattr("ars.training.step.Stepper.__call__", step)
    return seen


def test_every_step_has_noise_and_dropout_of_its_own(make_trainer, tmp_path, steps):
    make_trainer(tmp_path / "run").run()
    seeds = [seed for noise, dropout, _ in steps for seed in (noise, dropout)]
    assert len(set(seeds)) == len(seeds) == 20


def test_another_seed_shows_the_images_in_another_order(make_trainer, tmp_path, steps):
    for seed in (0, 0, 1):
        make_trainer(tmp_path / "run", dataclasses.replace(SHORT, seed=seed), "any").run()
    one, again, other = ([labels for *_, labels in steps[at : at + 2]] for at in (0, 2, 4))
    assert one == again != other


def test_a_batch_goes_through_in_as_many_parts_as_the_recipe_says(make_trainer, tmp_path, monkeypatch):
    sizes, real = [], Objective.forward

    def watched(objective, images, *others):
        sizes.append(len(images))
        return real(objective, images, *others)

    monkeypatch.setattr(Objective, "forward", watched)
    make_trainer(tmp_path / "run", training(accumulate=4, max_steps=1)).run()
    assert sizes == 4 * [32]


def test_mask_and_classifier_have_learning_rates_of_their_own(make_trainer, tmp_path):
    halving = Schedule(name="steps", every=1, factor=0.5)
    rates = {"classifier": Optimizer(lr=0.2), "mask": Optimizer(lr=0.3)}
    recipe = training(schedule=Schedule("steps"), mask_schedule=halving, **rates)
    assert make_trainer(tmp_path / "run", recipe)._rates(7) == {"classifier": 0.2, "mask": 0.15}


def test_a_loss_that_is_no_number_stops_and_keeps_the_last_good_checkpoint(make_trainer, tmp_path):
    trainer = make_trainer(tmp_path / "run")
    interrupt(trainer, 2)
    good = trainer.checkpoint.read_bytes()
    resumed = make_trainer(tmp_path / "run")
    with torch.no_grad():
        next(resumed.model.classifier.parameters()).fill_(float("nan"))
    with pytest.raises(ArithmeticError, match=f"from_run {tmp_path / 'run'}"):
        resumed.run()
    assert trainer.checkpoint.read_bytes() == good


def poison(benchmark, *, epoch, batch):
    """The benchmark with one batch of no numbers."""

    class Poisoned:
        def __getattr__(self, name):
            return getattr(benchmark, name)

        def train_batches(self, at, *, start=0, **options):
            for number, (images, labels) in enumerate(benchmark.train_batches(at, start=start, **options), start):
                yield images * float("nan") if (at, number) == (epoch, batch) else images, labels

    return Poisoned()


@pytest.mark.parametrize(("epoch", "batch"), [(0, 0), (0, 1), (0, 4), (1, 1)])
def test_the_first_bad_batch_is_named_whenever_it_is_noticed(make_trainer, tmp_path, epoch, batch):
    trainer = make_trainer(tmp_path / "run")
    trainer.benchmark = poison(trainer.benchmark, epoch=epoch, batch=batch)
    step = 5 * epoch + batch
    rate = trainer._rates(step)["mask"]
    where = rf"the loss is .* step {step + 1} \(epoch {epoch + 1}, batch {batch + 1} of 5\).* {rate:g} for the mask"
    with pytest.raises(ArithmeticError, match=where):
        trainer.run()
    assert not trainer.checkpoint.exists()


def test_weights_that_are_no_numbers_are_never_saved(make_trainer, tmp_path):
    trainer = make_trainer(tmp_path / "run")
    with torch.no_grad():
        next(trainer.model.classifier.parameters()).fill_(float("inf"))
    trainer.step = 3
    with pytest.raises(ArithmeticError, match=r"weights .* step 3"):
        trainer.save()
    assert not trainer.checkpoint.exists()


def test_weights_that_are_no_numbers_after_the_last_step_are_not_kept(make_trainer, tmp_path, steps):
    trainer = make_trainer(tmp_path / "run", SHORT)

    def spoil(at):
        if at.step == at.steps:
            next(trainer.model.classifier.parameters()).data.fill_(torch.inf)

    with pytest.raises(ArithmeticError, match=r"weights .* step 2 "):
        trainer.run(watch=spoil)


def test_a_mask_of_no_numbers_after_the_last_update_of_an_epoch_is_laid_to_the_learning_rates(make_trainer, tmp_path):
    wild = Optimizer(name="sgd", lr=1e38)
    trainer = make_trainer(tmp_path / "run", training(epochs=1, batch_size=512, classifier=wild, mask=wild))
    with pytest.raises(ArithmeticError, match=r"mask .* step 1 "):
        trainer.run()
    assert not trainer.log.exists()


class Fault(nn.Module):
    """A mask that goes wrong outside training."""

    def __init__(self, mask, fault):
        super().__init__()
        self.mask, self.fault = mask, fault

    def forward(self, x):
        return self.mask(x) if self.training else self.fault(self.mask(x))


@pytest.mark.parametrize(
    ("fault", "named"),
    [(lambda mask: 3 + mask, r"mask must lie in \[0, 1\]"), (lambda mask: mask[..., 1:], "mask must give")],
)
def test_what_else_is_wrong_with_a_mask_in_validation_is_said_as_it_is(make_trainer, tmp_path, fault, named):
    trainer = make_trainer(tmp_path / "run")
    masked = trainer.model.mechanism.steps[-1]
    masked.mask = Fault(masked.mask, fault)
    with pytest.raises(ValueError, match=named):
        trainer.run()


def test_progress_is_told_between_epochs_with_the_means_of_the_epoch_so_far(make_trainer, tmp_path, steps):
    seen, epochs = [], []
    make_trainer(tmp_path / "run").run(watch=seen.append, report=epochs.append)
    assert [seen[0].step, seen[-1].step] == [1, 10]
    assert {at.epoch for at in seen} == {1, 2}
    assert {(at.loss, at.accuracy) for at in [*seen, *epochs]} == {(2.0, 0.25)}
    assert all(at.images_a_second > 0 for at in seen)
    assert seen[-1].seconds_left == 0 < seen[0].seconds_left


def test_a_checkpoint_of_another_recipe_or_a_damaged_one_is_refused(make_trainer, tmp_path):
    trainer = make_trainer(tmp_path / "run")
    interrupt(trainer, 1)
    with pytest.raises(CheckpointError, match="another recipe"):
        make_trainer(tmp_path / "run", identity="something else")
    trainer.checkpoint.write_bytes(trainer.checkpoint.read_bytes()[:-100])
    with pytest.raises(CheckpointError, match="damaged"):
        make_trainer(tmp_path / "run")


def test_a_batch_larger_than_the_training_set_is_refused(make_trainer, tmp_path):
    with pytest.raises(ValueError, match="640"):
        make_trainer(tmp_path / "run", training(batch_size=100_000))


@pytest.mark.parametrize("batch_size", [64, 10_000])
def test_every_validation_image_counts_alike_and_is_answered_as_certification_will(digits, batch_size):
    """In eval mode; against the answers and the masks of all images, one after another."""
    model, size = build_model(RECIPE, digits, torch.device("cpu")).train(), digits.size("validation")
    assert size <= IMAGES
    assert size % 64
    seen = validate(model, digits, torch.Generator().manual_seed(3), batch_size=batch_size, precision="float32")
    images, labels = digits.examples("validation", range(size))
    generator, right, squares = torch.Generator().manual_seed(3), [], []
    with torch.no_grad():
        for some, answers in zip(images.split(batch_size), labels.split(batch_size), strict=True):
            releases, average = model.eval().stages(some, generator)
            right += (model.classifier(average).argmax(dim=1) == answers).tolist()
            squares += releases[-1].weight.square().mean(dim=(1, 2, 3)).tolist()
    assert seen == (sum(right) / size, pytest.approx(sum(squares) / size, rel=1e-5))
