"""How far rounding the weights to bf16 moves the votes: PYTHONPATH=src python benchmarks/rounding.py RUN ...

Each RUN is a folder made by ars train. Every test image gets the same draws from the model as it is and as rounded.
"""

import argparse
from copy import deepcopy
from pathlib import Path

import numpy as np
import torch

from ars.certification.certifier import Certifier
from ars.certification.settings import CertifySettings
from ars.kernels.precision import PRECISIONS
from ars.workflows.hardware import choose_device
from ars.workflows.load import load_run
from ars.workflows.weights import to_bf16


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("runs", type=Path, nargs="+", metavar="RUN")
    parser.add_argument("--draws", type=int, default=100)
    parser.add_argument("--device", default="auto")
    options = parser.parse_args()
    device = choose_device(options.device)
    print("| run | networks in | votes that moved | labels that changed | right before | after |")
    print("|---|---|---:|---:|---:|---:|")
    for run in options.runs:
        _, benchmark, model = load_run(run, device)
        rounded = deepcopy(model)
        with torch.no_grad():
            for tensor in rounded.state_dict().values():
                tensor.copy_(to_bf16(tensor))
        indices = range(benchmark.size("test"))
        images, labels = (part.to(device) for part in benchmark.examples("test", indices))
        truth = labels.cpu().numpy()
        for precision in PRECISIONS:
            before, after = (
                Certifier(version, CertifySettings(precision=precision)).votes(images, indices, n=options.draws)
                for version in (model, rounded)
            )
            moved = np.abs(before - after).sum() / 2 / before.sum()
            labels_before, labels_after = before.argmax(axis=1), after.argmax(axis=1)
            changed = int((labels_before != labels_after).sum())
            right = (int((it == truth).sum()) for it in (labels_before, labels_after))
            print(
                f"| {run.name} | {precision} | {moved:.2%} | {changed} of {len(truth)} | "
                + " | ".join(map(str, right))
                + " |",
                flush=True,
            )


if __name__ == "__main__":
    main()
