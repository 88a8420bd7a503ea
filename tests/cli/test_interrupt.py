import signal

import pytest

from ars.cli.interrupt import end_if_asked, stoppable, terminable

from .conftest import signal_self


def test_once_the_work_asks_a_signal_is_kept_for_the_next_safe_point():
    with stoppable() as stop:
        assert not stop()
        signal_self(signal.SIGINT)
        assert stop()
        with pytest.raises(KeyboardInterrupt):
            signal_self(signal.SIGINT)
    with stoppable(at_once=False) as stop:
        signal_self(signal.SIGTERM)
        assert stop()


def test_before_the_work_asks_a_signal_ends_it_at_once():
    with pytest.raises(KeyboardInterrupt), stoppable():
        signal_self(signal.SIGINT)


def test_a_lost_terminal_ends_work_as_sigterm_does_but_not_under_nohup():
    before = signal.getsignal(signal.SIGHUP)
    try:
        signal.signal(signal.SIGHUP, signal.SIG_DFL)
        with stoppable() as stop:
            assert not stop()
            signal_self(signal.SIGHUP)
            assert stop()
        with terminable(), pytest.raises(KeyboardInterrupt):
            signal_self(signal.SIGHUP)
        assert signal.getsignal(signal.SIGHUP) is signal.SIG_DFL
        signal.signal(signal.SIGHUP, signal.SIG_IGN)
        with terminable(), stoppable() as stop:
            signal_self(signal.SIGHUP)
            assert not stop()
    finally:
        signal.signal(signal.SIGHUP, before)


def test_a_signal_that_came_too_late_for_a_step_ends_what_comes_after():
    with stoppable() as stop:
        stop()
        signal_self(signal.SIGINT)
    with pytest.raises(KeyboardInterrupt):
        end_if_asked()
    end_if_asked()
    with stoppable():
        pass
    end_if_asked()
