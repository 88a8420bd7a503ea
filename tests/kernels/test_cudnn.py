"""Settings of cuDNN that a caller has made are neither lost nor in the way."""

import subprocess
import sys

import pytest
import torch

from ars.kernels.cudnn import choosing, exact

CERTIFY = """
import torch, ars
from torch import nn
{setting}
net = nn.Sequential(nn.Conv2d(3, 4, 3), nn.Flatten(), nn.Linear(144, 3)).eval()
for precision in ("float32", "bfloat16"):
    ars.certify(ars.cohen(net, sigma=0.5), torch.rand(3, 8, 8), n_estimate=200, seed=0, precision=precision)
print({setting_read})
"""


@pytest.mark.parametrize(
    ("name", "value"),
    [
        pytest.param("fp32_precision", "ieee", marks=pytest.mark.slow),
        ("fp32_precision", "tf32"),
        pytest.param("cudnn.conv.fp32_precision", "ieee", marks=pytest.mark.slow),
        ("cudnn.allow_tf32", False),
    ],
)
def test_whichever_way_the_caller_set_its_precision_it_stays(name, value):
    if "fp32" in name and not hasattr(torch.backends, "fp32_precision"):
        pytest.skip("this torch has the older names only")
    setting = f"torch.backends.{name} = {value!r}"
    code = CERTIFY.format(setting=setting, setting_read=f"torch.backends.{name}")
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (done.stdout, done.stderr) == (f"{value}\n", "")


def test_settings_hold_for_a_while():
    before = torch.backends.cudnn.benchmark, torch.backends.cudnn.allow_tf32
    with choosing():
        assert torch.backends.cudnn.benchmark
    with exact():
        assert not getattr(torch.backends.cudnn, "conv", None) or torch.backends.cudnn.conv.fp32_precision == "ieee"
    assert (torch.backends.cudnn.benchmark, torch.backends.cudnn.allow_tf32) == before
