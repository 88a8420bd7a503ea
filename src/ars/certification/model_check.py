"""Are the draws of a model independent? Otherwise no bound on their votes holds.

The check refuses the defects that it detects. Passing means that no defect was found. It is not a proof. It asks:

- Does a noisy image get the same logits alone, in a small batch, and in a batch of the size used in counting?
- Does the model draw random numbers from torch's global generator?
- Does it change its own weights or buffers in a forward pass?
- Does it answer the same draws in the same way after counting as before?
- Does a combination with randomness of its own give the draws of one generator the same randomness?

step_check asks whether its steps keep their word.
"""

from collections.abc import Iterable, Sequence
from itertools import combinations

import torch
from torch import Tensor
from torch.nn.modules.batchnorm import _BatchNorm
from torch.nn.parameter import is_lazy

from ars.certification.logits import NOT_A_NUMBER, alike, moves
from ars.certification.memory import is_short_of_memory
from ars.certification.settings import BLOCK
from ars.certification.step_check import DRAWS, LEVELS, SHARED, generators, if_it_can
from ars.certification.votes import VoteCounter, draw_logits
from ars.kernels.backend import exact
from ars.kernels.precision import autocast, current
from ars.smoothing import SmoothedClassifier
from ars.smoothing.combine import takes_generator
from ars.smoothing.input_dependent import NearestNoise
from ars.smoothing.mechanism import Images, repeated

IMAGES = 2
PLACES = 4  # how many of the given images are used in the search for an undecided image
HALVINGS = 16
LEAST_REPEATED = 8

TIED = (
    "the model gives a noisy image different logits alone and among others; certification needs a network that treats "
    "each image separately, without batch statistics or its own randomness, and steps that draw noise with "
    "ars.draw_like"
)
CHANGED = (
    "the model answers the same draws otherwise than before, so they are not votes of one classifier; certification "
    "needs a network that keeps nothing from one call to the next"
)


@torch.inference_mode()
def check_model(model: SmoothedClassifier, images: Images) -> Tensor:
    """Refuse a model, in eval mode and in float32, if its draws are found to depend on each other.

    Returns its answers to the first draws, for check_again.
    """
    for name, part in model.named_modules():
        if isinstance(part, _BatchNorm) and part.running_mean is None:
            raise ValueError(
                f"{name} is a BatchNorm without running statistics: the answer to a draw would depend on the others in "
                "its batch, and no bound would hold; train it with track_running_stats=True"
            )
    if any(is_lazy(parameter) for parameter in model.parameters()):
        raise ValueError("the model has lazy layers, whose weights do not exist yet; call it once before")
    first, draws = images[:IMAGES], _first_draws(images)
    with current(images.device), exact(), autocast(images.device, "float32"):
        random_state = _global_randomness(images.device)
        saved = _state(model.state_dict().values())
        together = _answer(model, draws, range(DRAWS))
        if together.isnan().any():
            raise ValueError(NOT_A_NUMBER)
        before = _state(_tensors(model))  # what is not saved, such as a cache, may be made by the first answer
        alone = _one_by_one(model, draws)
        if _global_randomness(images.device) != random_state:
            raise ValueError(
                "the model draws random numbers from torch's global generator, which draws may share; noise must come "
                "from the mechanism, which is given a generator"
            )
        if not (_same(saved, _state(model.state_dict().values())) and _same(before, _state(_tensors(model)))):
            raise ValueError(
                "the model changes its own weights or buffers while it answers, so its draws are not independent; "
                "certification needs a network that stays as it is (one that sets itself up first must be called once)"
            )
        _check_alike(model, draws, alone, images=len(first))
        if takes_generator(model.combine):
            _check_combination(model, draws[:1])
        if not moves(alone, images=len(first)) and (undecided := _undecided(model, images)) is not None:
            draws = undecided.repeat_interleave(DRAWS, dim=0)
            _check_alike(model, draws, _one_by_one(model, draws), images=1)
    return together


