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
        modules = [module for part in parts for module in part.modules()]
        flags = [(it, it.training) for it in modules if hasattr(it, "training")]  # what torch.jit has frozen has none
        try:
            for part in parts:
                to_eval_mode(part)
            yield
        finally:
            for module, training in flags:
                module.training = training


def to_eval_mode(part: nn.Module) -> None:
    """Bring a network to eval mode, or say that it refuses."""
    try:
        part.eval()
    except NotImplementedError as error:  # what torch.export made
        raise ValueError(
            f"the model cannot be brought to eval mode ({error}); give the module that it was made from, or wrap it in "
            "one whose train() does nothing"
        ) from error
