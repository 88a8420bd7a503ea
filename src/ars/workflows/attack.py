"""Attacking the certified images of a run: candidates at multiples of each radius, judged on fresh draws."""

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

import torch

from ars.atomic import remove_stale
from ars.audit.attack import KINDS, Attacker, AttackSettings, Kind
from ars.audit.verdict import judge
from ars.certification.certifier import Certifier
from ars.certification.digest import digest_model
from ars.certification.settings import MOST_DRAWS, MOST_SEED, CertifySettings
from ars.data.benchmark import Benchmark
from ars.recipes.user_code import explain_errors
from ars.runs.attacks import (
    Attacked,
    Attacks,
    Attempt,
    Target,
    read_attacks,
    targets_of,
    write_attacks,
)
from ars.runs.lock import locked
from ars.runs.paths import ATTACK, MAIN, attack_path, records_folder
from ars.runs.provenance import begun_settings
from ars.runs.records import Record
from ars.runs.shards import read_certification
from ars.runs.test_images import difference
from ars.theory.rounding import as_number, as_whole
from ars.workflows.certify import image_statistics, sampled_images
from ars.workflows.load import load_run


@dataclass(frozen=True)
class Plan:
    """How a certification is attacked.

    Args:
        times: the multiples of each image's radius, increasing.
        kinds: the kinds of attack.
        attack: how hard each kind tries.
        draws: fresh draws that judge a candidate.
        seed: seed of the attack's noise and of the judging draws; None: the next after that of the certificates.
    """

    times: tuple[float, ...] = (0.99, 2.0, 4.0, 8.0)
    kinds: tuple[Kind, ...] = KINDS
    attack: AttackSettings = field(default_factory=AttackSettings)
    draws: int = 1000
    seed: int | None = None

    def __post_init__(self) -> None:
        times = tuple(as_number("each of times", number) for number in self.times)
        if not times or not all(0 < number < math.inf for number in times) or len(set(times)) < len(times):
            raise ValueError(f"times must be different multiples above 0, such as .99 2 4, got {self.times}")
        if not self.kinds or not set(self.kinds) <= set(KINDS) or len(set(self.kinds)) < len(self.kinds):
            got = ", ".join(self.kinds) or "none"
            raise ValueError(f"kinds must be some of {', '.join(KINDS)}, each once, got {got}")
        object.__setattr__(self, "times", tuple(sorted(times)))
        as_whole("verdict draws", self.draws, least=1, most=MOST_DRAWS)
        if self.seed is not None:
            as_whole("seed", self.seed, least=0, most=MOST_SEED)

    def recorded(self, settings: CertifySettings) -> dict[str, Any]:
        """The plan for certificates with these settings, as it stands in the file."""
        others = {name: value for name, value in asdict(self.attack).items() if name != "seed"}
        return {
            "times": list(self.times), "kinds": list(self.kinds), **others, "verdict_draws": self.draws,
            "seed": self.seed_for(settings), "norm": settings.norm, "alpha": settings.alpha,
            "precision": settings.precision, "exact": settings.exact,
        }  # fmt: skip

    def seed_for(self, settings: CertifySettings) -> int:
        """The seed; refuses that of the certificates, whose draws must not judge them."""
        if self.seed == settings.seed:
            raise ValueError(f"the certificates were made with seed {self.seed}; judge them with another --seed")
        return (settings.seed + 1) % MOST_SEED if self.seed is None else self.seed


