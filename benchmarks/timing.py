"""What the kernel benchmarks share: device time, errors against torch, rows of results."""

import json
import sys
from collections.abc import Callable
from pathlib import Path

import torch
from torch import Tensor, nn

ROWS: list[dict[str, object]] = []


def seconds(call: Callable[[], object]) -> float:
    """The median of repeated runs, by device events."""
    call()
    torch.cuda.synchronize()
    times: list[float] = []
    while len(times) < 5 or (sum(times) < 0.05 and len(times) < 50):
        start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))  # type: ignore[no-untyped-call]
        start.record()
        call()
        end.record()
        end.synchronize()
        times.append(start.elapsed_time(end) / 1000)
    return sorted(times)[len(times) // 2]


def report(name: str, draws: int, time_s: float, **more: object) -> None:
    row = {"name": name, "us_a_draw": round(time_s / draws * 1e6, 3), **more}
    ROWS.append(row)
    print("  ".join(f"{key}={value}" for key, value in row.items()), flush=True)


def error(got: Tensor, wanted: Tensor) -> float:
    return round(float((got.float() - wanted).norm() / wanted.norm()), 5)


def poisoned(call: Callable[[], Tensor]) -> Tensor:
    """What a call returns into memory that was NaN before: the allocator hands the same block out again."""
    out = call()
    out.fill_(float("nan"))
    del out
    return call()


def sane(network: nn.Module, size: int) -> nn.Module:
    """BatchNorm statistics of noisy images, then disturbed, so that folding has something to fold."""
    network = network.cuda()
    for module in network.modules():
        if isinstance(module, nn.BatchNorm2d):
            module.momentum = None
            nn.init.uniform_(module.weight, 0.5, 1.0)
            nn.init.normal_(module.bias, 0, 0.1)
    with torch.no_grad():
        network.train()(torch.rand(16, 3, size, size, device="cuda"))
    return network.eval()


def guarded(name: str, action: Callable[[], object]) -> None:
    try:
        action()
    except Exception as problem:  # one variant that fails must not cost the others
        print(f"{name} FAILED {type(problem).__name__}: {str(problem)[:300]}", flush=True)
        ROWS.append({"name": name, "error": str(problem)[:2000]})


def save(path: Path) -> None:
    machine = {"device": torch.cuda.get_device_name(), "torch": torch.__version__, "command": sys.argv}
    path.write_text(json.dumps({**machine, "rows": ROWS}, indent=1))
