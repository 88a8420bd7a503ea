import pytest
from hypothesis import given
from hypothesis import strategies as st

from ars.training.settings import Consistency, MaskPrior, Optimizer, Schedule, SmoothAdv, TrainSettings


@given(st.integers(1, 50), st.integers(1, 50), st.floats(0, 1), st.sampled_from(["cosine", "steps"]))
def test_the_factor_stays_in_the_unit_interval(steps_per_epoch, epochs, warmup, name):
    schedule = Schedule(name=name, warmup=warmup)
    factors = [
        schedule.at(step, steps_per_epoch=steps_per_epoch, epochs=epochs) for step in range(steps_per_epoch * epochs)
    ]
    assert all(0 <= factor <= 1 for factor in factors)
    assert max(factors) > 0


def test_steps_are_the_papers():
    schedule = Schedule(name="steps", every=30, factor=0.1)
    at = [schedule.at(epoch * 7, steps_per_epoch=7, epochs=90) for epoch in (0, 29, 30, 59, 60, 89)]
    assert at == pytest.approx([1, 1, 0.1, 0.1, 0.01, 0.01])


def test_cosine_warms_up_and_ends_near_zero():
    factors = [Schedule(warmup=0.2).at(step, steps_per_epoch=10, epochs=10) for step in range(100)]
    assert factors[:20] == sorted(factors[:20])
    assert factors[19:] == sorted(factors[19:], reverse=True)
    assert (factors[19], factors[-1]) == (1, pytest.approx(0, abs=0.01))


def test_the_mask_has_its_own_schedule_or_the_classifiers():
    steps = Schedule(name="steps", every=30, factor=0.1)
    settings = TrainSettings(epochs=100, schedule=steps, mask_schedule=Schedule(name="steps", every=40, factor=0.5))
    at = [(settings.factor("classifier", 3 * e, steps_per_epoch=3), settings.factor("mask", 3 * e, steps_per_epoch=3))
          for e in (0, 35, 45, 99)]  # fmt: skip
    assert at == [pytest.approx(pair) for pair in [(1, 1), (0.1, 1), (0.1, 0.5), (0.001, 0.25)]]
    alike = TrainSettings(epochs=100, schedule=steps)
    assert alike.factor("mask", 35, steps_per_epoch=1) == pytest.approx(0.1)


def test_schedules_begin_anew_after_the_mask_only_epochs():
    settings = TrainSettings(epochs=5, mask_only_epochs=2, schedule=Schedule(warmup=0.0))
    factors = [settings.factor("mask", step, steps_per_epoch=4) for step in range(20)]
    assert factors[0] == factors[8] == 1
    assert factors[:8] == sorted(factors[:8], reverse=True)
    assert factors[8:] == sorted(factors[8:], reverse=True)
    assert factors[7] < 0.05
    assert factors[19] < 0.02


@pytest.mark.parametrize(
    ("make", "named"),
    [
        (lambda: Optimizer(lr=0), "lr"),
        (lambda: TrainSettings(epochs=0), "epochs"),
        (lambda: TrainSettings(max_steps=0), "max_steps"),
        (lambda: TrainSettings(mask_only_epochs=7), "mask_only_epochs"),
        (lambda: Schedule(every=0), "every"),
        (lambda: Schedule(factor=0.0), "factor"),
        (lambda: Schedule(warmup=-0.1), "warmup"),
        (lambda: TrainSettings(batch_size=100, accumulate=3), "accumulate"),
        (lambda: TrainSettings(accumulate=0), "accumulate"),
        (lambda: TrainSettings(draws=0), "draws"),
        (lambda: TrainSettings(ema=1.0), "ema"),
        (lambda: TrainSettings(consistency=Consistency(weight=1.0)), "draws"),
        (lambda: Consistency(weight=-1.0), "weight"),
        (lambda: SmoothAdv(epsilon=float("nan")), "epsilon"),
        (lambda: SmoothAdv(steps=0), "steps"),
        (lambda: MaskPrior(weight=float("inf")), "weight"),
    ],
)
def test_what_makes_no_sense_is_refused_by_name(make, named):
    with pytest.raises(ValueError, match=named):
        make()
