"""How many draws a device makes at once, and how much of its memory they may take."""

import torch

from ars.certification.limits import BLOCK
from ars.smoothing.mechanism import Images

GIB = 2**30
# draws of so many pixels fill a GPU; more gain nothing, and the kernels count in 32 bits
GPU_PIXELS = 2**24
# ... and about fill the caches of a CPU
CPU_PIXELS = 2**19
# what a pixel of a draw takes, amply, in the networks of the paper
BYTES_A_PIXEL = 512
# by CUDA device: bytes that torch may allocate
_LIMITS: dict[int, int] = {}


def limit_memory(device: torch.device, gib: float) -> None:
    """Let torch allocate at most so much of a CUDA device in this process, whoever else uses the device.

    The allocator itself keeps to it, so that the peak stays below whatever runs: a batch that would need more is
    halved. CUDA's own context and code, some hundred MB, are not torch's and come on top.
    """
    if device.type != "cuda":
        raise ValueError(f"a memory limit needs a CUDA device, got {device}; leave it out")
    total = torch.cuda.get_device_properties(device).total_memory
    if not 0 < gib * GIB <= total:
        raise ValueError(f"the memory limit must be above 0 and at most {total / GIB:.1f} GiB, got {gib} GiB")
    torch.cuda.set_per_process_memory_fraction(gib * GIB / total, _number(device))
    _LIMITS[_number(device)] = int(gib * GIB)


def suitable_batch(images: Images) -> int:
    """How many draws of these images to make at once: whole blocks, at least one."""
    pixels = CPU_PIXELS
    if images.device.type == "cuda":
        pixels = min(GPU_PIXELS, _free(images.device) // BYTES_A_PIXEL)
    elif images.device.type != "cpu":
        pixels = GPU_PIXELS // 8
    return max(1, pixels // images[0, 0].numel() // BLOCK) * BLOCK


def _free(device: torch.device) -> int:
    """Bytes that torch can still take on a CUDA device."""
    own = torch.cuda.memory_reserved(device) - torch.cuda.memory_allocated(device)
    free = torch.cuda.mem_get_info(device)[0] + own
    limit = _LIMITS.get(_number(device))
    return free if limit is None else min(free, limit - torch.cuda.memory_allocated(device))


def _number(device: torch.device) -> int:
    return torch.cuda.current_device() if device.index is None else device.index
