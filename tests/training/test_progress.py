import pytest

from ars.training import progress
from ars.training.progress import Pace


@pytest.fixture
def clock(monkeypatch):
    class Clock:
        now = 0.0

        def monotonic(self):
            return self.now

    monkeypatch.setattr(progress, "time", made := Clock())
    return made


def test_the_start_up_is_counted_apart_and_told_once(clock):
    pace = Pace(100, steps=200, batch_size=10, slow=3)
    pace.begin_epoch(100)
    clock.now = 40.0
    assert pace.read(102) == (0.5, 98 * 20)  # two steps in 40 s
    assert pace.start_up is None
    clock.now = 60.0
    pace.read(104)
    assert pace.start_up == 60.0
    clock.now = 62.0
    assert pace.read(108) == (20.0, 46.0)
    assert pace.start_up == 60.0
    clock.now = 65.0
    pace.begin_epoch(110)
    clock.now = 70.0
    assert pace.read(120) == (20.0, 40.0)
    assert pace.start_up is None
