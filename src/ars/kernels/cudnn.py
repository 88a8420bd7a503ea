"""Settings of cuDNN for a while; all others stay as the caller has set them, by torch's older or newer names."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch


@contextmanager
def choosing() -> Iterator[None]:
    """Within, cuDNN tries its algorithms and keeps the fastest: the same shapes come again and again."""
    before = torch.backends.cudnn.benchmark
    torch.backends.cudnn.benchmark = True
    try:
        yield
    finally:
        torch.backends.cudnn.benchmark = before


@contextmanager
def exact() -> Iterator[None]:
    """Within, convolutions of float32 are float32, without TF32."""
    owner: Any = torch.backends.cudnn
    name: str = "allow_tf32"
    value: object = False
    if hasattr(owner, "conv"):  # the newer name, beside which the older one cannot be read once it was used
        owner, name, value = owner.conv, "fp32_precision", "ieee"
    before = getattr(owner, name)
    setattr(owner, name, value)
    try:
        yield
    finally:
        setattr(owner, name, before)
