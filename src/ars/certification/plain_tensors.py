"""The numbers of a tensor of any kind, as plain tensors: of sparse, quantised and nested ones, and of wrappers."""

from collections.abc import Iterator

import torch
from torch import Tensor, nn

ROWS_PACKED = (torch.sparse_csr, torch.sparse_bsr)
COLUMNS_PACKED = (torch.sparse_csc, torch.sparse_bsc)


def is_plain(tensor: Tensor) -> bool:
    """Whether a tensor is torch's own, dense, and holds its numbers as they are."""
    if type(tensor) not in (Tensor, nn.Parameter) or tensor.layout is not torch.strided:
        return False
    return not (tensor.is_quantized or tensor.is_nested or tensor.is_meta or tensor.is_conj() or tensor.is_neg())


def plain_parts(tensor: Tensor) -> list[Tensor] | None:
    """Plain tensors that hold all of a tensor's numbers; None where nobody knows how to look at them."""
    if is_plain(tensor):
        return [tensor]
    try:
        parts = list(_taken_apart(tensor))
        for part in parts:
            part.new_empty(0).view(torch.uint8)  # so that its bits can be had
    except Exception:  # anybody's tensors, and kinds that torch can do little with
        return None
    return parts


def _taken_apart(tensor: Tensor) -> Iterator[Tensor]:
    if hasattr(tensor, "__tensor_flatten__"):  # torch's own name for a tensor that wraps others
        for name in tensor.__tensor_flatten__()[0]:
            yield from _taken_apart(getattr(tensor, name))
    elif type(tensor) not in (Tensor, nn.Parameter):
        if tensor.numel() and not tensor.data_ptr():
            raise ValueError("where its numbers are nobody knows")
        yield from _taken_apart(tensor.as_subclass(Tensor))
    elif tensor.is_meta:
        raise ValueError("it holds no numbers")
    elif tensor.is_nested:
        yield from tensor.unbind()
    elif tensor.layout is torch.sparse_coo:
        yield from (tensor._indices(), tensor._values())
    elif tensor.layout in ROWS_PACKED:
        yield from (tensor.crow_indices(), tensor.col_indices(), tensor.values())
    elif tensor.layout in COLUMNS_PACKED:
        yield from (tensor.ccol_indices(), tensor.row_indices(), tensor.values())
    elif tensor.is_mkldnn:
        yield tensor.to_dense()
    elif tensor.is_quantized:
        yield tensor.int_repr()
        yield from _scales(tensor)
    else:
        yield tensor.detach().resolve_conj().resolve_neg()


def _scales(tensor: Tensor) -> Iterator[Tensor]:
    """What the whole numbers of a quantised tensor stand for."""
    if tensor.qscheme() in (torch.per_tensor_affine, torch.per_tensor_symmetric):
        yield torch.tensor([tensor.q_scale(), tensor.q_zero_point()], dtype=torch.float64)
    else:
        yield from (tensor.q_per_channel_scales(), tensor.q_per_channel_zero_points())
