"""The precision of the networks: where bf16 is decided, and context managers to run in it."""

from contextlib import AbstractContextManager, nullcontext
from typing import Literal, get_args

import torch

Precision = Literal["float32", "bfloat16"]
PRECISIONS: tuple[Precision, ...] = get_args(Precision)


def choose_precision(name: Literal["float32", "bfloat16", "auto"], device: torch.device) -> Precision:
    """The precision of a setting on a device: auto is bfloat16 if the device supports it natively."""
    if name != "auto":
        check_precision(name)
        return name
    if device.type == "cuda":
        return "bfloat16" if torch.cuda.is_bf16_supported(including_emulation=False) else "float32"
    native = device.type == "cpu" and torch.ops.mkldnn._is_mkldnn_bf16_supported()
    return "bfloat16" if native else "float32"


def check_precision(precision: str) -> None:
    """Refuse an unknown precision."""
    if precision not in PRECISIONS:
        raise ValueError(f"precision must be one of {', '.join(PRECISIONS)}, got {precision!r}")


def autocast(device: torch.device, precision: Precision) -> AbstractContextManager[object]:
    """Run the networks in this precision, even inside the caller's own autocast.

    Noise and masking stay in float32 inside the mechanism.
    """
    check_precision(precision)
    if precision == "bfloat16":
        return torch.autocast(device.type, dtype=torch.bfloat16)
    return torch.autocast(device.type, enabled=False)


def current(device: torch.device) -> AbstractContextManager[object]:
    """Launch kernels on this GPU within the block."""
    return torch.cuda.device(device) if device.type == "cuda" else nullcontext()
