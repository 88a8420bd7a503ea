"""How many draws a device makes at once, and how much memory they may use; does not import torch at the top."""

from typing import TYPE_CHECKING

from ars.certification.settings import BLOCK

if TYPE_CHECKING:
    import torch

    from ars.smoothing.mechanism import Images

GIB = 2**30
# draws with this many pixels fill a GPU; more gain nothing, and the kernels count in 32 bits
GPU_PIXELS = 2**24
# draws with this many pixels about fill the caches of a CPU
CPU_PIXELS = 2**19
# a generous estimate of the memory per pixel of a draw in the paper's networks
BYTES_PER_PIXEL = 512
# the same with what a backward pass needs
BYTES_WITH_GRADIENTS = 8192
# bytes that torch may allocate in this process, by CUDA device; torch's own limit is per process too
_LIMITS: dict[int, int] = {}


def limit_memory(device: "torch.device", gib: float) -> None:
    """Let torch allocate at most this much of a CUDA device in this process.

    The allocator itself enforces the limit: a batch that would need more is halved. CUDA's own context and code need
    some hundred MB more.
    """
    import torch

    if device.type != "cuda":
        raise ValueError(f"a memory limit needs a CUDA device, got {device}; leave it out")
    total = torch.cuda.get_device_properties(device).total_memory
    if not 0 < gib * GIB <= total:
        raise ValueError(f"the memory limit must be above 0 and at most {total / GIB:.1f} GiB, got {gib} GiB")
    torch.cuda.set_per_process_memory_fraction(gib * GIB / total, _number(device))
    _LIMITS[_number(device)] = int(gib * GIB)


def suitable_batch(images: "Images", *, gradients: bool = False) -> int:
    """How many draws of these images to make at once: whole blocks, at least one."""
    pixels = CPU_PIXELS
    if images.device.type == "cuda":
        per_pixel = BYTES_WITH_GRADIENTS if gradients else BYTES_PER_PIXEL
        pixels = min(GPU_PIXELS, _free(images.device) // per_pixel)
    elif images.device.type != "cpu":
        pixels = GPU_PIXELS // 8
    return max(1, pixels // images[0, 0].numel() // BLOCK) * BLOCK


def is_short_of_memory(error: Exception) -> bool:
    """Whether torch ran out of memory; only on a GPU does it raise a special class of error."""
    return type(error).__name__ == "OutOfMemoryError" or "can't allocate memory" in str(error)


def _free(device: "torch.device") -> int:
    """Bytes that torch can still take on a CUDA device."""
    import torch

    reserved = torch.cuda.memory_reserved(device) - torch.cuda.memory_allocated(device)
    free = torch.cuda.mem_get_info(device)[0] + reserved
    limit = _LIMITS.get(_number(device))
    return free if limit is None else min(free, limit - torch.cuda.memory_allocated(device))


def _number(device: "torch.device") -> int:
    import torch

    return torch.cuda.current_device() if device.index is None else device.index
