"""Logits: what votes can be counted from, and when two answers to the same draws are the same."""

import torch
from torch import Tensor

CONTENDERS = 100  # classes that are compared, the leading ones; others win nothing
SAME = 0.05  # of the spread over the draws: more than batches of another size round, less than a class needs to win
ROUNDING = 16  # units in the last place of the two logits compared
RULED_OUT = 1e30  # in the place of infinite logits, whose differences are no numbers

NO_NUMBERS = "the classifier gave logits that are no numbers (NaN), which vote for nothing; mend it first"


def check_logits(logits: object, images: int) -> None:
    """Refuse what no vote can be counted from; whether all are numbers is not looked at."""
    if not isinstance(logits, Tensor) or logits.ndim != 2 or logits.shape[1] < 2:
        got = list(logits.shape) if isinstance(logits, Tensor) else type(logits).__name__
        raise ValueError(f"the classifier must give [b, classes] logits of two or more classes, got {got}")
    if logits.dtype == torch.bool or logits.is_complex():
        raise ValueError(f"the classifier must give logits that are real numbers, got {logits.dtype}; convert them")
    if len(logits) != images:
        raise ValueError(f"the classifier must answer each image once, got {len(logits)} answers to {images} images")


def alike(one: Tensor, other: Tensor, *, images: int, rounded_to: torch.dtype | None = None) -> bool:
    """Whether two answers to the same draws, of so many images one after another, differ by rounding at most.

    Votes hang on the gaps between classes. How far a gap may be off is measured by how far it moves over the draws of
    the same image: what all classes share, what differs between images, and classes that never win are no yardstick.
    Rounding is that of the logits, or that to another type where the network may compute in it.
    """
    leading = _leading(torch.maximum(_finite(one), _finite(other)))
    gaps, moved = _gaps(one, leading, images), _gaps(other, leading, images)
    off, rounding = (gaps - moved).abs(), _rounding(one, leading, images, rounded_to or one.dtype)
    return bool((off <= SAME * _spread(gaps) + rounding).all())  # no number is not alike


def moves(logits: Tensor, *, images: int) -> bool:
    """Whether some gap moves over the draws of an image; where none does, two answers are alike whatever made them."""
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
    """How far gaps move over the draws; a few draws far away do not count."""
    away = (gaps - gaps.median(dim=1, keepdim=True).values).abs()
    return away.kthvalue(3 * gaps.shape[1] // 4, dim=1, keepdim=True).values


def _rounding(logits: Tensor, leading: Tensor, images: int, to: torch.dtype) -> Tensor:
    """How far rounding to a type moves gaps."""
    exact = torch.finfo(to).eps if to.is_floating_point else 0.0
    sizes = _finite(logits)[:, leading].abs().view(images, -1, len(leading))
    return ROUNDING * exact * (sizes.unsqueeze(3) + sizes.unsqueeze(2))
