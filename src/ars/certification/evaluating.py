"""Networks in eval mode, and back."""

from collections.abc import Iterator
from contextlib import contextmanager

from torch import nn


@contextmanager
def evaluating(*parts: nn.Module) -> Iterator[None]:
    """Every module in eval mode, and back to its own mode afterwards: a frozen part may be in eval mode already."""
    flags = [(module, module.training) for part in parts for module in part.modules()]
    for part in parts:
        part.eval()
    try:
        yield
    finally:
        for module, training in flags:
            module.training = training
