"""Whether a model can be asked in the precision that its votes are counted in."""

from weakref import WeakKeyDictionary

import torch

from ars.certification.sampling import Precision, count_votes, watched
from ars.certification.shortage import is_short_of_memory
from ars.smoothing import SmoothedClassifier
from ars.smoothing.mechanism import Images

# images of which shape, and where, a model has answered for
_ANSWERED: WeakKeyDictionary[SmoothedClassifier, set[object]] = WeakKeyDictionary()


def check_precision(model: SmoothedClassifier, images: Images, precision: Precision) -> None:
    """Refuse, before any vote is counted, a model that answers in float32 alone; once, with a block of draws.

    Under autocast a network meets numbers of other types than it was written with.
    """
    asked = (precision, images.shape[1:], images.device)
    if precision == "float32" or asked in _ANSWERED.get(model, ()):
        return
    try:
        with watched(lambda draws: None):
            count_votes(model, images[:1], [0], n=1, stage="select", seed=0, precision=precision)
    except torch.OutOfMemoryError:
        raise
    except Exception as error:  # anybody's code
        if is_short_of_memory(error):
            raise
        first = f"{type(error).__name__}: {error}".partition("\n")[0].rstrip(": ")
        raise ValueError(
            f"the model answers in float32 but not in {precision} ({first}); ask for float32 (--precision float32)"
        ) from error
    _ANSWERED.setdefault(model, set()).add(asked)