def attack_run(
    folder: Path,
    plan: Plan,
    *,
    name: str = MAIN,
    examples: int | None = None,
    device: torch.device,
    classifier: str | None = None,
    moved: Sequence[str] = (),
    report: Callable[[Attacks], None] = lambda attacks: None,
    stop: Callable[[], bool] = lambda: False,
) -> Attacks:
    """Attack the certified images of a certification, or the first examples of them, and judge what is found.

    The file is written after every few images, so an interrupted attack resumes. If all certificates are true, with
    probability at least 1 - FAMILY_LEVEL over the judging draws no target is among the broken ones.

    classifier and moved are those of load_run.
    """
    records = read_certification(records_folder(folder, name))
    settings = begun_settings(folder, name)
    assert settings is not None  # it was read with the records
    every = targets_of(records.records)
    if not every:
        raise ValueError(f"{records_folder(folder, name)} has no certified image, so there is nothing to attack")
    if examples is not None:
        as_whole("examples", examples, least=1)
    total = len(every[:examples])
    _, benchmark, model = load_run(folder, device, classifier=classifier, moved=moved)
    if records.manifest.model != digest_model(model):
        raise ValueError(f"{folder} holds another model than the one that was certified as {name}; certify it again")
    looks = sampled_images(benchmark).to(device)
    if change := difference(records.manifest.images, image_statistics(benchmark, looks)):
        raise ValueError(f"the test images are not those that were certified: {change}; give their place (--data.root)")
    wanted = Attacks(plan.recorded(settings), records.manifest.model, total, 0.0)
    attacks = _resume(folder, name, wanted, every)
    report(attacks)
    if attacks.complete:
        return attacks
    seed = plan.seed_for(settings)
    certifier = Certifier(model, replace(settings, seed=seed))
    with explain_errors(classifier):
        counter = certifier.prepare(looks)
    attacker = Attacker(model, settings.norm, replace(plan.attack, seed=seed), answer=counter.answer)
    work = _Work(plan, attacker, certifier, benchmark, device)
    found = {record.certificate.index: record for record in records.records}
    at_once = max(1, attacker.at_once(looks) // len(plan.times))
    with locked(folder / ATTACK, "attack"), explain_errors(classifier):
        remove_stale(folder / ATTACK)
        attacks = _resume(folder, name, wanted, every)  # another process may have continued it meanwhile
        while not attacks.complete:
            if stop():
                raise KeyboardInterrupt
            began, done = time.perf_counter(), len(attacks.images)
            part = every[done : min(done + at_once, attacks.total)]
            fresh = work.attack(part, [found[target.index] for target in part])
            seconds = attacks.seconds + time.perf_counter() - began
            attacks = replace(attacks, images=(*attacks.images, *fresh), seconds=seconds)
            write_attacks(folder, name, attacks)
            report(attacks)
    return attacks


@dataclass(frozen=True)
class _Work:
    """What attacks and judges some images."""

    plan: Plan
    attacker: Attacker
    certifier: Certifier
    benchmark: Benchmark
    device: torch.device

    def attack(self, targets: Sequence[Target], records: Sequence[Record]) -> list[Attacked]:
        """Attack these images with every kind at every multiple, all multiples at once."""
        plan, count = self.plan, len(self.plan.times)
        given, truths = self.benchmark.examples("test", [target.index for target in targets])
        if truths.tolist() != [target.truth for target in targets]:
            raise ValueError("the test images have other labels than when they were certified; give their place")
        images = given.to(self.device).repeat(count, 1, 1, 1)
        labels = torch.tensor([target.label for target in targets], device=self.device).repeat(count)
        radii = torch.tensor([times * target.radius for times in plan.times for target in targets])
        rivals = torch.tensor([_runner_up(record) for record in records], device=self.device).repeat(count)
        attempts: dict[int, list[Attempt]] = {target.index: [] for target in targets}
        for number, kind in enumerate(plan.kinds):
            found = self.attacker(kind, images, labels, radii, rivals)
            # a number for every candidate, so that each is judged on draws of its own
            numbers = [
                (target.index * count + place) * len(plan.kinds) + number for place in range(count)
                for target in targets
            ]  # fmt: skip
            verdicts = judge(self.certifier, found, labels.tolist(), numbers, draws=plan.draws)
            attacked = [(target, times) for times in plan.times for target in targets]
            for (target, times), verdict in zip(attacked, verdicts, strict=True):
                made = Attempt(kind, times, verdict.challenger, verdict.counts, verdict.p_value)
                attempts[target.index].append(made)
        return [Attacked(target, tuple(attempts[target.index])) for target in targets]


def _runner_up(record: Record) -> int:
    """The class that came second in the votes of a certificate."""
    counts, label = record.certificate.counts, record.certificate.label
    return max((name for name in range(len(counts)) if name != label), key=lambda name: counts[name])


def _resume(folder: Path, name: str, wanted: Attacks, targets: Sequence[Target]) -> Attacks:
    """The attacks of an earlier session, if their settings and certificates are the same."""
    have, path = read_attacks(folder, name), attack_path(folder, name)
    if have is None:
        return wanted
    done = len(have.images)
    if not have.fit(wanted.model, targets):
        raise ValueError(f"{path} holds attacks on other certificates; move it away to attack these")
    for key, value in wanted.settings.items():
        if have.settings.get(key) != value:
            raise ValueError(
                f"{path} holds attacks on {done} images with {key}={have.settings.get(key)}; resume them, or move it "
                f"away to attack with {key}={value}"
            )
    return replace(have, total=max(done, wanted.total))