def _check_combination(model: SmoothedClassifier, image: Images) -> None:
    """Refuse a combination that gives the same randomness to draws of one generator, where releases are the same."""
    releases = [repeated(release, DRAWS) for release in model.mechanism.release(image, generators(image, [0]))]
    apart, at_once = (
        model.combined(releases, generators(image, seeds)).flatten(1) for seeds in (range(1, DRAWS + 1), [0])
    )
    ordered = apart.sort(dim=0).values
    random = (ordered[1:] != ordered[:-1]).all(dim=0)
    if any(bool((one == other).float().mean() > SHARED) for one, other in combinations(at_once[:, random], 2)):
        raise ValueError(
            "the combination of the releases gives the draws of one generator the same randomness, and no bound on "
            "their votes would hold; draw it with ars.draw_like, which asks for a tensor of many draws"
        )


@torch.inference_mode()
def check_again(model: SmoothedClassifier, images: Images, before: Tensor) -> None:
    """Refuse a model that answers the first draws of check_model otherwise than before."""
    with current(images.device), exact(), autocast(images.device, "float32"):
        now = _answer(model, _first_draws(images), range(DRAWS))
    if not alike(now, before, images=len(images[:IMAGES])):
        raise ValueError(CHANGED)


def _first_draws(images: Images) -> Images:
    first = images[:IMAGES]
    return first.repeat_interleave(DRAWS // len(first), dim=0)


@torch.inference_mode()
def check_counting(counter: VoteCounter, images: Images) -> None:
    """Refuse a model if its logits for a draw depend on the other draws in a batch of the size used in counting.

    The counter runs as it will: in its precision, with its kernels, at its batch size. Draws of an image are answered
    among more draws of it, as in counting, and among its negative and a plain image. At one size the same kernels are
    at work, so that what answers differ by is not rounding.
    """
    size, image = counter.batch(images), images[:1]
    far = torch.full_like(image, 0.0 if image.mean() > 0.5 else 1.0)
    while True:
        try:
            usual = _among(counter, image, image, image, size)
            other = if_it_can(_among, counter, image, 1 - image, far, size)
            if other is None:  # such images do not suit; other noise does
                other = _among(counter, image, image, image, size, attempt=1)
            break
        except Exception as error:
            if not is_short_of_memory(error) or size == BLOCK:
                raise
            size = max(BLOCK, size // 2 // BLOCK * BLOCK)  # as the counter does
    if not alike(usual, other, images=1, rounded_to=torch.float32):
        raise ValueError(TIED)


class Drift:
    """Does a model answer the same draws after counting as before? No more than 1% of n draws are repeated."""

    def __init__(self, counter: VoteCounter, images: Images, *, n: int) -> None:
        # fewer than a block, because batches of whole blocks may be compiled later and answer in other roundings
        self._draws = images[:1].expand(min(BLOCK - 1, max(LEAST_REPEATED, n // 100)), -1, -1, -1).clone()
        self._counter = counter
        self._before = self._answer()

    def check(self) -> None:
        """Refuse a model that has changed."""
        if not alike(self._answer(), self._before, images=1, rounded_to=torch.float32):
            raise ValueError(CHANGED)

    def _answer(self) -> Tensor:
        return self._counter.answer(self._draws, generators(self._draws, [0]))


def _among(counter: VoteCounter, image: Images, before: Images, after: Images, size: int, attempt: int = 0) -> Tensor:
    """The answers to half a block of draws of an image in the middle of a batch; their noise is the same each time."""
    run, middle = BLOCK // 2, size // 2
    batch = torch.cat([before.expand(middle, -1, -1, -1), after.expand(size - middle, -1, -1, -1)])
    batch[middle : middle + run] = image
    seeds = [attempt * size + number for number in range(size // run)]
    seeds[middle // run] = size // run
    return counter.answer(batch, generators(image, seeds))[middle : middle + run]


def _check_alike(model: SmoothedClassifier, draws: Images, alone: Tensor, *, images: int) -> None:
    """Refuse different logits in batches than alone, unless only rounding at another batch size differs."""
    batches = [draws, *(torch.cat([draws, torch.full_like(draws, level)]) for level in LEVELS)]
    answers = [if_it_can(_answer, model, batch, range(len(batch))) for batch in batches]
    rows = [answer[: len(alone)] for answer in answers if answer is not None]
    if all(alike(row, alone, images=images) for row in rows):
        return
    small = all(alike(row, alone, images=images, rounded_to=torch.bfloat16) for row in rows)
    # A network may compute in bf16 inside: then batches of one size use the same kernels and give equal bits.
    same_size = [row for row, batch in zip(answers, batches, strict=True) if row is not None and batch is not draws]
    if not (small and same_size and _takes_each_by_itself(model, draws, [row[: len(alone)] for row in same_size])):
        raise ValueError(TIED)


def _takes_each_by_itself(model: SmoothedClassifier, draws: Images, answers: Sequence[Tensor]) -> bool:
    """Whether draws get equal logits, to the last bit, at any place of a batch and among any other draws."""
    size, number = 2 * len(draws), len(draws)
    if any(not torch.equal(row, answers[0]) for row in answers):
        return False
    order = torch.arange(size).roll(number // 2 + 1)
    batch = torch.cat([draws, torch.full_like(draws, LEVELS[0])])
    moved = if_it_can(_answer, model, batch[order], order.tolist())
    if moved is None or not torch.equal(moved[order.argsort()][:number], answers[0]):
        return False
    for place, draw in enumerate(draws):
        for level in LEVELS:
            batch = torch.full_like(draws[:1], level).repeat(size, 1, 1, 1)
            batch[place] = draw
            row = if_it_can(_answer, model, batch, range(size))
            if row is not None and not torch.equal(row[place], answers[0][place]):
                return False
    return True


def _undecided(model: SmoothedClassifier, images: Images) -> Images | None:
    """An image whose logits vary over the draws, searched for between the given images and plain ones; None if none.

    If a model returns labels or certainties, those for clear images may hide a dependence on other draws.
    """
    plain = [torch.full_like(images[:1], level) for level in LEVELS]
    start, *others = [*(images[place : place + 1] for place in range(len(images[:PLACES]))), *plain, 1 - images[:1]]
    here = _winner(_one_by_one(model, start.repeat_interleave(DRAWS, dim=0)))
    for other in others:
        near, far, target = start, other, other
        for _ in range(HALVINGS):
            answers = if_it_can(_one_by_one, model, target.repeat_interleave(DRAWS, dim=0))
            if answers is None:
                break
            if moves(answers, images=1):
                return target
            if _winner(answers) == here:
                if target is other:
                    break
                near = target
            else:
                far = target
            target = (near + far) / 2
    return None


def _winner(logits: Tensor) -> int:
    return int(logits.argmax(dim=1).mode().values)


def _answer(model: SmoothedClassifier, images: Images, seeds: Sequence[int]) -> Tensor:
    """The logits of noisy images, each with its own seed; images that the model cannot take are reported."""
    try:
        logits = draw_logits(model, images, generators(images, seeds))
    except torch.OutOfMemoryError:
        raise
    except RuntimeError as error:  # sizes that do not fit, for example
        if is_short_of_memory(error):
            raise
        first = f"{type(error).__name__}: {error}".partition("\n")[0]
        raise ValueError(f"the model cannot take images of shape {list(images.shape[1:])}: {first}") from error
    return logits.clone()  # the model may write its next output into the same memory


def _one_by_one(model: SmoothedClassifier, images: Images) -> Tensor:
    return torch.cat([_answer(model, images[seed : seed + 1], [seed]) for seed in range(len(images))])


def _state(values: Iterable[object]) -> dict[torch.device, Tensor]:
    """The bytes of the dense tensors among these values; a module may add others to its state dict."""
    tensors = [value for value in values if isinstance(value, Tensor) and not value.is_meta and not is_lazy(value)]
    dense = [tensor for tensor in tensors if tensor.layout is torch.strided and not tensor.is_quantized]
    return {
        device: torch.cat([part.flatten().view(torch.uint8) for part in dense if part.device == device])
        for device in {tensor.device for tensor in dense}
    }


def _tensors(model: SmoothedClassifier) -> list[Tensor]:
    """Weights and buffers, saved or not, but for the references of input-dependent noise, which may be large."""
    shared = {id(part.references) for part in model.modules() if isinstance(part, NearestNoise)}
    return [tensor for tensor in (*model.parameters(), *model.buffers()) if id(tensor) not in shared]


def _same(before: dict[torch.device, Tensor], now: dict[torch.device, Tensor]) -> bool:
    """Whether two states are the same, byte by byte."""
    return before.keys() == now.keys() and all(torch.equal(part, now[device]) for device, part in before.items())


def _global_randomness(device: torch.device) -> list[bytes]:
    """The states of torch's global generators."""
    states = [torch.get_rng_state()]
    if device.type == "cuda":
        states.append(torch.cuda.get_rng_state(device))
    return [state.numpy().tobytes() for state in states]
