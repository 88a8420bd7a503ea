"""Where things run, and in which precision."""

from typing import Literal

import torch

from ars.certification.sampling import Precision


def choose_device(name: str) -> torch.device:
    """auto takes a GPU where torch sees one; anything else is a torch device name."""
    if name == "auto":
        if torch.cuda.is_available():
            return torch.device("cuda")
        return torch.device("mps" if torch.backends.mps.is_available() else "cpu")
    try:
        device = torch.device(name)
        torch.empty(0, device=device)
    except (RuntimeError, AssertionError) as error:
        raise ValueError(f"torch cannot use the device {name!r} here; try --device cpu") from error
    return device


def choose_precision(name: Literal["float32", "bfloat16", "auto"], device: torch.device) -> Precision:
    """auto is bfloat16 where the device computes in it natively."""
    if name != "auto":
        return name
    if device.type == "cuda":
        return "bfloat16" if torch.cuda.is_bf16_supported() else "float32"
    native = device.type == "cpu" and torch.ops.mkldnn._is_mkldnn_bf16_supported()
    return "bfloat16" if native else "float32"
