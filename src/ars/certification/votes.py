"""The only Monte-Carlo loop: draws of many images are packed into device batches, and their votes are counted.

Noise comes in blocks of 100 draws. Each block has its own generator, seeded by (seed, image index, stage, block).
A device batch holds whole blocks, so the noise of an image depends neither on the batch size, nor on the order, nor on
the rest of the batch. The draws of a block are independent of each other and of every other block.

The loop calls mechanism, combine and classifier itself, so that only the releases reach the classifier.
"""

from collections import Counter
from collections.abc import Callable, Sequence
from functools import lru_cache
from threading import Lock
from typing import Literal

import numpy as np
import torch
from torch import Tensor

from ars.certification.logits import NOT_A_NUMBER, check_logits
from ars.certification.memory import suitable_batch
from ars.certification.settings import BLOCK, MOST_SEED
from ars.kernels.accelerate import COMPILE_AFTER, compile_for
from ars.kernels.precision import Precision, autocast, check_precision, current
from ars.smoothing import SmoothedClassifier
from ars.smoothing.masked import WeightRange
from ars.smoothing.mechanism import Composition, Generators, Images, Release, one_batch
from ars.theory.rounding import as_whole

Stage = Literal["select", "estimate"]
Watch = Callable[[int], None]


def block_seed(seed: int, index: int, stage: Stage, block: int) -> int:
    """The seed of one block; no two blocks of an image share a seed.

    torch's CPU generator reads only the low 32 bits, so blocks are counted there, from a hashed start.
    """
    start, high = _hashed(seed, index)
    low = (start + 2 * block + (stage == "estimate")) % 2**32
    return int((high % 2**31) << 32 | low)


@lru_cache(maxsize=1024)
def _hashed(seed: int, index: int) -> tuple[int, int]:
    start, high = np.random.SeedSequence([seed, index]).generate_state(2, np.uint32).tolist()
    return int(start), int(high)


