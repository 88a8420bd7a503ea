"""Mean and standard deviation of training inputs, from exact counts of bytes, and kept once computed."""

import hashlib
import json
from collections.abc import Callable, Iterable
from contextlib import suppress

import torch
from jaxtyping import Float64, Int64, UInt8
from torch import Tensor

from ars.certification.writing import write_whole
from ars.data.errors import DataError
from ars.data.locations import cache_to_write, cached

Moments = tuple[list[float], list[float]]


def byte_moments(batches: Iterable[UInt8[Tensor, "_ c h w"]]) -> Moments:
    """Mean and standard deviation of each channel in units of [0, 1]; exact, so the same on every device."""
    counts: Int64[Tensor, "c 256"] | None = None
    for batch in batches:
        new = torch.stack([torch.bincount(channel.flatten(), minlength=256) for channel in batch.unbind(1)]).cpu()
        counts = new if counts is None else counts + new
    if counts is None:
        raise ValueError("the moments of no images are undefined")
    values: Float64[Tensor, " 256"] = torch.arange(256, dtype=torch.float64) / 255
    share = counts.double() / counts.sum(dim=1, keepdim=True)
    mean = share @ values
    variance = share @ values.square() - mean.square()
    return mean.tolist(), variance.clamp_min(0).sqrt().tolist()


def kept_moments(identity: str, batches: Callable[[], Iterable[UInt8[Tensor, "_ c h w"]]]) -> Moments:
    """The moments of these batches, read from the cache where they were computed before.

    identity names all that decides the inputs; another one is another file.
    """
    name = f"moments-{hashlib.sha256(identity.encode()).hexdigest()[:16]}.json"
    if (path := cached(name)) is not None:
        try:
            content = json.loads(path.read_text(encoding="utf-8"))
            return [float(value) for value in content["mean"]], [float(value) for value in content["std"]]
        except (ValueError, KeyError, TypeError):
            pass  # a damaged cache is computed again
    mean, std = byte_moments(batches())
    with suppress(OSError, DataError):  # nowhere to keep them: they are computed again next time
        write_whole(cache_to_write() / name, json.dumps({"mean": mean, "std": std, "of": identity}))
    return mean, std
