"""The certifier's copies of a model: a plain one, and a faster one that is compared with it."""

import warnings
from copy import deepcopy

import torch
from torch import Tensor, nn

from ars.certification.logits import NOT_A_NUMBER
from ars.certification.memory import is_short_of_memory
from ars.certification.settings import BLOCK
from ars.certification.votes import draw_logits
from ars.kernels.accelerate import accelerate
from ars.kernels.precision import Precision, autocast, current
from ars.smoothing import SmoothedClassifier
from ars.smoothing.input_dependent import NearestNoise
from ars.smoothing.mechanism import Images

# Tolerance of the faster copy: a multiple of autocast's distance from float32, plus a share of the logits' spread.
TIMES_AUTOCAST, OF_SPREAD = 4.0, 0.02


class AccelerationWarning(UserWarning):
    """A network runs slower than it could; certificates are not affected."""


def eval_mode(model: nn.Module) -> None:
    """Bring a network to eval mode; refuse a network that does not allow it."""
    try:
        model.eval()
    except NotImplementedError as error:  # raised by modules from torch.export
        raise ValueError(
            f"the model cannot be set to eval mode ({error}); use the module that it was exported from, or wrap it in "
            "one whose train() does nothing"
        ) from error


def copy_model(model: SmoothedClassifier) -> SmoothedClassifier:
    """A copy in eval mode; it shares only the reference images of input-dependent noise, which may be large."""
    shared = {id(part.references): part.references for part in model.modules() if isinstance(part, NearestNoise)}
    try:
        copy = deepcopy(model, shared)
    except Exception as error:  # the user's code may raise anything
        first = f"{type(error).__name__}: {error}".partition("\n")[0]
        raise ValueError(
            f"the model cannot be copied ({first}); certification needs a copy, so allow deepcopy"
        ) from error
    eval_mode(copy)
    return copy


def fast_copy(plain: SmoothedClassifier, images: Images) -> SmoothedClassifier:
    """A faster copy that classifies a block of draws in bf16 like the plain one; if it does not, the plain one."""
    draws = images[:1].expand(BLOCK, -1, -1, -1)
    exact, usual = _block(plain, draws, "float32"), _in_bf16(plain, draws)
    try:
        fast = accelerate(plain, images, least=BLOCK)
        if fast is None:
            return plain
        answers = _block(fast, draws, "bfloat16")
        allowed = TIMES_AUTOCAST * _distance(usual, exact) + OF_SPREAD * float(exact.std(dim=0).mean())
        if answers.shape == exact.shape and _distance(answers, exact) <= allowed:
            return fast
        why = "it answered differently"
    except torch.OutOfMemoryError:
        raise
    except Exception as error:  # the user's code may rely on parts of a network that the faster one lacks
        why = f"{type(error).__name__}: {error}".partition("\n")[0]
    warnings.warn(f"the model runs as it is, without its faster form ({why})", AccelerationWarning, stacklevel=2)
    return plain


def _in_bf16(model: SmoothedClassifier, draws: Images) -> Tensor:
    """The plain model's logits under autocast; refuses a model that works only in float32."""
    try:
        return _block(model, draws, "bfloat16")
    except torch.OutOfMemoryError:
        raise
    except Exception as error:  # the user's code may raise anything
        if is_short_of_memory(error):
            raise
        first = f"{type(error).__name__}: {error}".partition("\n")[0].rstrip(": ")
        raise ValueError(
            f"the model works in float32 but not in bfloat16 ({first}); use float32 (--precision float32)"
        ) from error


@torch.inference_mode()
def _block(model: SmoothedClassifier, draws: Images, precision: Precision) -> Tensor:
    """The logits of a block of draws, in float32."""
    torch.clear_autocast_cache()
    generator = torch.Generator(draws.device).manual_seed(0)
    with current(draws.device), autocast(draws.device, precision):
        logits = draw_logits(model, draws, generator).float()
    if logits.isnan().any():
        raise ValueError(NOT_A_NUMBER)
    return logits


def _distance(one: Tensor, other: Tensor) -> float:
    """The root mean square difference of two sets of logits, each centred over the classes."""
    centred = [logits - logits.mean(dim=1, keepdim=True) for logits in (one, other)]
    return float((centred[0] - centred[1]).square().mean().sqrt())
