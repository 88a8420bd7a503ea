"""The plain vote on the whole test set: no certificate, no abstention, so every image counts.

The draws are those that choose the class in a certification of the same seed, and ties are broken as there: the label
of an image is the candidate of its certificate, the lowest class among those with the most votes.
"""

import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Literal, cast

import torch

from ars.certification.in_precision import check_precision
from ars.certification.limits import BLOCK, MOST_DRAWS, MOST_SEED
from ars.certification.run_folder import BEGUN_VOTE, VOTE
from ars.certification.sampling import Precision, local_votes
from ars.certification.seen_images import difference
from ars.certification.shards import OTHER_ORDER
from ars.certification.writing import write_whole
from ars.data.benchmark import Benchmark
from ars.experiments.alone import alone_in
from ars.experiments.device import choose_precision
from ars.experiments.fingerprint import fingerprint
from ars.experiments.looking import how_they_look, look_at
from ars.experiments.run import load_run
from ars.report.tally import Tally, read_tally
from ars.smoothing import SmoothedClassifier
from ars.theory.arguments import as_whole

# draws between two writes: some fill a GPU, on a CPU a Ctrl-C would wait long for as many
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
) -> Tally:
    """Vote on every test image of a run, or go on with it; a vote that is there is returned as it is.

    classifier names the code of one that the run was trained around, moved where its data lies now, as for load_run.
    """
    as_whole("draws", draws, least=1, most=MOST_DRAWS)
    as_whole("seed", seed, least=0, most=MOST_SEED)
    _, benchmark, model = load_run(folder, device, classifier=classifier, moved=moved)
    total = benchmark.size("test")
    some, chosen = look_at(benchmark), choose_precision(precision, device)
    order = benchmark.chosen.order if benchmark.chosen else ""
    wanted = Tally(0, draws, 0, seed, 0.0, chosen, fingerprint(model), how_they_look(benchmark, some), order)
    tally = _go_on(folder, wanted, total)
    report(tally, total)
    if tally.images == total and not (folder / BEGUN_VOTE).exists():  # so that nothing is written
        return tally
    check_precision(model, some.to(device), chosen)
    with alone_in(folder, "vote"):
        tally = _go_on(folder, wanted, total)  # another process may have come further meanwhile
        while tally.images < total:
            if stop():
                raise KeyboardInterrupt
            tally = _more(tally, model, benchmark, device)
            write_tally(folder, tally, begun=tally.images < total)
            report(tally, total)
        (folder / BEGUN_VOTE).unlink(missing_ok=True)  # what a kill left beside the whole vote
    return tally


def _go_on(folder: Path, wanted: Tally, total: int) -> Tally:
    """What there is of the vote that is asked for."""
    _check_free(folder, wanted)
    for name, have in ((VOTE, read_tally(folder)), (BEGUN_VOTE, read_tally(folder, begun=True))):
        if have is not None and have.same_vote(wanted):
            _check_images(folder / name, have, wanted, total)
            return have
    return wanted


def _check_images(path: Path, have: Tally, wanted: Tally, total: int) -> None:
    """Refuse to go on with a vote on other images, or to give it for one on these."""
    if have.order != wanted.order:
        raise ValueError(f"{path} is a vote on {OTHER_ORDER}; move it away to vote on these")
    told = difference(have.looks, wanted.looks)
    if have.images > total or (path.name == VOTE and have.images < total):
        told = f"there were {have.images} test images, now there are {total}"
    if told:
        raise ValueError(f"{path} is a vote on other images: {told}; move it away to vote on these")


def _check_free(folder: Path, wanted: Tally) -> None:
    """Refuse to write over a vote of the same model, be it finished or begun."""
    for name, have in ((VOTE, read_tally(folder)), (BEGUN_VOTE, read_tally(folder, begun=True))):
        if have is not None and have.model == wanted.model and not have.same_vote(wanted):
            asked = f"{wanted.draws} draws with seed {wanted.seed} in {wanted.precision}"
            so_far = f", begun on {have.images} images; go on with it, or" if name == BEGUN_VOTE else ";"
            raise ValueError(
                f"{folder / name} is a vote of {have.draws} draws with seed {have.seed} in {have.precision}{so_far} "
                f"move it away to vote with {asked}"
            )


def write_tally(folder: Path, tally: Tally, *, begun: bool) -> None:
    """Write what is counted; once that is all, what was begun can be removed."""
    write_whole(folder / (BEGUN_VOTE if begun else VOTE), tally.to_json())


def images_at_once(draws: int, device: torch.device) -> int:
    """How many images are voted on between two writes.

    >>> images_at_once(100, torch.device("cuda")), images_at_once(1, torch.device("cpu"))
    (200, 10)
    """
    most = ON_A_CPU if device.type == "cpu" else DRAWS_AT_ONCE
    return max(1, most // (-(-draws // BLOCK) * BLOCK))  # of a block, all draws are made


def _more(tally: Tally, model: SmoothedClassifier, benchmark: Benchmark, device: torch.device) -> Tally:
    last = min(tally.images + images_at_once(tally.draws, device), benchmark.size("test"))
    indices = range(tally.images, last)
    began = time.perf_counter()
    images, labels = (part.to(device) for part in benchmark.examples("test", indices))
    votes = local_votes(
        model.localise(images), images, indices,
        n=tally.draws, stage="select", seed=tally.seed, precision=cast(Precision, tally.precision),
    )  # fmt: skip
    correct = int((votes.argmax(axis=1) == labels.cpu().numpy()).sum())
    seconds = tally.seconds + time.perf_counter() - began
    return replace(tally, images=tally.images + len(indices), correct=tally.correct + correct, seconds=seconds)
