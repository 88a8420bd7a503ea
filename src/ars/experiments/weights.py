"""Weights rounded to bf16 before they are certified, so that a file of half the size holds the classifier as certified.

bf16 has the exponents of float32, so that nothing under- or overflows, and 8 bits of mantissa: every weight, and every
BatchNorm statistic, moves by at most 1/256 of itself. Integers and float64 tensors are left alone.
"""

import json
from collections.abc import Mapping
from pathlib import Path

import torch
from safetensors.torch import save
from torch import Tensor

from ars.training.checkpoint import load_tensors, save_tensors


def round_weights(path: Path) -> None:
    """Round the weights of a run in place; they stay float32, and the file is whole at any moment."""
    tensors, about = load_tensors(path)
    save_tensors(path, rounded(tensors), {**about, "weights": "bf16"})


def packed_weights(path: Path) -> bytes:
    """The file of a run's weights as small as it gets without changing any: rounded ones as bf16."""
    tensors, about = load_tensors(path)
    if "weights" not in about:
        return path.read_bytes()
    for name, tensor in rounded(tensors).items():
        if not torch.equal(tensors[name], tensor):
            raise ValueError(f"{path} says that its weights were rounded, but {name} was not; train the run again")
    return save({name: halved(tensor) for name, tensor in tensors.items()}, metadata={"about": json.dumps(about)})


def rounded(tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """The tensors with their own types, rounded."""
    return {name: halved(tensor).to(tensor.dtype) for name, tensor in tensors.items()}


def halved(tensor: Tensor) -> Tensor:
    """float32 as bf16, rounded to nearest; any other type as it is."""
    return tensor.to(torch.bfloat16) if tensor.dtype == torch.float32 else tensor
