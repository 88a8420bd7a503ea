"""The only Monte-Carlo loop: draws of many images are packed into device batches.

Noise comes in blocks of 100 draws, each from a generator of its own that is seeded by (seed, image index, stage,
block). A device batch holds whole blocks, so the noise that an image sees depends on neither the batch size, nor the
order, nor what else is in the batch. The draws of a block are independent of each other and of every other block.
"""

from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Literal, get_args

import numpy as np
import torch
from torch import Tensor

from ars.smoothing import SmoothedClassifier
from ars.smoothing.mechanism import Images

BLOCK = 100
Stage = Literal["select", "estimate"]
Precision = Literal["float32", "bfloat16"]
PRECISIONS: tuple[Precision, ...] = get_args(Precision)


def block_seed(seed: int, index: int, stage: Stage, block: int) -> int:
    """The seed of one block; within an image no two blocks share one.

    torch's CPU generator reads the low 32 bits only, so blocks are counted up there from a hashed start.
    """
    start, high = np.random.SeedSequence([seed, index]).generate_state(2, np.uint32).tolist()
    low = (start + 2 * block + (stage == "estimate")) % 2**32
    return int((high % 2**31) << 32 | low)


def autocast(device: torch.device, precision: Precision) -> AbstractContextManager[object]:
    """Run the networks in bf16 where asked; noise and masking stay in float32 inside the mechanism."""
    if precision not in PRECISIONS:
        raise ValueError(f"precision must be one of {', '.join(PRECISIONS)}, got {precision!r}")
    if precision == "float32":
        return nullcontext()
    return torch.autocast(device.type, dtype=torch.bfloat16)


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
    batch_size: int = 1000,
) -> np.ndarray:
    """Votes [images, classes] of n independent draws for each image, from block first_block on, in eval mode."""
    if seed < 0 or min(indices) < 0:
        raise ValueError(f"seed and image indices must be at least 0, got seed={seed}, index={min(indices)}")
    if n < 1 or first_block < 0:
        raise ValueError(f"n must be at least 1 and first_block at least 0, got {n} and {first_block}")
    blocks = -(-n // BLOCK)
    work = [(position, block) for position in range(len(images)) for block in range(first_block, first_block + blocks)]
    counts: Tensor | None = None
    flags = [(module, module.training) for module in model.modules()]  # a frozen part may be in eval mode already
    model.eval()
    try:
        for group in _batches(work, max(1, batch_size // BLOCK)):
            positions = torch.tensor([position for position, _ in group], device=images.device)
            generators = [
                torch.Generator(images.device).manual_seed(block_seed(seed, indices[position], stage, block))
                for position, block in group
            ]
            x = images[positions].repeat_interleave(BLOCK, dim=0)
            with autocast(images.device, precision):
                logits = model(x, generators)
            if logits.ndim != 2 or logits.shape[1] < 2:
                raise ValueError(
                    f"the classifier must give [b, classes] logits of two or more classes, got {list(logits.shape)}"
                )
            if counts is None:
                counts = torch.zeros((len(images), logits.shape[-1]), dtype=torch.int64, device=images.device)
            # the last block of an image may be longer than what is left of n
            kept = [min(BLOCK, n - (block - first_block) * BLOCK) for _, block in group]
            valid = torch.arange(BLOCK, device=images.device) < torch.tensor(kept, device=images.device)[:, None]
            ballots = positions.repeat_interleave(BLOCK) * counts.shape[1] + logits.argmax(dim=-1)
            counts.view(-1).index_add_(0, ballots, valid.view(-1).long())
    finally:
        for module, training in flags:
            module.training = training
    assert counts is not None
    return counts.cpu().numpy()


def _batches(work: Sequence[tuple[int, int]], size: int) -> list[Sequence[tuple[int, int]]]:
    return [work[start : start + size] for start in range(0, len(work), size)]
