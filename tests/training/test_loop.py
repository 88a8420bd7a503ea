import dataclasses
import json

import pytest
import torch
from torch import nn

from ars.certification.writing import WriteError
from ars.training import loop
from ars.training.checkpoint import CheckpointError, load_tensors
from ars.training.loop import Interrupted
from ars.training.objective import Objective
from ars.training.progress import Progress, first_share, write_log
from ars.training.settings import Consistency, MaskPrior, Optimizer, SmoothAdv, TrainSettings

from .conftest import RECIPE


def weights(trainer):
    return {name: tensor.clone() for name, tensor in trainer.model.state_dict().items()}


def equal(a, b):
    return all(torch.equal(a[name], b[name]) for name in a)


@pytest.mark.parametrize("stop_at", [1, 5, *(pytest.param(step, marks=pytest.mark.slow) for step in (4, 9))])
def test_an_interrupted_run_ends_in_the_same_weights_and_the_same_log(make_trainer, tmp_path, stop_at):
    whole = make_trainer(tmp_path / "whole")
    whole.run()
    broken = make_trainer(tmp_path / "broken")
    with pytest.raises(Interrupted):
        broken.run(stop=lambda: broken.step == stop_at)
    resumed = make_trainer(tmp_path / "broken")
    assert resumed.step == stop_at
    torch.manual_seed(999)  # the global generator must not matter
    resumed.run()
    assert equal(weights(whole), weights(resumed))
    assert log(whole) == log(resumed)
    assert [line["epoch"] for line in log(whole)] == [1, 2]


def log(trainer):
    """The lines of train.jsonl without what a clock says."""
    lines = [json.loads(line) for line in trainer.log.read_text().splitlines()]
    timed = ("images_a_second", "start_up_seconds")
    return [{key: line[key] for key in line if key not in timed} for line in lines]


@pytest.mark.parametrize(("max_steps", "stop_at"), [(2, 1), (2, 2), (7, 6)])
def test_an_epoch_that_is_cut_short_is_reported_with_the_steps_it_had(make_trainer, tmp_path, max_steps, stop_at):
    recipe = dataclasses.replace(RECIPE, train=dataclasses.replace(RECIPE.train, max_steps=max_steps))
    whole, longer, seen = make_trainer(tmp_path / "whole", recipe), make_trainer(tmp_path / "longer"), []
    whole.run(report=seen.append)
    with pytest.raises(Interrupted):
        longer.run(stop=lambda: longer.step == max_steps)
    epochs, steps = divmod(max_steps, whole.steps_per_epoch)
    assert [at.steps for at in seen] == [*[None] * epochs, steps]
    assert [at.epoch for at in seen] == list(range(1, epochs + 2))
    sums = load_tensors(longer.checkpoint)[0]["totals"].tolist()
    assert [steps * seen[-1].loss, steps * seen[-1].accuracy] == pytest.approx(sums)
    assert seen[-1].validation_accuracy == whole._validate()[0]

    broken = make_trainer(tmp_path / "broken", recipe)
    with pytest.raises(Interrupted):
        broken.run(stop=lambda: broken.step == stop_at)
    resumed = make_trainer(tmp_path / "broken", recipe)
    resumed.run()
    assert equal(weights(whole), weights(resumed))
    assert log(whole) == log(resumed)


SHORT = dataclasses.replace(RECIPE.train, epochs=1, batch_size=512)
AVERAGING = dataclasses.replace(RECIPE, train=dataclasses.replace(SHORT, ema=0.8))
EVERYTHING = dataclasses.replace(
    RECIPE,
    share="learned",
    train=dataclasses.replace(
        RECIPE.train,
        batch_size=32,
        draws=2,
        accumulate=2,
        ema=0.9,
        consistency=Consistency(weight=2.0),
        smoothadv=SmoothAdv(epsilon=0.02, steps=1, warmup=4),
        mask_prior=MaskPrior(weight=0.1),
    ),
)


