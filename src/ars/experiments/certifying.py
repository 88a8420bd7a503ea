"""Certifying the test images of a run, record by record."""

import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import cast

import numpy as np
import torch

from ars.certification.certificate import Certificate
from ars.certification.procedure import certify, check_request
from ars.certification.records import Record, RecordError, RecordFile
from ars.data.benchmark import Benchmark
from ars.experiments.device import choose_precision
from ars.experiments.recipe import CertifySettings
from ars.experiments.run import load_run


def subset(benchmark: Benchmark, settings: CertifySettings) -> list[int]:
    """The test indices that are certified: 0, every, 2 every, ..."""
    indices = list(range(0, benchmark.size("test"), settings.every))
    if settings.examples > len(indices):
        raise ValueError(
            f"{benchmark.title} has {len(indices)} test images at every={settings.every}, "
            f"so examples={settings.examples} is too many"
        )
    return indices[: settings.examples]


def certify_run(
    folder: Path,
    settings: CertifySettings,
    *,
    device: torch.device,
    name: str = "test",
    images_at_once: int = 8,
    report: Callable[[Record, int, int], None] = lambda record, done, total: None,
    stop: Callable[[], bool] = lambda: False,
) -> Sequence[Record]:
    """Certify test images that have no record yet; each is on disk before the next begins."""
    _, benchmark, model = load_run(folder, device)
    precision = choose_precision(settings.precision, device)
    settings = replace(settings, precision=precision)
    check_request(
        model,
        norm=settings.norm,
        dim=int(np.prod(benchmark.shape)),
        n_estimate=settings.n_estimate,
        alpha=settings.alpha,
        bound=settings.bound,
    )
    indices = subset(benchmark, settings)
    file = RecordFile(folder / "certify" / name / "records.jsonl")
    _check_same(file, settings)
    left = [index for index in indices if index not in file.done]
    left_over = len(left)
    for start in range(0, len(left), images_at_once):
        if stop():
            raise KeyboardInterrupt
        chosen = left[start : start + images_at_once]
        images, labels = (part.to(device) for part in benchmark.examples("test", chosen))
        began = time.perf_counter()
        certificates = cast(
            list[Certificate],
            certify(
                model,
                images,
                norm=settings.norm,
                n_select=settings.n_select,
                n_estimate=settings.n_estimate,
                alpha=settings.alpha,
                seed=settings.seed,
                bound=settings.bound,
                indices=chosen,
                precision=precision,
            ),
        )
        seconds = (time.perf_counter() - began) / len(chosen)
        for certificate, truth in zip(certificates, labels.tolist(), strict=True):
            record = Record(certificate, truth, subset_name(settings), seconds)
            file.append(record)
            left_over -= 1
            report(record, len(indices) - left_over, len(indices))
    return [record for record in file.records if record.certificate.index in set(indices)]


def save_stages(folder: Path, settings: CertifySettings, *, device: torch.device, name: str, images: int) -> Path:
    """Save one draw of the pipeline, taken apart, for the first images of the subset; the report draws them."""
    _, benchmark, model = load_run(folder, device)
    indices = subset(benchmark, settings)[:images]
    x, labels = (part.to(device) for part in benchmark.examples("test", indices))
    generator = torch.Generator(device).manual_seed(settings.seed)
    releases, average = model.stages(x, generator)
    arrays = {"index": np.array(indices), "truth": labels.cpu().numpy(), "input": x, "average": average}
    for number, release in enumerate(releases, start=1):
        weight = release.weight.expand(len(x), -1, *x.shape[2:])
        arrays |= {f"value_{number}": release.value, f"weight_{number}": weight, f"masked_{number}": weight * x}
    path = folder / "certify" / name / "stages.npz"
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_suffix(".part.npz")
    saved = {key: np.asarray(torch.as_tensor(value).cpu()) for key, value in arrays.items()}
    np.savez_compressed(temporary, allow_pickle=False, **saved)
    temporary.replace(path)
    return path


def _check_same(file: RecordFile, settings: CertifySettings) -> None:
    """Refuse to mix records of different settings in one file."""
    for record in file.records[:1]:
        have = record.certificate
        pairs = {
            "norm": (have.norm, settings.norm),
            "n_select": (sum(have.select_counts), settings.n_select),
            "n_estimate": (have.n_estimate, settings.n_estimate),
            "alpha": (have.alpha, settings.alpha),
            "bound": (have.bound, settings.bound),
            "seed": (have.seed, settings.seed),
            "precision": (have.precision, settings.precision),
            "every": (record.subset, subset_name(settings)),
        }
        for name, (old, new) in pairs.items():
            if old != new:
                raise RecordError(
                    f"{file.path} holds records with {name}={old}, asked for is {new}; "
                    "certify under another --name, or remove that file"
                )


def subset_name(settings: CertifySettings) -> str:
    """How records name the subset, as a slice of the test indices; more examples of the same may follow."""
    return f"test[::{settings.every}]"
