"""Batches of one size: where the same kernels are at work, what answers differ by is no rounding."""

from collections.abc import Iterator, Sequence

import torch
from torch import Tensor

from ars.certification.asking import PLAIN, Asked, answer, if_it_can
from ars.smoothing import SmoothedClassifier
from ars.smoothing.mechanism import Images


def takes_each_by_itself(model: SmoothedClassifier, draws: Images, asked: Sequence[Asked]) -> bool:
    """Whether draws have answers that are equal to the last bit in batches of one size; those asked begin with them.

    Kernels for another size of batch may add up in another order, and what that moves is much where a network computes
    in bf16, or before a steep softmax. At one size a network that takes each image by itself gives an image the same
    numbers whenever, in whichever place and among whichever others it is asked about. Then the votes of a batch are
    independent, and bounds on them hold, whatever other sizes give.
    """
    sizes = {len(it.images) for it in asked}
    return all(_elsewhere(model, it) for it in asked) and all(_among_others(model, draws, it, asked) for it in sizes)


def _elsewhere(model: SmoothedClassifier, asked: Asked) -> bool:
    """Whether every image of a batch has the same answer later and in another place."""
    order = torch.arange(len(asked.images)).roll(len(asked.images) // 2 + 1)
    return torch.equal(answer(model, asked.images[order], order.tolist()), asked.answers[order])


def _among_others(model: SmoothedClassifier, draws: Images, size: int, asked: Sequence[Asked]) -> bool:
    """Whether each draw has the same answer in its place among plain images only; no where the model takes none."""
    same = [it.answers for it in asked if len(it.images) == size]
    seen = list(_among_plain_ones(model, draws, size))
    return bool(seen) and all(torch.equal(row, answers[place]) for place, row in seen for answers in same)


def _among_plain_ones(model: SmoothedClassifier, draws: Images, size: int) -> Iterator[tuple[int, Tensor]]:
    """The places of draws and their answers there, in batches where all others are grey, black or white."""
    for level in PLAIN:
        for place, draw in enumerate(draws):
            batch = torch.full_like(draws[:1], level).repeat(size, 1, 1, 1)
            batch[place] = draw
            answers = if_it_can(answer, model, batch, range(size))
            if answers is not None:
                yield place, answers[place]