def test_a_run_with_everything_on_resumes_to_the_same_state(make_trainer, tmp_path):
    def run(folder, *, until):
        trainer = make_trainer(tmp_path / folder, EVERYTHING)
        with pytest.raises(Interrupted):
            trainer.run(stop=lambda: trainer.step == until)
        assert float(trainer.objective.epsilon) == pytest.approx(0.02 / 4)  # the first of four epochs of warm-up
        return load_tensors(trainer.checkpoint)[0]

    whole = run("whole", until=4)
    first = run("broken", until=2)
    resumed = run("broken", until=4)
    assert equal(whole, resumed)
    assert (int(first["average/n_averaged"]), int(whole["average/n_averaged"])) == (2, 4)


def test_the_average_is_what_is_validated_and_kept(make_trainer, tmp_path):
    plain = make_trainer(tmp_path / "plain", dataclasses.replace(RECIPE, train=SHORT))
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
    with pytest.raises(Interrupted):  # also where it was stopped after the last step
        broken.run(stop=lambda: broken.step == broken.steps)
    resumed = make_trainer(tmp_path / "broken", AVERAGING)
    resumed.run()
    assert equal(weights(averaged), weights(resumed))


@pytest.mark.parametrize(("changes", "share"), [({"share": 0.3}, 0.3), ({"method": "cohen"}, None)])
def test_the_log_names_the_share_of_the_first_step(make_trainer, tmp_path, changes, share):
    seen = []
    make_trainer(tmp_path / "run", dataclasses.replace(RECIPE, train=SHORT, **changes)).run(report=seen.append)
    assert [progress.share for progress in seen] == [share]


def test_a_learned_share_in_the_log_is_that_of_the_average_which_is_kept(make_trainer, tmp_path):
    trainer, seen = make_trainer(tmp_path / "run", dataclasses.replace(AVERAGING, share="learned")), []
    trainer.run(report=seen.append)
    assert seen[-1].share == first_share(trainer.model.mechanism.sigmas) != 0.5


def test_training_leaves_the_global_generator_alone(make_trainer, tmp_path):
    torch.manual_seed(3)
    expected = torch.rand(4)
    torch.manual_seed(3)
    make_trainer(tmp_path / "run").run()
    assert torch.equal(torch.rand(4), expected)


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


def test_another_seed_gives_other_weights(make_trainer, tmp_path):
    one, other = make_trainer(tmp_path / "a"), make_trainer(tmp_path / "b", dataclasses.replace(RECIPE, seed=1))
    one.run()
    other.run()
    assert not equal(weights(one), weights(other))


@pytest.fixture
def steps(monkeypatch):
    """What every step is called with, instead of the step: its seeds and labels; all losses are 2."""
    seen = []

    def step(stepper, images, labels, generator, rates):
        seen.append((generator.initial_seed(), torch.initial_seed(), tuple(labels.tolist())))
        return torch.tensor(2.0), torch.tensor(0.25)

    monkeypatch.setattr("ars.training.stepping.Stepper.__call__", step)
    return seen


def test_every_step_has_noise_and_dropout_of_its_own(make_trainer, tmp_path, steps):
    make_trainer(tmp_path / "run").run()
    seeds = [seed for noise, dropout, _ in steps for seed in (noise, dropout)]
    assert len(set(seeds)) == len(seeds) == 20


def test_another_seed_shows_the_images_in_another_order(make_trainer, tmp_path, steps):
    for seed in (0, 0, 1):
        make_trainer(tmp_path / "run", dataclasses.replace(RECIPE, train=SHORT, seed=seed), "any").run()
    one, again, other = ([labels for *_, labels in steps[at : at + 2]] for at in (0, 2, 4))
    assert one == again != other


def test_what_is_told_between_steps_is_the_mean_of_the_epoch_so_far(make_trainer, tmp_path, steps):
    seen = []
    make_trainer(tmp_path / "run").run(watch=seen.append)
    assert len(seen) > 2
    assert {(at.loss, at.accuracy) for at in seen} == {(2.0, 0.25)}


def test_a_batch_goes_through_in_as_many_parts_as_the_recipe_says(make_trainer, tmp_path, monkeypatch):
    sizes, real = [], Objective.forward

    def watched(objective, images, *others):
        sizes.append(len(images))
        return real(objective, images, *others)

    monkeypatch.setattr(Objective, "forward", watched)
    settings = dataclasses.replace(RECIPE.train, accumulate=4, max_steps=1)
    make_trainer(tmp_path / "run", dataclasses.replace(RECIPE, train=settings)).run()
    assert sizes == 4 * [64]


