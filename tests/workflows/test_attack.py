"""Attacking a run: what is judged on which draws, how it resumes, and what is refused."""

import gzip
import json
import shutil
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from ars.audit.attack import Attacker, AttackSettings
from ars.certification.certifier import Certifier
from ars.data.digits import DigitsOnPhotographs
from ars.runs.attacks import read_attacks
from ars.runs.lock import TakenError, locked
from ars.workflows import attack as attacking
from ars.workflows.attack import Plan, attack_run
from ars.workflows.certify import certify_run
from ars.workflows.request import Request

from ..conftest import CPU, TINY, contents

DIGITS = Path(__file__).parents[2] / "results" / "digits" / "cohen-s0.75-seed0"
PLAN = Plan(times=(0.99, 8.0), attack=AttackSettings(steps=2, draws=4, restarts=1), draws=100)


@pytest.fixture
def run(trained, tmp_path, monkeypatch):
    """A certified run, two images of which are attacked at once."""
    monkeypatch.setattr(Attacker, "at_once", lambda self, images: 2 * len(PLAN.times))
    return shutil.copytree(trained, tmp_path / "run")


def attack(run, plan=PLAN, **options):
    return attack_run(run, plan, device=CPU, **options)


def untimed(run, name="test"):
    return replace(read_attacks(run, name), seconds=0.0)


def stop_after(pieces):
    asked = iter([*(False for _ in range(pieces)), True])
    return lambda: next(asked)


@pytest.mark.slow
def test_an_interrupted_attack_resumes_to_the_same_file(run, tmp_path):
    whole = shutil.copytree(run, tmp_path / "whole")
    done = []
    attack(whole, report=lambda attacks: done.append(len(attacks.images)))
    assert done == [0, 2, 4, 6]
    with pytest.raises(KeyboardInterrupt):
        attack(run, stop=stop_after(1))
    assert len(read_attacks(run, "test").images) == 2
    done.clear()
    attack(run, report=lambda attacks: done.append(len(attacks.images)))
    assert done == [2, 4, 6]
    assert untimed(run) == untimed(whole)
    before = contents(run)
    attack(run, stop=lambda: True)  # nothing is left to stop
    assert contents(run) == before


@pytest.mark.slow
def test_more_images_can_follow_the_first_few(run):
    few = attack(run, examples=2)
    assert (len(few.images), few.total, few.complete) == (2, 2, True)
    assert len(attack(run, examples=4).images) == 4
    kept = untimed(run)
    assert attack(run, examples=1).images == kept.images
    certify_run(Request(run, replace(TINY.certify, examples=8)), device=CPU)  # more certificates change nothing
    assert attack(run).images[:4] == kept.images


def test_every_candidate_lies_in_its_ball_and_is_judged_on_draws_of_its_own(run, monkeypatch):
    judged, balls = [], []
    count, search = Certifier.votes, Attacker.__call__

    def votes(certifier, images, indices, **how):
        judged.append((certifier.settings.seed, how["stage"], how["n"], list(indices)))
        return count(certifier, images, indices, **how)

    def find(attacker, kind, images, labels, radii, runners_up):
        found = search(attacker, kind, images, labels, radii, runners_up)
        balls.append(((found - images).abs().amax(dim=(1, 2, 3)), radii, attacker.settings.seed))
        assert (labels != runners_up).all()
        return found

    monkeypatch.setattr(Certifier, "votes", votes)
    monkeypatch.setattr(Attacker, "__call__", find)
    attacks = attack(run)
    radii = torch.tensor([image.target.radius for image in attacks.images])
    expected = torch.cat([times * radii[at : at + 2] for at in (0, 2, 4) for _ in PLAN.kinds for times in PLAN.times])
    torch.testing.assert_close(torch.cat([ball for _, ball, _ in balls]), expected)
    assert all((moved <= ball * (1 + 1e-5)).all() for moved, ball, _ in balls)
    assert {seed for seed, *_ in judged} == {TINY.certify.seed + 1}
    for stage, draws in (("select", 100), ("estimate", PLAN.draws)):
        numbers = [number for _, at, n, indices in judged if (at, n) == (stage, draws) for number in indices]
        assert sorted(numbers) == list(range(6 * len(PLAN.times) * len(PLAN.kinds)))
    for image in attacks.images:
        assert [(one.kind, one.times) for one in image.attempts] == [(k, t) for k in PLAN.kinds for t in PLAN.times]
        assert all(sum(one.counts) == PLAN.draws and one.challenger != image.target.label for one in image.attempts)


def false_digits(folder):
    """Packed results with weights whose first record states a radius of .5, at which its label falls."""
    run = shutil.copytree(DIGITS, folder)
    [packed] = run.glob("certify/test/records*")
    first, *others = gzip.decompress(packed.read_bytes()).splitlines(keepends=True)
    record = json.loads(first) | {"radius": 0.5, "radii": {"cohen": 0.5, "classes": 0.5}}
    packed.write_bytes(gzip.compress(b"".join([json.dumps(record).encode() + b"\n", *others])))
    return run


