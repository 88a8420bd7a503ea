"""Whether the draws of a batch are independent of each other: without that no bound holds."""

from weakref import WeakKeyDictionary, ref

from torch import nn
from torch.nn.modules.batchnorm import _BatchNorm

from ars.certification.network_state import changed_by_hand, is_familiar, state, tensors_of
from ars.certification.plain_tensors import plain_parts
from ars.certification.trial import try_out
from ars.smoothing import SmoothedClassifier, last, minimum_variance
from ars.smoothing.mechanism import Images

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
        try_out(model, images)
    elif _TRIED.get(model.classifier) != (now := (_parts(model), images.shape[1:], images.device)):
        try_out(model, images)
        _TRIED[model.classifier] = now


def _is_familiar(model: SmoothedClassifier) -> bool:
    """Whether what a model computes is told by its parts, their settings and their numbers alone."""
    usual = model.combine in (last, minimum_variance) and not changed_by_hand(model)
    told = all(plain_parts(tensor) is not None for tensor in tensors_of(model))
    return usual and told and all(map(is_familiar, model.modules()))


def _parts(model: SmoothedClassifier) -> object:
    """What a model consists of; mechanisms that an image has of its own differ in their own numbers only.

    Parts by weak references: a new part may lie where an old one lay, but is never equal to it.
    """
    networks = [model.classifier, *(part for step in model.mechanism.steps for part in step.children())]
    steps = [type(step) for step in model.mechanism.steps]
    return type(model), model.combine, steps, [(*map(ref, it.modules()), state(it)) for it in networks]