def test_the_minutes_between_checkpoints_are_minutes(make_trainer, tmp_path, monkeypatch):
    handed = {}

    def meet(ranks, tally, **how):
        handed.update(how)
        raise Interrupted

    monkeypatch.setattr(loop, "Meetings", meet)
    settings = dataclasses.replace(RECIPE.train, checkpoint_minutes=2.5)
    with pytest.raises(Interrupted):
        make_trainer(tmp_path / "run", dataclasses.replace(RECIPE, train=settings)).run()
    assert handed == {"step": 0, "save_seconds": 150.0}


def test_mask_and_classifier_have_optimisers_of_their_own(make_trainer, tmp_path):
    settings = dataclasses.replace(RECIPE.train, mask=Optimizer(name="sgd", lr=1e-30, weight_decay=0.0))
    trainer = make_trainer(tmp_path / "run", dataclasses.replace(RECIPE, train=settings))
    mask = trainer.model.mechanism.steps[1].mask
    before = [parameter.clone() for parameter in mask.parameters()]
    classifier_before = [parameter.clone() for parameter in trainer.model.classifier.parameters()]
    trainer.run()
    assert all(torch.allclose(a, b, rtol=0, atol=1e-20) for a, b in zip(before, mask.parameters(), strict=True))
    assert not any(
        torch.equal(a, b) for a, b in zip(classifier_before, trainer.model.classifier.parameters(), strict=True)
    )


def test_the_mask_learns(make_trainer, tmp_path):
    trainer = make_trainer(tmp_path / "run")
    mask = trainer.model.mechanism.steps[1].mask
    before = [parameter.clone() for parameter in mask.parameters()]
    trainer.run()
    assert not any(torch.equal(a, b) for a, b in zip(before, mask.parameters(), strict=True))


def borrow(folder):
    return f"--classifier.from_run {folder / 'run'}"


def test_a_loss_that_is_no_number_stops_and_keeps_the_last_good_checkpoint(make_trainer, tmp_path):
    trainer = make_trainer(tmp_path / "run")
    with pytest.raises(Interrupted):
        trainer.run(stop=lambda: trainer.step == 2)
    good = (tmp_path / "run" / "checkpoint.safetensors").read_bytes()
    resumed = make_trainer(tmp_path / "run")
    with torch.no_grad():
        next(resumed.model.classifier.parameters()).fill_(float("nan"))
    with pytest.raises(ArithmeticError, match=r"no longer a number at step .* learning rates") as caught:
        resumed.run()
    assert str(caught.value).endswith(f"is kept, and its classifier can be started from with {borrow(tmp_path)}")
    assert (tmp_path / "run" / "checkpoint.safetensors").read_bytes() == good


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
    with pytest.raises(ArithmeticError, match=where) as caught:
        trainer.run()
    assert str(caught.value).endswith("lower them and train again into another folder")
    assert "checkpoint" not in str(caught.value)
    assert not (tmp_path / "run" / "checkpoint.safetensors").exists()


def test_weights_that_are_no_numbers_are_never_saved(make_trainer, tmp_path):
    trainer = make_trainer(tmp_path / "run")
    with torch.no_grad():
        next(trainer.model.classifier.parameters()).fill_(float("inf"))
    trainer.step = 3
    with pytest.raises(ArithmeticError, match="the weights are no longer a number at step 3"):
        trainer.save()
    assert not trainer.checkpoint.exists()


def test_weights_that_are_no_numbers_after_the_last_step_are_not_kept(make_trainer, tmp_path, steps):
    trainer = make_trainer(tmp_path / "run", dataclasses.replace(RECIPE, train=SHORT))

    def spoil(at):
        if at.step == at.steps:
            next(trainer.model.classifier.parameters()).data.fill_(torch.inf)

    with pytest.raises(ArithmeticError, match="the weights are no longer a number at step 2 "):
        trainer.run(watch=spoil)


