"""Tensors in safetensors files: models and checkpoints; nothing that can execute code is ever loaded."""

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from ars.atomic import whole
from ars.untrusted import parse_json

if TYPE_CHECKING:
    from torch import Tensor, nn

OF_MODEL = "model/"  # prefix of the model's tensors in a checkpoint

ADVICE = "restore a copy, or train the run again in another folder"


class CheckpointError(ValueError):
    """A checkpoint that is missing, damaged or of another recipe."""


def save_tensors(path: Path, tensors: "Mapping[str, Tensor]", about: Mapping[str, Any]) -> None:
    """Write tensors with a JSON header through a temporary file: the old file stays until the new one is whole."""
    from safetensors import SafetensorError
    from safetensors.torch import save_file  # imports torch

    with whole(path) as temporary:
        temporary.touch()
        permissions = temporary.stat().st_mode
        try:
            save_file(_separate(tensors), temporary, metadata={"about": json.dumps(about)})
        except SafetensorError as error:  # a full disk, for example
            raise OSError(str(error)) from error
        temporary.chmod(permissions)  # safetensors makes files that only their owner can read


def _separate(tensors: "Mapping[str, Tensor]") -> "dict[str, Tensor]":
    """Each tensor contiguous and in separate memory, as safetensors requires; tied weights are copied."""
    seen: set[int] = set()
    separate = {}
    for name, tensor in tensors.items():
        contiguous = tensor.detach().contiguous()
        tied = contiguous.untyped_storage().data_ptr() in seen
        separate[name] = contiguous.clone() if tied else contiguous
        seen.add(separate[name].untyped_storage().data_ptr())
    return separate


def load_tensors(path: Path, *, advice: str = ADVICE) -> "tuple[dict[str, Tensor], dict[str, Any]]":
    """The tensors and the header that save_tensors wrote; advice ends the error message for any other file."""
    with _opened(path, "pt", advice) as file:
        return {name: file.get_tensor(name) for name in file.keys()}, _about(file)  # noqa: SIM118


def read_header(path: Path, *, advice: str = ADVICE) -> dict[str, Any]:
    """The header alone, without torch; a damaged or incomplete file is refused."""
    with _opened(path, "numpy", advice) as file:
        return _about(file)


def _about(file: Any) -> dict[str, Any]:
    about = parse_json((file.metadata() or {}).get("about", "{}"))
    if not isinstance(about, dict):
        raise ValueError("its header is no mapping")
    return about


@contextmanager
def _opened(path: Path, framework: Literal["pt", "numpy"], advice: str) -> Iterator[Any]:
    if not path.is_file():
        raise CheckpointError(f"there is no checkpoint at {path}; train the run first (ars train)")
    from safetensors import SafetensorError, safe_open  # tables are made without this package

    path.open("rb").close()  # safetensors would not report missing permissions
    try:
        with safe_open(path, framework=framework) as file:
            yield file
    except (SafetensorError, OSError, ValueError) as error:
        raise CheckpointError(f"{path} is damaged or not a safetensors file ({error}); {advice}") from error


def under(tensors: "Mapping[str, Tensor]", prefix: str) -> "dict[str, Tensor]":
    """The tensors whose names start with the prefix, without it."""
    return {name.removeprefix(prefix): tensor for name, tensor in tensors.items() if name.startswith(prefix)}


def misfits(model: "nn.Module", tensors: "Mapping[str, Tensor]") -> list[str]:
    """The names of missing and unexpected tensors, or if there are none, of those with another shape."""
    expected = model.state_dict()
    return sorted(expected.keys() ^ tensors.keys()) or sorted(
        name for name, tensor in tensors.items() if tensor.shape != expected[name].shape
    )


def load_model(model: "nn.Module", tensors: "Mapping[str, Tensor]", path: Path) -> None:
    """Load the weights, whose names and shapes must be those of the recipe's model."""
    wrong = misfits(model, tensors)
    if wrong:
        raise CheckpointError(
            f"{path} was made by another recipe: {len(wrong)} tensors do not fit, such as {wrong[0]}; "
            "use the recipe.yaml beside it"
        )
    model.load_state_dict(dict(tensors))
