"""Where bf16 is decided."""

import pytest
import torch

from ars.kernels.precision import autocast, check_precision, choose_precision


@pytest.mark.parametrize("name", ["float32", "bfloat16"])
def test_a_named_precision_is_taken_everywhere(name):
    assert {choose_precision(name, torch.device(kind)) for kind in ("cpu", "cuda", "mps")} == {name}


@pytest.mark.parametrize(("native", "chosen"), [(True, "bfloat16"), (False, "float32")])
def test_auto_is_bfloat16_where_the_device_computes_in_it_natively(monkeypatch, native, chosen):
    asked = []
    monkeypatch.setattr(torch.ops.mkldnn, "_is_mkldnn_bf16_supported", lambda: native, raising=False)
    monkeypatch.setattr(torch.cuda, "is_bf16_supported", lambda **how: asked.append(how) or native)
    assert choose_precision("auto", torch.device("cpu")) == chosen
    assert choose_precision("auto", torch.device("cuda")) == chosen
    assert choose_precision("auto", torch.device("mps")) == "float32"
    assert asked == [{"including_emulation": False}]


@pytest.mark.parametrize("precision", ["float16", "auto", "", None])
def test_an_unknown_precision_is_refused(precision):
    with pytest.raises(ValueError, match="precision"):
        check_precision(precision)
    with pytest.raises(ValueError, match="precision"):
        autocast(torch.device("cpu"), precision)


@pytest.mark.parametrize("outer", [True, False])
@pytest.mark.parametrize(("precision", "dtype"), [("float32", torch.float32), ("bfloat16", torch.bfloat16)])
def test_networks_run_in_it_whatever_the_callers_own_autocast_says(outer, precision, dtype):
    one = torch.ones(2, 2)
    with torch.autocast("cpu", dtype=torch.float16, enabled=outer), autocast(torch.device("cpu"), precision):
        assert (one @ one).dtype == dtype
