"""Logits: the requirements for counting votes, and when two sets of logits for the same draws are equal."""

import torch
from torch import Tensor

CONTENDERS = 100  # how many leading classes are compared; the others never win
SAME = 0.05  # share of the spread over the draws: above rounding at other batch sizes, below what changes a vote
ROUNDING = 16  # units in the last place of the two logits compared
RULED_OUT = 1e30  # replaces infinite logits, whose differences are not numbers

NOT_A_NUMBER = "the classifier gave logits that are not numbers (NaN), which vote for no class; fix the model first"


def check_logits(logits: object, images: int) -> None:
    """Refuse logits from which no vote can be counted; NaN is not checked here."""
    if not isinstance(logits, Tensor) or logits.ndim != 2 or logits.shape[1] < 2:
        got = list(logits.shape) if isinstance(logits, Tensor) else type(logits).__name__
        raise ValueError(f"the classifier must give [b, classes] logits of two or more classes, got {got}")
    if logits.dtype == torch.bool or logits.is_complex():
        raise ValueError(f"the classifier must give logits that are real numbers, got {logits.dtype}; convert them")
    if len(logits) != images:
        raise ValueError(f"the classifier must answer each image once, got {len(logits)} answers to {images} images")


def alike(one: Tensor, other: Tensor, *, images: int, rounded_to: torch.dtype | None = None) -> bool:
    """Whether two sets of logits for the same draws, image after image, differ by no more than rounding.

    Votes depend on the gaps between classes. The tolerance for a gap is relative to its spread over the draws of the
    same image. Offsets that all classes share, differences between images, and classes that never win do not count.
    Rounding is that of the logits' type, or of another type in which the network may compute.
    """
    leading = _leading(torch.maximum(_finite(one), _finite(other)))
    gaps, moved = _gaps(one, leading, images), _gaps(other, leading, images)
    off, rounding = (gaps - moved).abs(), _rounding(one, leading, images, rounded_to or one.dtype)
    return bool((off <= SAME * _spread(gaps) + rounding).all())  # False for NaN


def moves(logits: Tensor, *, images: int) -> bool:
    """Whether any gap varies over the draws of an image; if none does, comparing two answers proves nothing."""
    leading = _leading(_finite(logits))
    return bool((_spread(_gaps(logits, leading, images)) > _rounding(logits, leading, images, logits.dtype)).any())


def _finite(logits: Tensor) -> Tensor:
    return logits.cpu().double().nan_to_num(torch.nan, RULED_OUT, -RULED_OUT)  # not every device has float64


def _leading(logits: Tensor) -> Tensor:
    return logits.amax(dim=0).topk(min(CONTENDERS, logits.shape[1])).indices


def _gaps(logits: Tensor, leading: Tensor, images: int) -> Tensor:
    """[images, draws, classes, classes]."""
    logits = _finite(logits)[:, leading].view(images, -1, len(leading))
    return logits.unsqueeze(3) - logits.unsqueeze(2)


def _spread(gaps: Tensor) -> Tensor:
    """The spread of gaps over the draws, without outliers."""
    away = (gaps - gaps.median(dim=1, keepdim=True).values).abs()
    return away.kthvalue(3 * gaps.shape[1] // 4, dim=1, keepdim=True).values


def _rounding(logits: Tensor, leading: Tensor, images: int, to: torch.dtype) -> Tensor:
    """How much rounding to a type changes gaps."""
    unit = torch.finfo(to).eps if to.is_floating_point else 0.0
    sizes = _finite(logits)[:, leading].abs().view(images, -1, len(leading))
    return ROUNDING * unit * (sizes.unsqueeze(3) + sizes.unsqueeze(2))
