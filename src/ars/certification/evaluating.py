"""Networks in eval mode, and back; one user of them at a time."""

from collections.abc import Iterator
from contextlib import contextmanager
from threading import RLock

from torch import nn

_ONE_AT_A_TIME = RLock()


@contextmanager
def evaluating(*parts: nn.Module) -> Iterator[None]:
    """Every module in eval mode, and back to its own mode afterwards: a frozen part may be in eval mode already.

    Other threads wait: they would bring a module that they share back to its own mode, or its networks back to those
    they were before they were made ready for bf16, in the middle of the draws.
    """
    with _ONE_AT_A_TIME:
        flags = [(module, module.training) for part in parts for module in part.modules()]
        for part in parts:
            part.eval()
        try:
            yield
        finally:
            for module, training in flags:
                module.training = training
