"""Networks are in eval mode while they vote, and only then."""

from threading import Thread

import pytest
import torch
from torch import nn

from ars import certify, cohen
from ars.certification.evaluating import evaluating


def test_modules_go_back_to_their_own_modes():
    net = nn.Sequential(nn.BatchNorm2d(3), nn.Dropout())
    net[1].eval()
    with evaluating(net):
        assert not any(module.training for module in net.modules())
    assert [module.training for module in net.modules()] == [True, True, False]


def test_another_thread_waits_and_does_not_bring_train_mode_back():
    net, entered = nn.Dropout(), []

    def enter():
        with evaluating(net):
            entered.append(net.training)

    other = Thread(target=enter)
    with evaluating(net):
        other.start()
        other.join(timeout=0.2)
        assert not entered
        assert not net.training
    other.join(timeout=10)
    assert entered == [False]
    assert net.training


def test_what_torch_jit_has_frozen_is_certified_as_it_is():
    net = nn.Sequential(nn.Flatten(), nn.Linear(12, 3)).eval()
    frozen, x = torch.jit.freeze(torch.jit.script(net)), torch.rand(3, 2, 2)
    votes = [certify(cohen(it, sigma=0.5), x, n_estimate=200, seed=0).counts for it in (net, frozen)]
    assert votes[0] == votes[1]


def test_what_refuses_eval_mode_is_told_and_the_others_go_back():
    class Exported(nn.Module):
        def train(self, mode=True):
            raise NotImplementedError("Calling train() is not supported yet.")

    net = nn.Sequential(nn.Dropout(), Exported())
    with (
        pytest.raises(ValueError, match=r"cannot be brought to eval mode \(Calling train.*give the module that it was"),
        evaluating(net),
    ):
        pass
    assert net[0].training
