"""Other libraries' models and datasets, as ars takes them: images in [0, 1] before the noise, the rest behind it."""

from typing import TYPE_CHECKING

from ars.lazy import lazily

if TYPE_CHECKING:
    from ars.adapters.adapted import Adapted
    from ars.adapters.timm import from_timm
    from ars.adapters.transformers import from_transformers

__all__ = ["Adapted", "from_timm", "from_transformers"]

_HOMES = {
    "ars.adapters.adapted": ("Adapted",),
    "ars.adapters.timm": ("from_timm",),
    "ars.adapters.transformers": ("from_transformers",),
}
__getattr__, __dir__ = lazily(__name__, _HOMES)