def test_a_radius_that_is_too_large_is_found_out_and_the_next_one_is_not(tmp_path):
    plan = Plan(times=(0.99,), kinds=("gradient",), attack=AttackSettings(steps=8, draws=16, restarts=1), draws=400)
    attacks = attack(false_digits(tmp_path / "run"), plan, examples=2)
    assert attacks.broken == [attacks.images[0].target]
    assert attacks.significant(0.99) == attacks.lost(0.99) == 1


def test_another_plan_is_refused(run):
    attack(run, examples=2)
    before = contents(run)
    for plan, words in (
        (replace(PLAN, draws=200), "verdict_draws=100"),
        (replace(PLAN, times=(0.5, 8.0)), r"times=\[0.99, 8.0\]"),
        (replace(PLAN, attack=replace(PLAN.attack, steps=3)), "steps=2"),
        (replace(PLAN, seed=9), "seed=1"),
        (replace(PLAN, seed=0), "seed 0"),
    ):
        with pytest.raises(ValueError, match=words):
            attack(run, plan)
    assert contents(run) == before


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"times": ()}, "times"), ({"times": (0.0, 1.0)}, "times"), ({"times": (2, 2)}, "times"),
        ({"times": (float("nan"),)}, "times"), ({"kinds": ("guess",)}, "kinds"), ({"kinds": ()}, "kinds"),
        ({"draws": 0}, "draws"), ({"seed": -1}, "seed"),
    ],
)  # fmt: skip
def test_a_plan_that_makes_no_sense_is_refused(changes, words):
    with pytest.raises(ValueError, match=words):
        Plan(**changes)


def test_attacks_on_other_certificates_are_refused(run):
    attack(run, examples=2)
    [shard] = (run / "certify" / "test").glob("shard-*")
    first, *others = map(json.loads, shard.read_text().splitlines())
    first |= {"radius": 0.02, "radii": first["radii"] | {"cohen": 0.02}}
    shard.write_text("".join(json.dumps(record) + "\n" for record in (first, *others)))
    with pytest.raises(ValueError, match="other certificates"):
        attack(run)


def test_another_model_or_other_images_than_the_certified_are_refused(run, monkeypatch):
    with monkeypatch.context() as patch:
        patch.setattr(DigitsOnPhotographs, "size", lambda self, split: 200)
        with pytest.raises(ValueError, match="there were 300 test images"):
            attack(run)
    load = attacking.load_run

    def other(*arguments, **options):
        recipe, benchmark, model = load(*arguments, **options)
        next(model.parameters()).data.add_(0.1)
        return recipe, benchmark, model

    monkeypatch.setattr(attacking, "load_run", other)
    with pytest.raises(ValueError, match="another model"):
        attack(run)
    assert not (run / "attack").exists()


def test_a_certification_without_certified_images_is_refused(run):
    certify_run(Request(run, replace(TINY.certify, examples=1), name="one"), device=CPU)
    [shard] = (run / "certify" / "one").glob("shard-*")
    shard.write_text(json.dumps(json.loads(shard.read_text()) | {"label": None, "radius": 0.0}) + "\n")
    with pytest.raises(ValueError, match="no certified image"):
        attack(run, name="one")


def test_one_process_at_a_time(run):
    with locked(run / "attack", "attack"), pytest.raises(TakenError, match="another ars attack"):
        attack(run)


@pytest.mark.slow
def test_exact_certificates_are_judged_in_exact_mode(run, monkeypatch):
    certify_run(Request(run, replace(TINY.certify, exact=True, examples=2), name="exact"), device=CPU)
    exact, count = [], Certifier.votes
    monkeypatch.setattr(
        Certifier, "votes", lambda self, *args, **how: exact.append(self.settings.exact) or count(self, *args, **how)
    )
    attacks = attack(run, name="exact")
    assert attacks.settings["exact"]
    assert attacks.images
    assert exact
    assert all(exact)


@pytest.mark.slow
def test_l2_certificates_are_attacked_in_l2(tmp_path, monkeypatch):
    from ars.workflows.train import train_run

    folder, moved = tmp_path / "cohen", []
    assert train_run(replace(TINY, method="cohen"), folder, device=CPU)
    certify_run(Request(folder, replace(TINY.certify, norm="l2", examples=2)), device=CPU)
    search = Attacker.__call__

    def find(attacker, kind, images, *others):
        found = search(attacker, kind, images, *others)
        moved.append((torch.linalg.vector_norm((found - images).flatten(1), dim=1) / others[1]).max().item())
        return found

    monkeypatch.setattr(Attacker, "__call__", find)
    assert attack(folder).settings["norm"] == "l2"
    assert moved == pytest.approx([1.0] * 3, rel=0.1)
    assert max(moved) <= 1 + 1e-5