def test_a_mask_of_no_numbers_after_the_last_update_of_an_epoch_is_laid_to_the_learning_rates(make_trainer, tmp_path):
    wild = Optimizer(name="sgd", lr=1e38)
    settings = dataclasses.replace(SHORT, batch_size=1024, classifier=wild, mask=wild)
    trainer = make_trainer(tmp_path / "run", dataclasses.replace(RECIPE, train=settings))
    with pytest.raises(ArithmeticError, match=r"the mask is no longer a number at step 1 .*lower them"):
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
    ("fault", "sentence"),
    [
        (lambda mask: 3 + mask, r"the mask must lie in \[0, 1\], got values from 3"),
        (lambda mask: mask[..., 1:], "the mask must give"),
    ],
)
def test_what_else_is_wrong_with_a_mask_in_validation_is_said_as_it_is(make_trainer, tmp_path, fault, sentence):
    trainer = make_trainer(tmp_path / "run")
    masked = trainer.model.mechanism.steps[-1]
    masked.mask = Fault(masked.mask, fault)
    with pytest.raises(ValueError, match=sentence):
        trainer.run()


def test_progress_is_told_between_epochs_and_agrees_with_the_log(make_trainer, tmp_path):
    trainer, seen, epochs = make_trainer(tmp_path / "run"), [], []
    trainer.run(watch=seen.append, report=epochs.append)
    assert [seen[0].step, seen[-1].step] == [1, 10]
    assert {at.epoch for at in seen} == {1, 2}
    last = [next(at for at in seen if at.step == 5 * epoch) for epoch in (1, 2)]
    assert [(at.loss, at.accuracy) for at in last] == [(at.loss, at.accuracy) for at in epochs]
    assert all(at.images_a_second > 0 for at in seen)
    assert seen[-1].seconds_left == 0 < seen[0].seconds_left


def test_the_log_has_one_line_of_an_epoch_that_was_done_again(tmp_path):
    """After a kill, training goes on from a checkpoint that is older than the log."""
    path = tmp_path / "train.jsonl"
    for epoch, loss in ((1, 2.3), (2, 2.2), (3, 2.1), (2, 2.0)):
        write_log(path, Progress(epoch, 3, loss, 0.1, 0.1, 0.25, 0.5, 100.0, None))
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    assert [(line["epoch"], line["loss"]) for line in lines] == [(1, 2.3), (2, 2.0)]


def test_a_log_that_cannot_be_written_keeps_its_lines(tmp_path, monkeypatch):
    path = tmp_path / "train.jsonl"
    progress = Progress(1, 2, 2.3, 0.1, 0.1, 0.25, 0.5, 100.0, None)
    write_log(path, progress)
    old = path.read_text()

    def full(*arguments):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.fsync", full)
    with pytest.raises(WriteError, match="No space left"):
        write_log(path, dataclasses.replace(progress, epoch=2))
    assert path.read_text() == old
    assert [item.name for item in tmp_path.iterdir()] == ["train.jsonl"]


def test_a_checkpoint_of_another_recipe_is_refused(make_trainer, tmp_path):
    trainer = make_trainer(tmp_path / "run")
    with pytest.raises(Interrupted):
        trainer.run(stop=lambda: True)
    with pytest.raises(CheckpointError, match="belongs to another recipe"):
        make_trainer(tmp_path / "run", identity="something else")


def test_a_truncated_checkpoint_is_refused(make_trainer, tmp_path):
    trainer = make_trainer(tmp_path / "run")
    with pytest.raises(Interrupted):
        trainer.run(stop=lambda: True)
    path = tmp_path / "run" / "checkpoint.safetensors"
    path.write_bytes(path.read_bytes()[:-100])
    with pytest.raises(CheckpointError, match="is damaged"):
        make_trainer(tmp_path / "run")


def test_a_batch_larger_than_the_training_set_is_refused(make_trainer, tmp_path):
    settings = TrainSettings(batch_size=100_000)
    with pytest.raises(ValueError, match="is above the 1297 training images"):
        make_trainer(tmp_path / "run", dataclasses.replace(RECIPE, train=settings))
