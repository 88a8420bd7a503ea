"""The only Monte-Carlo loop: draws of many images are packed into device batches.

Noise comes in blocks of 100 draws, each from a generator of its own that is seeded by (seed, image index, stage,
block). A device batch holds whole blocks, so the noise that an image sees depends on neither the batch size, nor the
order, nor what else is in the batch. The draws of a block are independent of each other and of every other block.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from contextvars import ContextVar
from functools import lru_cache
from itertools import groupby
from typing import Any, Literal, get_args
from weakref import WeakKeyDictionary

import numpy as np
import torch
from torch import Tensor

from ars.certification.engine import prepared
from ars.certification.evaluating import evaluating
from ars.certification.limits import BLOCK, MOST_SEED
from ars.certification.logits import NO_NUMBERS, check_logits
from ars.certification.memory import suitable_batch
from ars.smoothing import SmoothedClassifier
from ars.smoothing.compose import Composition
from ars.smoothing.masked import masks_checked_at_the_end
from ars.smoothing.mechanism import Images, one_batch
from ars.theory.arguments import as_whole

__all__ = [
    "BLOCK",
    "PRECISIONS",
    "Precision",
    "Stage",
    "autocast",
    "block_seed",
    "check_drawing",
    "count_votes",
    "local_votes",
    "runs",
    "watched",
]

Stage = Literal["select", "estimate"]
Precision = Literal["float32", "bfloat16"]
PRECISIONS: tuple[Precision, ...] = get_args(Precision)


_WATCH: ContextVar[Callable[[int], None] | None] = ContextVar("watch", default=None)


@contextmanager
def watched(watch: Callable[[int], None]) -> Iterator[None]:
    """Within, watch hears how many draws each batch on a CPU counted; other devices make them later than asked for."""
    token = _WATCH.set(watch)
    try:
        yield
    finally:
        _WATCH.reset(token)


def block_seed(seed: int, index: int, stage: Stage, block: int) -> int:
    """The seed of one block; within an image no two blocks share one.

    torch's CPU generator reads the low 32 bits only, so blocks are counted up there from a hashed start.
    """
    start, high = _hashed(seed, index)
    low = (start + 2 * block + (stage == "estimate")) % 2**32
    return int((high % 2**31) << 32 | low)


@lru_cache(maxsize=1024)
def _hashed(seed: int, index: int) -> tuple[int, int]:
    start, high = np.random.SeedSequence([seed, index]).generate_state(2, np.uint32).tolist()
    return int(start), int(high)


def check_drawing(seed: int, indices: Sequence[int], precision: Precision) -> None:
    """Refuse what no draws can be made with."""
    seed, indices = as_whole("seed", seed, least=0), [as_whole("an image's index", it, least=0) for it in indices]
    if max(seed, *indices, 0) > MOST_SEED:  # beyond, two of them could share their noise
        raise ValueError(f"seed and image indices must be below 2^32, got seed={seed}, index={max(indices, default=0)}")
    _check_precision(precision)


def _check_precision(precision: Precision) -> None:
    if precision not in PRECISIONS:
        raise ValueError(f"precision must be one of {', '.join(PRECISIONS)}, got {precision!r}")


def autocast(device: torch.device, precision: Precision) -> AbstractContextManager[object]:
    """Run the networks in bf16 where asked, else as they are, whatever the caller's own autocast says.

    Noise and masking stay in float32 inside the mechanism.
    """
    _check_precision(precision)
    if precision == "bfloat16":
        return torch.autocast(device.type, dtype=torch.bfloat16)
    return torch.autocast(device.type, enabled=False)


def current(device: torch.device) -> AbstractContextManager[object]:
    """Within, this GPU is the one that kernels are launched on."""
    return torch.cuda.device(device) if device.type == "cuda" else nullcontext()


@torch.inference_mode()
def count_votes(
    model: SmoothedClassifier,
    images: Images,
    indices: Sequence[int],
    *,
    n: int,
    stage: Stage,
    seed: int,
    first_block: int = 0,
    precision: Precision = "float32",
    batch_size: int | None = None,
    mechanisms: Sequence[Composition] | None = None,
) -> np.ndarray:
    """Votes [images, classes] of n independent draws for each image, from block first_block on, in eval mode.

    At most batch_size draws are made at once, and no more than suits the device. Where they take more memory than
    there is, half as many are; what was counted before stays, and the noise of a draw is the same. With mechanisms,
    every image has its own in the place of the model's.
    """
    check_drawing(seed, indices, precision)
    if n < 1 or first_block < 0:
        raise ValueError(f"n must be at least 1 and first_block at least 0, got {n} and {first_block}")
    blocks = -(-n // BLOCK)
    pixels = images[0, 0].numel()
    most = min(batch_size or suitable_batch(images), suitable_batch(images), _FITTED.get(model, 2**62) // pixels)
    size = max(1, most // BLOCK)
    counts: Tensor | None = None
    unclear = torch.zeros((), dtype=torch.bool, device=images.device)
    done = 0
    watch = _WATCH.get() if images.device.type == "cpu" else None
    # on a CPU nothing waits, and a bad mask had better stop the first batch
    checks = nullcontext() if images.device.type == "cpu" else masks_checked_at_the_end()
    draws = len(images) * blocks * BLOCK
    batch = min(size * BLOCK, draws)
    torch.clear_autocast_cache()  # weights may have changed since a caller's own autocast began
    engine = nullcontext() if precision == "float32" else prepared(model, images, draws=draws, batch=batch)
    with (
        current(images.device),
        evaluating(model, *(mechanisms or ())),
        checks,
        autocast(images.device, precision),
        engine,
    ):
        while done < len(images) * blocks:
            # of each block: the image's position, and how many blocks of it come before
            group = [divmod(block, blocks) for block in range(done, min(done + size, len(images) * blocks))]
            names = [(seed, indices[position], stage, first_block + before) for position, before in group]
            try:
                logits = _logits(model, images, [position for position, _ in group], names, mechanisms)
            except torch.OutOfMemoryError:
                if len(group) == 1:
                    raise
                size = len(group) // 2  # nothing of this group was counted: its draws are made again, the same ones
                _FITTED[model] = size * BLOCK * pixels
                continue
            if counts is None:
                counts = torch.zeros((len(images), logits.shape[-1]), dtype=torch.int64, device=images.device)
            # the last block of an image may be longer than what is left of n
            ballots = [(position, min(BLOCK, n - before * BLOCK)) for position, before in group]
            _count(counts, logits, _send(ballots, images.device))
            unclear |= logits.isnan().any()  # looked at once, at the end: nothing waits for the host
            done += len(group)
            if watch is not None:
                watch(sum(kept for _, kept in ballots))
        assert counts is not None
        votes: np.ndarray = counts.cpu().numpy()  # here: other threads wait until the device has done with the networks
    if unclear:
        raise ValueError(NO_NUMBERS)
    return votes


def local_votes(models: Sequence[SmoothedClassifier], images: Images, indices: Sequence[int], **how: Any) -> np.ndarray:
    """The votes [images, classes] of every image under its own model; how is that of count_votes.

    Models that differ in their mechanisms only share their batches.
    """
    first = models[0]
    after = {(type(it), id(it.classifier), id(it.combine)) for it in models}
    if first is not models[-1] and len(after) == 1 and type(first) is SmoothedClassifier:
        return count_votes(first, images, indices, mechanisms=[it.mechanism for it in models], **how)
    return np.concatenate([count_votes(local, images[part], indices[part], **how) for local, part in runs(models)])


def runs(models: Sequence[SmoothedClassifier]) -> Iterator[tuple[SmoothedClassifier, slice]]:
    """Neighbouring images that share a model, which are drawn for together."""
    start = 0
    for _, same in groupby(models, key=id):
        part = slice(start, start + len(list(same)))
        yield models[start], part
        start = part.stop


# pixels that a model's batch was shrunk to, so that the next call starts there
_FITTED: WeakKeyDictionary[SmoothedClassifier, int] = WeakKeyDictionary()


def _logits(
    model: SmoothedClassifier,
    images: Images,
    positions: Sequence[int],
    names: Sequence[tuple[int, int, Stage, int]],
    mechanisms: Sequence[Composition] | None,
) -> Tensor:
    """Logits [100 blocks, classes] of blocks of the images at these positions, the noise by the blocks' names."""
    generators = [torch.Generator(images.device).manual_seed(block_seed(*name)) for name in names]
    logits: Tensor
    if mechanisms is None:
        logits = model(images[_send(positions, images.device)].repeat_interleave(BLOCK, dim=0), generators)
    else:
        blocks = [
            mechanisms[position].release(images[position].expand(BLOCK, -1, -1, -1), generator)
            for position, generator in zip(positions, generators, strict=True)
        ]
        logits = model.classifier(model.combine(one_batch(blocks)))
    check_logits(logits, BLOCK * len(names))
    return logits


def _count(counts: Tensor, logits: Tensor, ballots: Tensor) -> None:
    """Add the votes of blocks to the counts; ballots [blocks, 2] are their images and how many votes to keep."""
    position, kept = ballots.unsqueeze(-1).unbind(1)
    valid = torch.arange(BLOCK, device=counts.device) < kept
    cells = position * counts.shape[1] + logits.argmax(dim=-1).view(-1, BLOCK)
    counts.view(-1).index_add_(0, cells.view(-1), valid.view(-1).long())


def _send(values: Sequence[object], device: torch.device) -> Tensor:
    """Integers on the device; from pinned memory, because a copy from elsewhere may wait for the device."""
    return torch.tensor(values, pin_memory=device.type == "cuda").to(device, non_blocking=True)
