"""Checkpoints: safetensors for tensors and JSON for the rest; nothing that can execute code is ever loaded."""

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor, nn
from torch.optim import Optimizer

from ars.atomic import whole

OF_MODEL = "model/"  # prefix of the model's tensors in a checkpoint

ADVICE = "restore a copy, or train the run again in another folder"


class CheckpointError(ValueError):
    """A checkpoint that is missing, damaged or of another recipe."""


def save_tensors(path: Path, tensors: Mapping[str, Tensor], about: Mapping[str, Any]) -> None:
    """Write tensors with a JSON header through a temporary file: the old file stays until the new one is whole."""
    with whole(path) as temporary:
        temporary.touch()
        permissions = temporary.stat().st_mode
        try:
            save_file(unshared(tensors), temporary, metadata={"about": json.dumps(about)})
        except SafetensorError as error:  # a full disk, for example
            raise OSError(str(error)) from error
        temporary.chmod(permissions)  # safetensors makes files that only their owner can read


def unshared(tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Each tensor contiguous and in separate memory, as safetensors requires; tied weights are copied."""
    seen: set[int] = set()
    separate = {}
    for name, tensor in tensors.items():
        whole = tensor.detach().contiguous()
        separate[name] = whole.clone() if whole.untyped_storage().data_ptr() in seen else whole
        seen.add(separate[name].untyped_storage().data_ptr())
    return separate


def load_tensors(path: Path, *, advice: str = ADVICE) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """Read the file of save_tensors; advice ends the error message for any other file."""
    with _opened(path, advice) as file:
        about = json.loads((file.metadata() or {}).get("about", "{}"))
        return {name: file.get_tensor(name) for name in file.keys()}, about  # noqa: SIM118


def check_whole(path: Path) -> None:
    """Refuse a damaged or incomplete file, by its header alone: no tensor is read."""
    with _opened(path, ADVICE):
        pass


@contextmanager
def _opened(path: Path, advice: str) -> Iterator[Any]:
    if not path.is_file():
        raise CheckpointError(f"there is no checkpoint at {path}; train the run first (ars train)")
    path.open("rb").close()  # safetensors would not report missing permissions
    try:
        with safe_open(path, framework="pt") as file:
            yield file
    except (SafetensorError, OSError, ValueError) as error:
        raise CheckpointError(f"{path} is damaged or not a safetensors file ({error}); {advice}") from error


def under(tensors: Mapping[str, Tensor], prefix: str) -> dict[str, Tensor]:
    """The tensors whose names start with the prefix, without it."""
    return {name.removeprefix(prefix): tensor for name, tensor in tensors.items() if name.startswith(prefix)}


def misfits(model: nn.Module, tensors: Mapping[str, Tensor]) -> list[str]:
    """The names of missing and unexpected tensors, or if there are none, of those with another shape."""
    expected = model.state_dict()
    return sorted(expected.keys() ^ tensors.keys()) or sorted(
        name for name, tensor in tensors.items() if tensor.shape != expected[name].shape
    )


def load_model(model: nn.Module, tensors: Mapping[str, Tensor], path: Path) -> None:
    """Load the weights, whose names and shapes must be those of the recipe's model."""
    wrong = misfits(model, tensors)
    if wrong:
        raise CheckpointError(
            f"{path} was made by another recipe: {len(wrong)} tensors do not fit, such as {wrong[0]}; "
            "use the recipe.yaml beside it"
        )
    model.load_state_dict(dict(tensors))


def optimizer_tensors(optimizers: Mapping[str, Optimizer]) -> dict[str, Tensor]:
    """The state of the optimisers as named tensors."""
    return {
        f"{name}.{index}.{key}": value
        for name, optimizer in optimizers.items()
        for index, state in optimizer.state_dict()["state"].items()
        for key, value in state.items()
        if isinstance(value, Tensor)
    }


def load_optimizers(optimizers: Mapping[str, Optimizer], tensors: Mapping[str, Tensor]) -> None:
    """Restore the named tensors; the learning rates come from the recipe.

    Each gets the memory layout of its parameter, which fused optimisers require.
    """
    for name, optimizer in optimizers.items():
        state: dict[int, dict[str, Tensor]] = {}
        for full_name, tensor in tensors.items():
            owner, index, key = full_name.split(".")
            if owner == name:
                state.setdefault(int(index), {})[key] = tensor
        optimizer.load_state_dict({"state": state, "param_groups": optimizer.state_dict()["param_groups"]})
        for parameter, loaded in optimizer.state.items():
            for key, value in loaded.items():
                if value.shape == parameter.shape and value.stride() != parameter.stride():
                    loaded[key] = torch.empty_like(parameter).copy_(value)
