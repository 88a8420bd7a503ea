"""The methods that are compared, each a short recipe on the parts of ``ars.smoothing``."""

from ars.methods.adaptive import adaptive
from ars.methods.cohen import cohen
from ars.methods.static_mask import static_mask
from ars.methods.sukenik import sukenik
from ars.methods.unicr import unicr

__all__ = ["adaptive", "cohen", "static_mask", "sukenik", "unicr"]
