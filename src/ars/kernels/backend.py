"""Whether the machine can compile kernels, and context managers for cuDNN settings."""

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from typing import Any

import torch


def can_compile() -> bool:
    """Whether Triton is installed and will find a C compiler for its launchers; on Windows it brings its own.

    Otherwise torch runs the networks: more slowly, with equally valid certificates.
    """
    if not find_spec("triton"):
        return False
    return os.name == "nt" or bool(os.environ.get("CC") or shutil.which("gcc") or shutil.which("clang"))


@contextmanager
def choosing() -> Iterator[None]:
    """Let cuDNN measure its algorithms and choose the fastest, because the same shapes repeat."""
    before = torch.backends.cudnn.benchmark
    torch.backends.cudnn.benchmark = True
    try:
        yield
    finally:
        torch.backends.cudnn.benchmark = before


@contextmanager
def exact() -> Iterator[None]:
    """Compute float32 convolutions in float32, without TF32."""
    owner: Any = torch.backends.cudnn
    name: str = "allow_tf32"
    value: object = False
    if hasattr(owner, "conv"):  # the newer setting; once it was used, the older one cannot be read
        owner, name, value = owner.conv, "fp32_precision", "ieee"
    before = getattr(owner, name)
    setattr(owner, name, value)
    try:
        yield
    finally:
        setattr(owner, name, before)
