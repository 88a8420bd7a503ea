"""Whether the draws of a batch are independent of each other: without that no bound holds."""

from weakref import WeakKeyDictionary, ref

import torch
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm

from ars.certification.evaluating import evaluating
from ars.certification.network_state import changed_by_hand, state
from ars.smoothing import SmoothedClassifier
from ars.smoothing.mechanism import Images

DRAWS = 8
IMAGES = 2
SAME = 0.05  # of the spread over the draws: more than batches of another size round, less than a class needs to win
ROUNDING = 16  # units in the last place of the largest logit

NO_NUMBERS = "the classifier gave logits that are no numbers (NaN), which vote for nothing; mend it first"

# what a classifier was last tried with
_TRIED: WeakKeyDictionary[nn.Module, object] = WeakKeyDictionary()


def check_independent(model: SmoothedClassifier, images: Images) -> None:
    """Refuse a model whose answer to a draw changes with the others in its batch.

    The same draws are answered together and one by one: once, and again where the model or the size of the images has
    changed since. Masks and anything else that the model does on the way take part.
    """
    for name, part in model.named_modules():
        if isinstance(part, _BatchNorm) and part.running_mean is None:
            raise ValueError(
                f"{name} is a BatchNorm without running statistics: the answer to a draw would depend on the others in "
                "its batch, and no bound would hold; train it with track_running_stats=True"
            )
    now = (_parts(model), images.shape[1:], images.device)
    if changed_by_hand(model) or _TRIED.get(model.classifier) != now:
        _try(model, images)
        _TRIED[model.classifier] = now


def check_logits(logits: object) -> None:
    """Refuse what no vote can be counted from; whether all are numbers is not looked at."""
    if not isinstance(logits, Tensor) or logits.ndim != 2 or logits.shape[1] < 2:
        got = list(logits.shape) if isinstance(logits, Tensor) else type(logits).__name__
        raise ValueError(f"the classifier must give [b, classes] logits of two or more classes, got {got}")


@torch.inference_mode()
def _try(model: SmoothedClassifier, images: Images) -> None:
    some = images[:IMAGES]
    batch = some.repeat_interleave(DRAWS // len(some), dim=0)
    noise = range(len(batch))

    def answer(rows: slice) -> Tensor:
        generators = [torch.Generator(images.device).manual_seed(draw) for draw in noise[rows]]
        return model(batch[rows], generators)  # type: ignore[no-any-return]

    with evaluating(model), torch.backends.cudnn.flags(enabled=True, allow_tf32=False):
        together = answer(slice(None))
        check_logits(together)
        if together.isnan().any():
            raise ValueError(NO_NUMBERS)
        alone = torch.cat([answer(slice(draw, draw + 1)) for draw in noise])
    exact = torch.finfo(together.dtype).eps if together.is_floating_point() else 0.0
    together, alone = together.float(), alone.float()
    rounding = ROUNDING * exact * together.abs().max()
    if ((together - alone).abs() > SAME * together.std(dim=0) + rounding).any():
        raise ValueError(
            "the model answers otherwise to a noisy image alone than among others; certification needs a network that "
            "takes each image by itself, without statistics of the batch and without randomness of its own"
        )


def _parts(model: SmoothedClassifier) -> object:
    """What a model consists of; mechanisms that an image has of its own differ in their own numbers only.

    Parts by weak references: a new part may lie where an old one lay, but is never equal to it.
    """
    networks = [model.classifier, *(part for step in model.mechanism.steps for part in step.children())]
    steps = [type(step) for step in model.mechanism.steps]
    return type(model), _combine(model), steps, [(*map(ref, it.modules()), state(it)) for it in networks]


def _combine(model: SmoothedClassifier) -> object:
    try:
        return ref(model.combine)
    except TypeError:  # cannot be referred to, so it is tried each time
        return object()
