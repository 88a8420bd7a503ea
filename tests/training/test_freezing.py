import dataclasses

import pytest
import torch
from torch import nn

from ars.training.loop import Interrupted

from .conftest import RECIPE

ALONE = dataclasses.replace(RECIPE, train=dataclasses.replace(RECIPE.train, mask_only_epochs=1))


def state(module):
    return {name: tensor.clone() for name, tensor in module.state_dict().items()}


def equal(a, b):
    return a.keys() == b.keys() and all(torch.equal(a[name], b[name]) for name in a)


def mask_of(trainer):
    return trainer.model.mechanism.steps[1].mask


def test_every_tensor_of_a_frozen_classifier_stays_bit_for_bit_while_the_mask_learns(make_trainer, tmp_path):
    trainer = make_trainer(tmp_path / "run", frozen=True)
    classifier = trainer.model.classifier
    assert any(isinstance(module, nn.BatchNorm2d) for module in classifier.modules())
    before, mask_before, modes = state(classifier), state(mask_of(trainer)), []
    classifier.register_forward_pre_hook(lambda module, inputs: modes.append(module.training))
    trainer.run()
    assert equal(before, state(classifier))
    assert not any(modes)
    assert "classifier" not in trainer.optimizers
    after = state(mask_of(trainer))
    learned = [name for name, _ in mask_of(trainer).named_parameters()]
    assert learned
    assert not any(torch.equal(mask_before[name], after[name]) for name in learned)


def test_dropout_of_a_frozen_classifier_is_off_and_that_of_the_mask_on(make_trainer, tmp_path):
    trainer = make_trainer(tmp_path / "run", frozen=True)
    trainer.model.classifier.append(nn.Dropout(0.5))
    trainer.modes.set(0)
    assert not trainer.model.classifier[-1].training
    assert all(module.training for module in mask_of(trainer).modules())


def test_mask_only_epochs_train_the_mask_first_and_then_both(make_trainer, tmp_path):
    trainer = make_trainer(tmp_path / "run", ALONE)
    seen = {0: (state(trainer.model.classifier), state(mask_of(trainer)))}
    trainer.run(report=lambda at: seen.update({at.epoch: (state(trainer.model.classifier), state(mask_of(trainer)))}))
    assert equal(seen[0][0], seen[1][0])
    assert not equal(seen[0][1], seen[1][1])
    assert not any(torch.equal(a, seen[2][0][name]) for name, a in seen[1][0].items() if not name.startswith("0."))
    assert not equal(seen[1][1], seen[2][1])


def test_an_interruption_within_the_mask_only_epochs_changes_nothing(make_trainer, tmp_path):
    whole = make_trainer(tmp_path / "whole", ALONE)
    whole.run()
    broken = make_trainer(tmp_path / "broken", ALONE)
    with pytest.raises(Interrupted):
        broken.run(stop=lambda: broken.step == 2)
    resumed = make_trainer(tmp_path / "broken", ALONE)
    resumed.run()
    assert equal(state(whole.model), state(resumed.model))


def test_max_steps_ends_training_early(make_trainer, tmp_path):
    recipe = dataclasses.replace(RECIPE, train=dataclasses.replace(RECIPE.train, max_steps=7))
    trainer, standings = make_trainer(tmp_path / "run", recipe), []
    trainer.run(watch=standings.append)
    assert standings[-1].steps == trainer.steps == trainer.step == 7
    assert not trainer.model.training
