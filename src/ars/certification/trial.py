"""The trial of a model: its answers to noisy images, together and one by one, and the noise of one generator.

It refuses what is seen to make draws hang together. A model that passes is not proved to keep them apart.
"""

from collections.abc import Sequence
from itertools import combinations

import torch
from torch import Tensor

from ars.certification.asking import PLAIN, Asked, answer, beside_plain_ones, generators, if_it_can, one_by_one
from ars.certification.evaluating import evaluating
from ars.certification.logits import NO_NUMBERS, alike, moves
from ars.certification.network_state import checksum, tensors_of
from ars.certification.one_size import takes_each_by_itself
from ars.kernels.cudnn import exact
from ars.smoothing import SmoothedClassifier
from ars.smoothing.mechanism import Images, Release

DRAWS = 8
IMAGES = 2
PLACES = 4  # of the given images, between which one is looked for that is not decided
HALVINGS = 16
TIMES = 10  # that something must be seen
MUCH = 3.0  # times as large
SHARED = 0.2  # of an image: noise that is clamped coincides here and there by itself, at less than half as much


@torch.inference_mode()
def try_out(model: SmoothedClassifier, images: Images) -> None:
    """Refuse a model whose draws are seen to hang together."""
    numbers = tensors_of(model)
    some = images[:IMAGES]
    draws = some.repeat_interleave(DRAWS // len(some), dim=0)
    with (
        evaluating(model),
        exact(),
        torch.autocast(images.device.type, enabled=False),
    ):
        dice = _global_randomness(images.device)  # now: other threads may have thrown them while this one waited
        together = Asked(draws, answer(model, draws, range(DRAWS)))
        if together.answers.isnan().any():
            raise ValueError(NO_NUMBERS)
        before = checksum(numbers)
        alone = one_by_one(model, draws)
        if _global_randomness(images.device) != dice:
            raise ValueError(
                "the model draws random numbers of its own from torch's global generator, which draws may share; noise "
                "must come from the mechanism, which is given a generator"
            )
        if checksum(numbers) != before:
            raise ValueError(
                "the model changes its own weights or buffers while it answers, so that its draws hang together; "
                "certification needs a network that stays as it is"
            )
        _check_alike(model, [together, *beside_plain_ones(model, draws)], alone, images=len(some))
        if not moves(alone, images=len(some)) and (undecided := _undecided(model, images)) is not None:
            draws = undecided.repeat_interleave(DRAWS, dim=0)
            _check_alike(model, beside_plain_ones(model, draws), one_by_one(model, draws), images=1)
        _check_noise(model, images[:1].repeat_interleave(DRAWS, dim=0))


def _check_alike(model: SmoothedClassifier, asked: Sequence[Asked], alone: Tensor, *, images: int) -> None:
    """Refuse other answers in batches that begin with the draws than alone, unless other kernels round so."""
    answers = [it.answers[: len(alone)] for it in asked]
    if all(alike(one, alone, images=images) for one in answers):
        return
    small = all(alike(one, alone, images=images, rounded_to=torch.bfloat16) for one in answers)
    if not (small and takes_each_by_itself(model, asked[0].images[: len(alone)], asked)):
        raise ValueError(
            "the model answers otherwise to a noisy image alone than among others; certification needs a network that "
            "takes each image by itself, without statistics of the batch and without randomness of its own, and steps "
            "whose noise is drawn with ars.draw_like"
        )


def _undecided(model: SmoothedClassifier, images: Images) -> Images | None:
    """An image on which the answers move over the draws, between the given ones or on the way to plain ones, if found.

    Where a model answers with labels, or with certainties, those on clear images say nothing of what else it looks at.
    """
    plain = [torch.full_like(images[:1], level) for level in PLAIN]
    one, *others = [*(images[i : i + 1] for i in range(len(images[:PLACES]))), *plain, 1 - images[:1]]
    here = one_by_one(model, one.repeat_interleave(DRAWS, dim=0))
    for other in others:
        near, far, there = one, other, if_it_can(one_by_one, model, other.repeat_interleave(DRAWS, dim=0))
        if there is None:
            continue
        if moves(there, images=1):
            return other
        for _ in range(HALVINGS if _winner(there) != _winner(here) else 0):
            between = (near + far) / 2
            answers = if_it_can(one_by_one, model, between.repeat_interleave(DRAWS, dim=0))
            if answers is None:
                break
            if moves(answers, images=1):
                return between
            near, far = (between, far) if _winner(answers) == _winner(here) else (near, between)
    return None


def _winner(logits: Tensor) -> int:
    return int(logits.argmax(dim=1).mode().values)


def _check_noise(model: SmoothedClassifier, draws: Images) -> None:
    """Refuse noise that the draws of one generator share; in certification each makes a hundred of one image.

    What a few numbers show by chance, they do not show every time.
    """
    suspected: dict[int, str] = {}
    for attempt in range(TIMES):
        first = attempt * (DRAWS + 1)
        apart = model.mechanism.release(draws, generators(draws, range(first, first + DRAWS)))
        at_once = model.mechanism.release(draws, generators(draws, range(first + DRAWS, first + DRAWS + 1)))
        seen: dict[int, str] = {}
        for step, (one, other) in enumerate(zip(apart, at_once, strict=True)):
            if len(other.value) != len(draws):
                said = f"released {len(other.value)} values of {len(draws)} images"
                raise ValueError(f"step {step} of the mechanism {said}")
            seen[step] = _shared(draws, one, other)
        suspected = {step: how for step, how in seen.items() if how and suspected.get(step, how) == how}
        if not suspected:
            return
    raise ValueError(
        f"step {min(suspected)} of the mechanism gives the draws of one generator {suspected[min(suspected)]} noise, "
        "and no bound on their votes would hold; draw it with ars.draw_like, which asks for a tensor of many draws"
    )


def _shared(draws: Images, apart: Release, at_once: Release) -> str:
    """How the draws of one generator hang together where those of several do not; empty where nothing shows it.

    Where they have equal values in part, or where their noise adds up to much more or less than independent noise.
    """
    ordered = apart.value.flatten(1).sort(dim=0).values
    noisy = (ordered[1:] != ordered[:-1]).all(dim=0)
    values = at_once.value.flatten(1)[:, noisy]
    if values.shape[1] >= len(noisy) / 2 and any(
        bool((one == other).float().mean() > SHARED) for one, other in combinations(values, 2)
    ):
        return "the same"
    alone, together = (float((it.value - it.weight * draws).sum(dim=0).square().sum()) for it in (apart, at_once))
    if alone > 0 and not 1 / MUCH < together / alone < MUCH:
        return "opposite" if together < alone else "common"
    return ""


def _global_randomness(device: torch.device) -> list[bytes]:
    """Where torch's global generators stand."""
    states = [torch.get_rng_state()]
    if device.type == "cuda":
        states.append(torch.cuda.get_rng_state(device))
    return [state.numpy().tobytes() for state in states]
