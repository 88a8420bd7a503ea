import pytest
import torch
from torch.nn import functional as F
from torch.utils._python_dispatch import TorchDispatchMode

from ars.smoothing.mechanism import Release
from ars.training.loss import Objective, consistency_loss, log_mean_prediction, mean_square, smoothed_loss
from ars.training.optimizers import make_optimizers
from ars.training.settings import Consistency, MaskPrior, SmoothAdv

from .tiny import METHODS, PLAIN, batch, equal, make_model, settings, state, train

CONSISTENCY = Consistency(weight=5.0)
SMOOTHADV = SmoothAdv(epsilon=0.05, steps=2, warmup=4)


def count_calls(module):
    calls = []
    module.register_forward_pre_hook(lambda it, inputs: calls.append((it.training, len(inputs[0]))))
    return calls


@pytest.mark.parametrize("method", METHODS)
def test_with_everything_off_it_is_plain_training_to_the_bit(method):
    """Against the loop as one would write it by hand."""
    model = make_model(method).train()
    optimizers = make_optimizers(model, PLAIN)
    torch.manual_seed(1)
    for step in range(3):
        images, labels = batch(step)
        for optimizer in optimizers.values():
            optimizer.zero_grad()
        F.cross_entropy(model(images, torch.Generator().manual_seed(step)), labels).backward()
        for optimizer in optimizers.values():
            optimizer.step()
    off = settings(
        consistency=Consistency(weight=0.0, entropy=9.0),
        smoothadv=SmoothAdv(epsilon=0.0, steps=99),
        mask_prior=MaskPrior(weight=0.0),
        ema=0.0,
    )
    assert equal(state(train(make_model(method), off, steps=3)), state(model))


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("everything", [False, True])
def test_combinations_train_every_method(method, everything):
    masked = method in ("adaptive", "static_mask")
    prior = MaskPrior(weight=0.1 if everything and masked else 0.0)
    chosen = settings(
        draws=2,
        consistency=CONSISTENCY,
        smoothadv=SMOOTHADV if everything else SmoothAdv(),
        mask_prior=prior,
        accumulate=2 if everything else 1,
    )
    model = make_model(method, share="learned" if everything else 0.5)
    before = state(model)
    after = state(train(model, chosen, steps=2))
    moved = [name for name in before if not torch.equal(before[name], after[name])]
    assert {name for name, _ in model.named_parameters()} <= set(moved)


def test_consistency_has_both_weights_of_the_recipe_and_nothing_changes_without():
    """All draws of an image answer for its own label: against the answers to the batch, shown three times."""
    model, (images, labels) = make_model("cohen").eval(), batch(0)
    logits, answers = model(torch.cat([images] * 3), torch.Generator().manual_seed(0)), torch.cat([labels] * 3)
    for weight, entropy in ((0.0, 9.0), (3.0, 2.0)):
        chosen = settings(draws=3, consistency=Consistency(weight=weight, entropy=entropy))
        loss, accuracy = Objective(model, "float32", chosen)(images, labels, torch.Generator().manual_seed(0))
        added = consistency_loss(logits.unflatten(0, (3, -1)), weight=weight, entropy=entropy) if weight else 0
        torch.testing.assert_close(loss, F.cross_entropy(logits, answers) + added)
        torch.testing.assert_close(accuracy, (logits.argmax(dim=1) == answers).float().mean())


def test_the_prior_pulls_on_the_mask_alone_with_its_weight():
    model, (images, labels) = make_model("adaptive").eval(), batch(0)
    chosen = settings(mask_prior=MaskPrior(weight=0.3))
    loss, _ = Objective(model, "float32", chosen)(images, labels, torch.Generator().manual_seed(0))
    (_, masked), average = model.stages(images, torch.Generator().manual_seed(0))
    expected = F.cross_entropy(model.classifier(average), labels) + 0.3 * masked.weight.square().mean()
    torch.testing.assert_close(loss, expected)


class NoWaiting(TorchDispatchMode):
    """Refuses what brings a number to the host."""

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        assert function is not torch.ops.aten._local_scalar_dense.default, "this waits for the device"
        return function(*args, **(kwargs or {}))


@pytest.mark.parametrize("method", METHODS)
def test_nothing_waits_for_the_device(method):
    prior = MaskPrior(weight=0.1 if method in ("adaptive", "static_mask") else 0.0)
    chosen = settings(draws=2, consistency=CONSISTENCY, smoothadv=SMOOTHADV, mask_prior=prior)
    objective = Objective(make_model(method, share="learned").train(), "float32", chosen)
    images, labels = batch(0)
    with NoWaiting():
        objective.warm_up(1)
        loss, _ = objective(images, labels, torch.Generator().manual_seed(0))
        loss.backward()
    with NoWaiting(), pytest.raises(AssertionError, match="waits"):
        loss.item()


