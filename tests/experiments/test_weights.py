"""Rounded before it is certified, kept in half the space, loaded as the very same classifier."""

import shutil

import pytest
import torch
from safetensors.torch import load_file, save_file

from ars.experiments.certifying.local_engine import certify_run
from ars.experiments.certifying.request import Request
from ars.experiments.fingerprint import fingerprint
from ars.experiments.run import load_run
from ars.experiments.sweeps.state import is_rounded
from ars.experiments.weights import packed_weights, round_weights
from ars.models import UNet, cifar_resnet

from .conftest import CPU, TINY


@pytest.fixture
def run(trained, tmp_path):
    copy = tmp_path / "run"
    shutil.copytree(trained, copy, ignore=shutil.ignore_patterns("certify"))
    return copy


def test_a_packed_model_is_the_certified_one(run, tmp_path):
    before = load_file(run / "model.safetensors")
    assert not is_rounded(run / "model.safetensors")
    round_weights(run / "model.safetensors")
    assert is_rounded(run / "model.safetensors")
    after = load_file(run / "model.safetensors")
    for name, tensor in before.items():
        assert after[name].dtype == tensor.dtype
        if tensor.dtype == torch.float32:
            assert torch.all((after[name] - tensor).abs() <= tensor.abs() / 256)
            assert not torch.any(after[name].view(torch.int32) & 0xFFFF)
        else:
            assert torch.equal(after[name], tensor)  # num_batches_tracked
    assert any(not torch.equal(after[name], before[name]) for name in before)
    certified = certify_run(Request(run, TINY.certify), device=CPU)

    packed = tmp_path / "packed"
    packed.mkdir()
    for name in ("recipe.yaml", "benchmark.json"):
        shutil.copy(run / name, packed)
    (packed / "model.safetensors").write_bytes(packed_weights(run / "model.safetensors"))
    assert load_file(packed / "model.safetensors")["classifier.1.0.weight"].dtype == torch.bfloat16
    assert fingerprint(load_run(packed, CPU)[2]) == fingerprint(load_run(run, CPU)[2])
    again = certify_run(Request(packed, TINY.certify), device=CPU)
    assert [record.certificate for record in again] == [record.certificate for record in certified]


def test_rounding_again_changes_nothing(run):
    round_weights(run / "model.safetensors")
    once = (run / "model.safetensors").read_bytes()
    round_weights(run / "model.safetensors")
    assert (run / "model.safetensors").read_bytes() == once


def test_tiny_and_large_statistics_survive_and_doubles_are_left_alone(tmp_path):
    path = tmp_path / "model.safetensors"
    tensors = {
        "var": torch.tensor([1e-38, 1e-30, 3e38, 0.0]),
        "split": torch.tensor([0.1], dtype=torch.float64),
        "steps": torch.tensor(123456789),
    }
    save_file(tensors, path, metadata={"about": '{"identity": "x"}'})
    round_weights(path)
    rounded = load_file(path)
    torch.testing.assert_close(rounded["var"], tensors["var"], rtol=1 / 256, atol=0)
    assert torch.equal(rounded["split"], tensors["split"])
    assert torch.equal(rounded["steps"], tensors["steps"])


def test_weights_that_were_not_rounded_are_packed_as_they_are(run):
    assert packed_weights(run / "model.safetensors") == (run / "model.safetensors").read_bytes()


def test_a_file_that_only_says_it_was_rounded_is_refused(run):
    path = run / "model.safetensors"
    save_file(load_file(path), path, metadata={"about": '{"weights": "bf16"}'})
    with pytest.raises(ValueError, match="says that its weights were rounded"):
        packed_weights(path)


def test_the_headline_networks_take_less_than_12_mb():
    parts = (cifar_resnet(110, 10), UNet(width=32))
    assert sum(2 * tensor.numel() for part in parts for tensor in part.state_dict().values()) < 12e6
