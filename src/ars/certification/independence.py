"""Whether the draws of a batch are independent of each other: without that no bound holds."""

from weakref import WeakKeyDictionary, ref

import torch
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm

from ars.certification.evaluating import evaluating
from ars.certification.network_state import changed_by_hand, checksum, is_familiar, state
from ars.smoothing import SmoothedClassifier, last, minimum_variance
from ars.smoothing.mechanism import Images

DRAWS = 8
IMAGES = 2
CONTENDERS = 100  # classes that are compared, the leading ones; others win nothing
SAME = 0.05  # of the spread over the draws: more than batches of another size round, less than a class needs to win
ROUNDING = 16  # units in the last place of the two logits compared
RULED_OUT = 1e30  # in the place of infinite logits, whose differences are no numbers

NO_NUMBERS = "the classifier gave logits that are no numbers (NaN), which vote for nothing; mend it first"

# what a classifier of familiar parts was last tried with
_TRIED: WeakKeyDictionary[nn.Module, object] = WeakKeyDictionary()


def check_independent(model: SmoothedClassifier, images: Images) -> None:
    """Refuse a model whose answer to a draw changes with the others in its batch.

    The same draws are answered together and one by one. Masks and anything else that the model does on the way take
    part. A model of torch's and our own layers is tried again when it or the size of the images has changed; of any
    other nobody knows what it looks at, and it is tried each time.
    """
    for name, part in model.named_modules():
        if isinstance(part, _BatchNorm) and part.running_mean is None:
            raise ValueError(
                f"{name} is a BatchNorm without running statistics: the answer to a draw would depend on the others in "
                "its batch, and no bound would hold; train it with track_running_stats=True"
            )
    if not _is_familiar(model):
        _try(model, images)
    elif _TRIED.get(model.classifier) != (now := (_parts(model), images.shape[1:], images.device)):
        _try(model, images)
        _TRIED[model.classifier] = now


def check_logits(logits: object, images: int) -> None:
    """Refuse what no vote can be counted from; whether all are numbers is not looked at."""
    if not isinstance(logits, Tensor) or logits.ndim != 2 or logits.shape[1] < 2:
        got = list(logits.shape) if isinstance(logits, Tensor) else type(logits).__name__
        raise ValueError(f"the classifier must give [b, classes] logits of two or more classes, got {got}")
    if len(logits) != images:
        raise ValueError(f"the classifier must answer each image once, got {len(logits)} answers to {images} images")


@torch.inference_mode()
def _try(model: SmoothedClassifier, images: Images) -> None:
    some = images[:IMAGES]
    batch = some.repeat_interleave(DRAWS // len(some), dim=0)
    noise = range(len(batch))
    numbers = [*model.parameters(), *model.buffers()]

    def answer(rows: slice) -> Tensor:
        generators = [torch.Generator(images.device).manual_seed(draw) for draw in noise[rows]]
        try:
            logits: Tensor = model(batch[rows], generators)
        except torch.OutOfMemoryError:
            raise
        except RuntimeError as error:  # torch's word for sizes that do not fit, among others
            first = f"{type(error).__name__}: {error}".partition("\n")[0]
            raise ValueError(f"the model cannot take images of shape {list(batch.shape[1:])}: {first}") from error
        check_logits(logits, len(generators))
        return logits

    with evaluating(model), torch.backends.cudnn.flags(enabled=True, allow_tf32=False):
        dice = _global_randomness(images.device)  # now: other threads may have thrown them while this one waited
        together = answer(slice(None))
        if together.isnan().any():
            raise ValueError(NO_NUMBERS)
        before = checksum(numbers)
        alone = torch.cat([answer(slice(draw, draw + 1)) for draw in noise])
        thrown = _global_randomness(images.device) != dice
    if thrown:
        raise ValueError(
            "the model draws random numbers of its own from torch's global generator, which draws may share; noise "
            "must come from the mechanism, which is given a generator"
        )
    if checksum(numbers) != before:
        raise ValueError(
            "the model changes its own weights or buffers while it answers, so that its draws hang together; "
            "certification needs a network that stays as it is"
        )
    if not alike(together, alone, images=len(some)):
        raise ValueError(
            "the model answers otherwise to a noisy image alone than among others; certification needs a network that "
            "takes each image by itself, without statistics of the batch and without randomness of its own, and steps "
            "whose noise is drawn with ars.draw_like"
        )


def _global_randomness(device: torch.device) -> list[bytes]:
    """Where torch's global generators stand."""
    states = [torch.get_rng_state()]
    if device.type == "cuda":
        states.append(torch.cuda.get_rng_state(device))
    return [state.numpy().tobytes() for state in states]


def alike(one: Tensor, other: Tensor, *, images: int) -> bool:
    """Whether two answers to the same draws, of so many images one after another, differ by rounding at most.

    Votes hang on the gaps between classes. How far a gap may be off is measured by how far it moves over the draws of
    the same image: what all classes share, what differs between images, and classes that never win are no yardstick.
    """
    exact = torch.finfo(one.dtype).eps if one.is_floating_point() else 0.0
    one, other = (it.double().nan_to_num(torch.nan, RULED_OUT, -RULED_OUT) for it in (one, other))
    leading = torch.maximum(one, other).amax(dim=0).topk(min(CONTENDERS, one.shape[1])).indices
    one, other = one[:, leading], other[:, leading]
    by_image = (images, len(one) // images, one.shape[1], one.shape[1])
    gaps = (one.unsqueeze(2) - one.unsqueeze(1)).view(by_image)
    moved = (other.unsqueeze(2) - other.unsqueeze(1)).view(by_image)
    sizes = (one.abs().unsqueeze(2) + one.abs().unsqueeze(1)).view(by_image)
    away = (gaps - gaps.median(dim=1, keepdim=True).values).abs()
    spread = away.kthvalue(3 * gaps.shape[1] // 4, dim=1, keepdim=True).values  # a few draws far away do not count
    return bool(((gaps - moved).abs() <= SAME * spread + ROUNDING * exact * sizes).all())  # no number is not alike


def _is_familiar(model: SmoothedClassifier) -> bool:
    """Whether what a model computes is told by its parts, their settings and their numbers alone."""
    usual = model.combine in (last, minimum_variance) and not changed_by_hand(model)
    return usual and all(map(is_familiar, model.modules()))


def _parts(model: SmoothedClassifier) -> object:
    """What a model consists of; mechanisms that an image has of its own differ in their own numbers only.

    Parts by weak references: a new part may lie where an old one lay, but is never equal to it.
    """
    networks = [model.classifier, *(part for step in model.mechanism.steps for part in step.children())]
    steps = [type(step) for step in model.mechanism.steps]
    return type(model), model.combine, steps, [(*map(ref, it.modules()), state(it)) for it in networks]