def test_smoothadv_attacks_in_eval_mode_and_updates_the_statistics_once():
    model = make_model("adaptive").train()
    model.classifier[1].eval()  # a frozen part stays as it is
    calls, masks = count_calls(model.classifier), count_calls(model.mechanism.steps[1].mask)
    chosen = settings(draws=3, smoothadv=SMOOTHADV)
    images, labels = batch(0)
    loss, _ = Objective(model, "float32", chosen)(images, labels, torch.Generator().manual_seed(0))
    assert calls == masks == [(False, 96), (False, 96), (True, 96)]
    assert not model.classifier[1].training
    norms = [part for part in model.mechanism.modules() if isinstance(part, torch.nn.BatchNorm2d)]
    assert {int(part.num_batches_tracked) for part in norms} == {1}
    assert all(parameter.grad is None for parameter in model.parameters())
    loss.backward()
    assert all(parameter.grad is not None for parameter in model.classifier.parameters())


@pytest.mark.parametrize("method", METHODS)
def test_the_attack_and_the_training_see_the_same_draws(method):
    model = make_model(method).eval()
    seen = []
    model.classifier.register_forward_pre_hook(lambda it, inputs: seen.append(inputs[0].detach()))
    chosen = settings(draws=2, smoothadv=SmoothAdv(epsilon=1e-30, steps=2, warmup=0))
    images, labels = batch(0)
    Objective(model, "float32", chosen)(images, labels, torch.Generator().manual_seed(0))
    assert len(seen) == 3
    assert torch.equal(seen[0], seen[1])
    assert torch.equal(seen[0], seen[2])
    assert not torch.equal(seen[0][:32], seen[0][32:])  # and two draws differ


def test_epsilon_warms_up_on_the_device_changes_the_step_and_is_no_part_of_the_state():
    images, labels = batch(0)
    chosen = settings(smoothadv=SmoothAdv(epsilon=0.3, steps=2, warmup=4))
    objective, values, losses = Objective(make_model("cohen"), "float32", chosen), [], []
    where = objective.epsilon.data_ptr()
    for epoch in (0, 1, 3, 8):
        objective.warm_up(epoch)
        values.append(float(objective.epsilon))
        losses.append(float(objective(images, labels, torch.Generator().manual_seed(0))[0].detach()))
    assert values == pytest.approx([0.075, 0.15, 0.3, 0.3])
    assert losses[2] > losses[0] * 1.05
    assert objective.epsilon.data_ptr() == where  # what a captured graph reads
    assert "epsilon" not in objective.state_dict()


def test_a_mask_prior_without_a_mask_is_refused():
    with pytest.raises(ValueError, match="mask_prior"):
        Objective(make_model("cohen"), "float32", settings(mask_prior=MaskPrior(weight=1.0)))


LOGITS = 3 * torch.randn(3, 5, 4, generator=torch.Generator().manual_seed(0))


def test_the_consistency_loss_is_the_papers():
    """10 mean_i KL(F^ || F_i) + 0.5 H(F^), in float64."""
    each = LOGITS.double().softmax(dim=-1)
    mean = each.mean(dim=0)
    disagreement = (mean * (mean / each).log()).sum(dim=-1).mean()
    entropy = -(mean * mean.log()).sum(dim=-1).mean()
    expected = float(10 * disagreement + 0.5 * entropy)
    assert float(consistency_loss(LOGITS, weight=10, entropy=0.5)) == pytest.approx(expected, rel=1e-5)


def test_sure_and_opposite_draws_have_a_finite_loss_and_gradient():
    logits = torch.tensor([[[1e4, -1e4]], [[-1e4, 1e4]]], requires_grad=True)
    loss = consistency_loss(logits, weight=1, entropy=1)
    loss.backward()
    assert loss.isfinite()
    assert logits.grad.isfinite().all()


def test_the_smoothed_loss_is_of_the_mean_probability():
    labels = torch.tensor([0, 1, 2, 3, 0])
    mean = LOGITS.double().softmax(dim=-1).mean(dim=0)
    assert torch.allclose(log_mean_prediction(LOGITS).double(), mean.log(), atol=1e-5)
    expected = -mean[torch.arange(5), labels].log().sum()
    assert float(smoothed_loss(LOGITS, labels)) == pytest.approx(float(expected), rel=1e-5)


def test_the_mean_square_counts_pixels_and_steps_alike():
    one = torch.ones(1, 1, 1, 1)
    halves, ones = Release(one, 0.5 * torch.ones(2, 1, 4, 4), one), Release(one, torch.ones(2, 3, 4, 4), one)
    assert float(mean_square([halves])) == 0.25
    assert float(mean_square([halves, ones])) == (0.25 + 1) / 2
