"""How a trial asks a model: noisy images with a generator each, together or one by one."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from ars.certification.logits import check_logits
from ars.certification.shortage import is_short_of_memory
from ars.smoothing import SmoothedClassifier
from ars.smoothing.mechanism import Images

PLAIN = (0.5, 0.0, 1.0)  # levels of images that nobody gave


@dataclass(frozen=True)
class Asked:
    """A batch, the seeds of its noise being 0, 1, ..., and what the model answered."""

    images: Images
    answers: Tensor


def generators(images: Images, seeds: Sequence[int]) -> list[torch.Generator]:
    """One for each seed, where the images are."""
    return [torch.Generator(images.device).manual_seed(seed) for seed in seeds]


def answer(model: SmoothedClassifier, images: Images, seeds: Sequence[int]) -> Tensor:
    """The logits of noisy images, each with noise of its own seed; what the model cannot take is told in a sentence."""
    try:
        logits: Tensor = model(images, generators(images, seeds))
    except torch.OutOfMemoryError:
        raise
    except RuntimeError as error:  # torch's word for sizes that do not fit, among others
        if is_short_of_memory(error):
            raise
        first = f"{type(error).__name__}: {error}".partition("\n")[0]
        raise ValueError(f"the model cannot take images of shape {list(images.shape[1:])}: {first}") from error
    check_logits(logits, len(images))
    return logits.clone()  # the next answer may be written into the same memory


def one_by_one(model: SmoothedClassifier, images: Images) -> Tensor:
    """The logits of images that are asked about alone."""
    return torch.cat([answer(model, images[seed : seed + 1], [seed]) for seed in range(len(images))])


def if_it_can(ask: Callable[..., Tensor], *given: object) -> Tensor | None:
    """The answers to images that nobody gave, unless the model cannot take them: that is no fault of it."""
    try:
        return ask(*given)
    except torch.OutOfMemoryError:
        raise
    except Exception:
        return None


def beside_plain_ones(model: SmoothedClassifier, draws: Images) -> list[Asked]:
    """The draws beside grey, black and white images, which move any statistic of the batch as far as they can."""
    asked = []
    for level in PLAIN:
        batch = torch.cat([draws, torch.full_like(draws, level)])
        answers = if_it_can(answer, model, batch, range(len(batch)))
        if answers is not None:
            asked.append(Asked(batch, answers))
    return asked
