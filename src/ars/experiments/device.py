"""Where things run, and in which precision."""

import os
from typing import Literal

import torch

from ars.certification.sampling import Precision
from ars.data.decoded import cores


def choose_device(name: str, local_rank: int | None = None) -> torch.device:
    """auto takes a GPU where torch sees one; anything else is a torch device name.

    Among several processes on a machine, each takes the GPU of its local rank unless one was named by its number.
    """
    if name in ("auto", "cuda") and torch.cuda.is_available():
        if local_rank is None:
            return torch.device("cuda")
        device = torch.device("cuda", local_rank % torch.cuda.device_count())
        torch.cuda.set_device(device)
        return device
    if name == "auto":
        name = "mps" if torch.backends.mps.is_available() else "cpu"
    try:
        device = torch.device(name)
        torch.zeros(1, device=device).item()  # "meta" holds no numbers
    except (RuntimeError, AssertionError) as error:
        raise ValueError(f"torch cannot use the device {name!r} here; try --device cpu") from error
    if device.type == "cuda":
        torch.cuda.set_device(device)  # where kernels are launched
    if device.type == "cpu":
        leave_a_core()
    return device


def leave_a_core() -> None:
    """Leave one core to the rest of the machine, unless OMP_NUM_THREADS says how many threads to use.

    torch's threads wait for each other after every operation. On two cores the second thread gains a fifth while
    nothing else runs, and makes everything 4 to 70 times slower as soon as something does.
    """
    if "OMP_NUM_THREADS" not in os.environ:
        torch.set_num_threads(max(1, min(torch.get_num_threads(), cores() - 1)))


def choose_precision(name: Literal["float32", "bfloat16", "auto"], device: torch.device) -> Precision:
    """auto is bfloat16 where the device computes in it natively."""
    if name != "auto":
        return name
    if device.type == "cuda":
        return "bfloat16" if torch.cuda.is_bf16_supported(including_emulation=False) else "float32"
    native = device.type == "cpu" and torch.ops.mkldnn._is_mkldnn_bf16_supported()
    return "bfloat16" if native else "float32"
