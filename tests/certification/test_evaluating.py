"""Networks are in eval mode while they vote, and only then."""

from threading import Thread

from torch import nn

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