class VoteCounter:
    """Counts the votes of one model, in eval mode, in one precision.

    No other code may change the model. At most batch_size draws are made at once, and no more than suits the device. If
    they do not fit into memory, the batch is halved from then on; earlier counts are kept, and the noise of a draw does
    not change.
    """

    def __init__(self, model: SmoothedClassifier, precision: Precision, *, batch_size: int | None = None) -> None:
        check_precision(precision)
        self.model, self.precision, self.batch_size = model, precision, batch_size
        self._alone = Lock()  # kernels share scratch memory: threads that certify at once take turns
        self._fitting = 2**62  # pixels that fit into memory, as far as known
        self._pixels: Counter[int] = Counter()  # pixels drawn so far, by batch size

    @torch.inference_mode()
    def __call__(
        self,
        mechanisms: Sequence[Composition],
        images: Images,
        indices: Sequence[int],
        *,
        n: int,
        stage: Stage,
        seed: int,
        first_block: int = 0,
        watch: Watch | None = None,
    ) -> np.ndarray:
        """Votes [images, classes] of n independent draws of each image by its own mechanism, from first_block on.

        On a CPU, watch is called with the number of draws of each batch; other devices compute asynchronously.
        """
        as_whole("seed", seed, least=0, most=MOST_SEED)  # larger ones could share their noise
        for index in indices:
            as_whole("an image's index", index, least=0, most=MOST_SEED)
        if n < 1 or first_block < 0:
            raise ValueError(f"n must be at least 1 and first_block at least 0, got {n} and {first_block}")
        per_image = -(-n // BLOCK)
        blocks = len(images) * per_image
        size = self.batch(images) // BLOCK
        self.expect(blocks * BLOCK, images)
        device, counts, done = images.device, None, 0
        undefined = torch.zeros((), dtype=torch.bool, device=device)
        masks = WeightRange()
        torch.clear_autocast_cache()  # weights may have changed since a caller's own autocast began
        with self._alone, current(device), autocast(device, self.precision):
            while done < blocks:
                # (image, block) pairs, made on demand: an image may have millions of blocks
                group = [divmod(block, per_image) for block in range(done, min(done + size, blocks))]
                generators = [
                    torch.Generator(device).manual_seed(block_seed(seed, indices[image], stage, first_block + block))
                    for image, block in group
                ]
                try:
                    logits = self._logits(mechanisms, images, [image for image, _ in group], generators, masks)
                except torch.OutOfMemoryError:
                    if len(group) == 1:
                        raise
                    size = len(group) // 2  # nothing of this group was counted: the same draws are repeated
                    self._fitting = size * BLOCK * images[0, 0].numel()
                    continue
                if counts is None:
                    counts = torch.zeros((len(images), logits.shape[-1]), dtype=torch.int64, device=device)
                # the last block of an image may have more draws than are left of n
                ballots = [(image, min(BLOCK, n - block * BLOCK)) for image, block in group]
                _count(counts, logits, _send(ballots, device))
                undefined |= logits.isnan().any()  # read once at the end, to avoid waiting for the device
                done += len(group)
                if device.type == "cpu":  # a CPU computes synchronously, so a bad mask can stop the first batch
                    masks.check()
                    if watch is not None:
                        watch(sum(kept for _, kept in ballots))
            assert counts is not None
            votes: np.ndarray = counts.cpu().numpy()
        masks.check()
        if undefined:
            raise ValueError(NOT_A_NUMBER)
        return votes

    @torch.inference_mode()
    def answer(self, images: Images, generators: Generators) -> Tensor:
        """The logits of one noisy draw of each image, computed as in counting, but not counted."""
        with self._alone, current(images.device), autocast(images.device, self.precision):
            return draw_logits(self.model, images, generators).clone()  # the next answer may use the same memory

    def batch(self, images: Images) -> int:
        """How many draws of these images are made at once, in whole blocks."""
        suitable = suitable_batch(images)
        most = min(self.batch_size or suitable, suitable, self._fitting // images[0, 0].numel())
        return max(1, most // BLOCK) * BLOCK

    def expect(self, draws: int, images: Images) -> None:
        """Register draws of these images, and compile networks without kernels once that pays off."""
        batch = min(self.batch(images), draws)
        self._pixels[batch] += draws * images[0, 0].numel()
        if images.device.type == "cuda" and self.precision == "bfloat16" and self._pixels[batch] >= COMPILE_AFTER:
            compile_for(self.model, batch)

    def _logits(
        self,
        mechanisms: Sequence[Composition],
        images: Images,
        positions: Sequence[int],
        generators: list[torch.Generator],
        masks: WeightRange,
    ) -> Tensor:
        """Logits [100 blocks, classes] of one block for each position, each with its own generator."""
        used = [mechanisms[position] for position in positions]
        if all(mechanism is used[0] for mechanism in used):
            batch = images[_send(positions, images.device)].repeat_interleave(BLOCK, dim=0)
            releases = used[0].release(batch, generators)
        else:
            parts = zip(used, positions, generators, strict=True)
            releases = one_batch([
                mechanism.release(images[position].expand(BLOCK, -1, -1, -1), generator)
                for mechanism, position, generator in parts
            ])  # fmt: skip
        masks.add(used[0].steps, releases)
        return classify(self.model, releases, generators)


def classify(model: SmoothedClassifier, releases: Sequence[Release], generators: Generators) -> Tensor:
    """The logits of releases, checked."""
    logits: Tensor = model.classifier(model.combined(releases, generators))
    check_logits(logits, len(releases[0].value))
    return logits


def draw_logits(model: SmoothedClassifier, images: Images, generators: Generators) -> Tensor:
    """The logits of one noisy draw of each image, computed as in the loop."""
    return classify(model, model.mechanism.release(images, generators), generators)


def _count(counts: Tensor, logits: Tensor, ballots: Tensor) -> None:
    """Add the votes of blocks to the counts; ballots [blocks, 2] hold their images and how many votes to keep."""
    position, kept = ballots.unsqueeze(-1).unbind(1)
    valid = torch.arange(BLOCK, device=counts.device) < kept
    cells = position * counts.shape[1] + logits.argmax(dim=-1).view(-1, BLOCK)
    counts.view(-1).index_add_(0, cells.view(-1), valid.view(-1).long())


def _send(values: Sequence[object], device: torch.device) -> Tensor:
    """Integers on the device, copied from pinned memory because other copies may wait for the device."""
    return torch.tensor(values, pin_memory=device.type == "cuda").to(device, non_blocking=True)
