"""Networks at a moment: any change shows."""

import torch
from torch import nn

from ars.certification.network_state import checksum, places_sum, structure
from ars.models import cifar_resnet, small_cnn


def test_any_bit_and_any_exchange_of_values_changes_the_checksum():
    torch.manual_seed(0)
    tensors = [torch.randn(5, 7), torch.arange(3), torch.randn(4).bfloat16(), torch.tensor(2)]
    seen = [checksum(tensors)]
    for tensor, other in zip(
        tensors, [-tensors[0], tensors[1].flip(0), tensors[2].roll(1), tensors[3] + 1], strict=True
    ):
        before = tensor.clone()
        tensor.copy_(other)
        seen.append(checksum(tensors))
        tensor.copy_(before)
    assert checksum(tensors) == seen[0]
    assert len({tuple(it) for it in seen}) == len(seen)
    assert checksum([]) == [0]


def test_sums_by_place_tell_permutations_and_signs_apart():
    torch.manual_seed(0)
    words = torch.randint(-(2**31), 2**31, (6, 50))
    rows = [words, *(words[torch.randperm(6)] for _ in range(50)), -words, words.flip(1), words + 1]
    distinct = {tuple(it.flatten().tolist()) for it in rows}
    assert len({places_sum(it.flatten()) for it in rows}) == len(distinct)
    nudged = words.flatten().clone()
    nudged[-1] += 1
    assert places_sum(nudged) != places_sum(words.flatten())


def test_a_sum_by_parts_is_the_sum(monkeypatch):
    words = torch.randint(-(2**31), 2**31, (300,), dtype=torch.int32, generator=torch.Generator().manual_seed(0))
    whole = places_sum(words)
    assert whole == places_sum(words.long())
    monkeypatch.setattr("ars.certification.network_state.AT_ONCE", 7)
    assert places_sum(words) == whole


def test_the_structure_is_that_of_eval_mode():
    network, other = small_cnn(4, width=8), small_cnn(4, width=8)
    other.eval()
    other[1].momentum = None
    assert structure(network) == structure(other)
    other[1].eps = 1e-3
    assert structure(network) != structure(other)
    assert structure(cifar_resnet(8, 4)) != structure(cifar_resnet(14, 4))


def test_numbers_of_other_peoples_modules_are_settings_whatever_their_names():
    class Pooled(nn.Module):
        def __init__(self, p):
            super().__init__()
            self.p = self.momentum = p

    assert structure(Pooled(3.0)) == structure(Pooled(3.0)) != structure(Pooled(30.0))
    assert structure(nn.Dropout(0.1)) == structure(nn.Dropout(0.2))


def test_lists_are_settings_of_torchs_layers():
    assert structure(nn.MaxPool2d([1, 1])) != structure(nn.MaxPool2d([6, 6]))
    assert structure(nn.MaxPool2d([6, 6])) == structure(nn.MaxPool2d((6, 6)))


def test_private_numbers_of_other_peoples_modules_are_settings():
    class Heated(nn.Module):
        def __init__(self, temperature):
            super().__init__()
            self._temperature = temperature

    assert structure(Heated(1.0)) == structure(Heated(1.0)) != structure(Heated(2.0))
    assert all(not name.startswith("_") for _, _, settings in structure(nn.Conv2d(3, 4, 3)) for name, _ in settings)
