"""The plain vote on the whole test set: no certificates and no abstentions.

The draws are those that select the class in a certification with the same seed, and ties are broken the same way: the
label of an image is the lowest class among those with the most votes, as for the candidate of its certificate.
"""

import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Literal

import torch

from ars.atomic import write_whole
from ars.certification.certifier import Certifier
from ars.certification.digest import digest_model
from ars.certification.settings import BLOCK, MOST_DRAWS, MOST_SEED, CertifySettings
from ars.data.benchmark import Benchmark, Opener, open_benchmark
from ars.kernels.precision import choose_precision
from ars.recipes.user_code import explain_errors
from ars.runs.lock import check_kept, locked
from ars.runs.paths import BEGUN_VOTE, RECIPE, VOTE
from ars.runs.test_images import OTHER_ORDER, difference
from ars.runs.vote_count import Tally, read_tally
from ars.theory.rounding import as_whole
from ars.workflows.certify import image_statistics, sampled_images
from ars.workflows.load import load_run

# draws between two writes: enough to fill a GPU; fewer on a CPU, where Ctrl-C would wait too long for as many
DRAWS_AT_ONCE, ON_A_CPU = 20_000, 1_000


def vote_run(
    folder: Path,
    *,
    draws: int,
    seed: int,
    precision: Literal["float32", "bfloat16", "auto"] = "auto",
    device: torch.device,
    classifier: str | None = None,
    moved: Sequence[str] = (),
    report: Callable[[Tally, int], None] = lambda tally, total: None,
    stop: Callable[[], bool] = lambda: False,
    open_data: Opener = open_benchmark,
) -> Tally:
    """Vote on every test image of a run, or resume its vote; a finished vote is returned as it is.

    classifier and moved are those of load_run.
    """
    as_whole("draws", draws, least=1, most=MOST_DRAWS)
    as_whole("seed", seed, least=0, most=MOST_SEED)
    _, benchmark, model = load_run(folder, device, classifier=classifier, moved=moved, open_data=open_data)
    total = benchmark.size("test")
    images, chosen = sampled_images(benchmark), choose_precision(precision, device)
    order = benchmark.chosen.order if benchmark.chosen else ""
    wanted = Tally(0, draws, 0, seed, 0.0, chosen, digest_model(model), image_statistics(benchmark, images), order)
    tally = _resume(folder, wanted, total)
    report(tally, total)
    if tally.images == total and not (folder / BEGUN_VOTE).exists():  # nothing to do: do not lock or write
        return tally
    certifier = Certifier(model, CertifySettings(seed=seed, precision=chosen))
    with explain_errors(classifier):
        certifier.prepare(images.to(device))
    with locked(folder, "vote"), explain_errors(classifier):
        tally = _resume(folder, wanted, total)  # another process may have continued it meanwhile
        while tally.images < total:
            if stop():
                raise KeyboardInterrupt
            tally = _vote_on_next(tally, certifier, benchmark, device)
            check_kept(folder / RECIPE)
            write_whole(folder / (BEGUN_VOTE if tally.images < total else VOTE), tally.to_json())
            report(tally, total)
        (folder / BEGUN_VOTE).unlink(missing_ok=True)  # a killed process may have left it
    return tally


def _resume(folder: Path, wanted: Tally, total: int) -> Tally:
    """The state of the requested vote: finished, begun or new. Another vote of the same model is not overwritten."""
    begun = {name: read_tally(folder, begun=name == BEGUN_VOTE) for name in (VOTE, BEGUN_VOTE)}
    kept = {folder / name: tally for name, tally in begun.items() if tally is not None}
    for path, have in kept.items():
        if have.model == wanted.model and not have.same_vote(wanted):
            so_far = f", with {have.images} images done; resume it, or" if path.name == BEGUN_VOTE else ";"
            raise ValueError(
                f"{path} is a vote of {have.draws} draws with seed {have.seed} in {have.precision}{so_far} "
                f"move it away to vote with {wanted.draws} draws with seed {wanted.seed} in {wanted.precision}"
            )
    for path, have in kept.items():
        if have.same_vote(wanted):
            _check_images(path, have, wanted, total)
            return have
    return wanted


def _check_images(path: Path, have: Tally, wanted: Tally, total: int) -> None:
    """Refuse a vote on other images."""
    if have.order != wanted.order:
        raise ValueError(f"{path} is a vote on {OTHER_ORDER}; move it away to vote on these")
    change = difference(have.looks, wanted.looks)
    if have.images > total or (path.name == VOTE and have.images < total):
        change = f"there were {have.images} test images, now there are {total}"
    if change:
        raise ValueError(f"{path} is a vote on other images: {change}; move it away to vote on these")


def images_at_once(draws: int, device: torch.device) -> int:
    """How many images are voted on between two writes.

    >>> images_at_once(100, torch.device("cuda")), images_at_once(1, torch.device("cpu"))
    (200, 10)
    """
    most = ON_A_CPU if device.type == "cpu" else DRAWS_AT_ONCE
    return max(1, most // (-(-draws // BLOCK) * BLOCK))  # all draws of a block are made


def _vote_on_next(tally: Tally, certifier: Certifier, benchmark: Benchmark, device: torch.device) -> Tally:
    last = min(tally.images + images_at_once(tally.draws, device), benchmark.size("test"))
    indices = range(tally.images, last)
    began = time.perf_counter()
    images, labels = (part.to(device) for part in benchmark.examples("test", indices))
    votes = certifier.votes(images, indices, n=tally.draws)
    correct = int((votes.argmax(axis=1) == labels.cpu().numpy()).sum())
    seconds = tally.seconds + time.perf_counter() - began
    return replace(tally, images=tally.images + len(indices), correct=tally.correct + correct, seconds=seconds)
