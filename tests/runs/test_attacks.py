"""What attacks came to: losses, corrected p-values, Holm's procedure, and the file."""

import json
import math
from dataclasses import replace

import numpy as np
import pytest

from ars.runs.attacks import (
    FAMILY_LEVEL,
    Attacked,
    Attacks,
    Attempt,
    Target,
    read_attacks,
    rejected,
    targets_of,
    write_attacks,
)
from ars.runs.records import ReportError

LEADS, FELL = (80, 15, 5), (40, 55, 5)  # votes for the label first


def build_attacked(index, *p_values, label=0, radius=0.01, times=(0.99, 4.0)):
    """An image with one p-value per multiple, of its gradient attack; the search finds nothing."""
    found = [("gradient", at, p) for at, p in zip(times, p_values, strict=True)]
    found += [("search", at, 1.0) for at in times]
    attempts = []
    for kind, at, p in found:
        votes = FELL if p < 0.5 else LEADS
        counts = tuple(votes[name - label] for name in range(len(votes)))
        attempts.append(Attempt(kind, at, (label + 1) % len(votes), counts, p))
    return Attacked(Target(index, 0, label, radius), tuple(attempts))


def build_attacks(*images, times=(0.99, 4.0), **changes):
    settings = {"times": list(times), "kinds": ["gradient", "search"], "alpha": 0.05}
    return replace(Attacks(settings, "model", len(images), 1.5, images), **changes)


def test_the_strongest_attempt_counts_and_its_p_value_pays_for_the_others():
    image = build_attacked(0, 1e-3, 1e-4)
    assert image.strongest(0.99) == (image.attempts[0], 2e-3)
    assert image.strongest(4.0)[1] == 2e-4
    assert build_attacked(0, 0.9, 0.9).strongest(4.0)[1] == 1.0


def test_a_label_is_lost_where_the_strongest_attempt_took_the_vote():
    attacks = build_attacks(build_attacked(0, 0.9, 1e-6), build_attacked(3, 0.9, 0.2), build_attacked(4, 0.9, 0.9))
    assert [attacks.lost(times) for times in attacks.times] == [0, 2]
    assert [attacks.lost(4.0, kind) for kind in attacks.kinds] == [2, 0]
    assert [attacks.significant(times) for times in attacks.times] == [0, 1]
    assert [image.lost_at for image in attacks.images] == [0.04, 0.04, math.inf]
    assert build_attacked(0, 1e-3, 0.9).lost_at == 0.99 * 0.01  # a ball holds all smaller ones


def holm(p_values, level):
    """The adjusted p-values, the largest of all before each, beside the level."""
    order = np.argsort(p_values, kind="stable")
    adjusted = np.maximum.accumulate(np.sort(p_values) * np.arange(len(p_values), 0, -1))
    return sorted(order[adjusted <= level].tolist())


def test_holm_rejects_what_its_adjusted_p_values_reject():
    rng = np.random.default_rng(0)
    for _ in range(200):
        p_values = rng.random(8) ** 6
        pairs = [(p, Target(index, 0, 0, 0.1)) for index, p in enumerate(p_values)]
        assert sorted(target.index for _, target in rejected(pairs, 0.05)) == holm(p_values, 0.05)
    assert rejected([], 0.05) == []


def test_true_certificates_are_called_broken_as_rarely_as_is_said():
    """All p-values uniform: more than the expected share of families with an alarm has probability below 1e-6."""
    rng = np.random.default_rng(1)
    families = rng.random((20_000, 20))
    alarms = sum(bool(rejected([(p, Target(0, 0, 0, 0.1)) for p in family], 0.01)) for family in families)
    assert alarms <= 200 + 4.9 * math.sqrt(200)


def test_only_what_lies_within_the_radius_breaks_a_certificate():
    sure = FAMILY_LEVEL / 2 / 3 / 2  # half of what two kinds and three images leave
    images = [build_attacked(0, sure, 0.9), build_attacked(1, 0.9, 1e-12), build_attacked(2, 4 * sure, 1e-12)]
    assert [target.index for target in build_attacks(*images).broken] == [0]
    images = [build_attacked(index, 0.9, 1e-12, times=(1.0, 4.0)) for index in range(3)]
    assert build_attacks(*images, times=(1.0, 4.0)).broken == []


def test_targets_are_certified_images_with_a_radius(make_records, make_decided):
    made = make_records()
    assert targets_of(made) == (
        Target(0, 0, 0, made[0].certificate.radius), Target(1, 1, 1, made[1].certificate.radius),
        Target(2, 2, 0, made[2].certificate.radius),
    )  # fmt: skip
    assert [target.index for target in targets_of([make_decided(0, 0, 0, 1), make_decided(1, 0, 0, 2)])] == [1]


def test_the_file_holds_everything_and_a_table(tmp_path):
    attacks = build_attacks(build_attacked(0, 1e-9, 1e-9), build_attacked(3, 0.9, 0.2), total=5)
    write_attacks(tmp_path, "test", attacks)
    assert read_attacks(tmp_path, "test") == attacks
    content = json.loads((tmp_path / "attack" / "test.json").read_text())
    by_kind = {"gradient": 1, "search": 0}
    assert content["table"][0] == {"times": 0.99, "images": 2, "lost": 1, "significant": 1, "by_kind": by_kind}
    assert content["broken"] == [0]
    assert read_attacks(tmp_path, "other") is None


@pytest.mark.parametrize(
    "damage",
    [
        lambda text: text[:-30],
        lambda text: "[]",
        lambda text: text.replace('"p_value"', '"p"'),
        lambda text: text.replace('"counts": [', '"counts": [[],'),
        lambda text: text.replace('"kinds"', '"sorts"'),
        lambda text: text.replace('"label": 0', '"label": 7'),
        lambda text: text.replace('"model"', '"models"'),
    ],
)
def test_a_damaged_file_gets_one_sentence(tmp_path, damage):
    write_attacks(tmp_path, "test", build_attacks(build_attacked(0, 0.9, 0.2)))
    path = tmp_path / "attack" / "test.json"
    path.write_text(damage(path.read_text()))
    with pytest.raises(ReportError, match="move it away"):
        read_attacks(tmp_path, "test")


def test_attacks_fit_the_first_targets_of_their_model():
    attacks = build_attacks(build_attacked(0, 0.9, 0.2), build_attacked(3, 0.9, 0.2))
    targets = [image.target for image in attacks.images]
    assert attacks.fit("model", targets)
    assert attacks.fit("model", [*targets, Target(4, 0, 0, 0.1)])
    assert not attacks.fit("other", targets)
    assert not attacks.fit("model", targets[:1])
    assert not attacks.fit("model", [targets[0], replace(targets[1], radius=0.02)])


IMAGE = Attacked(Target(0, 1, 1, 0.01), (Attempt("gradient", 0.5, 0, (10, 90), 1.0),))
ATTACKS = Attacks({"times": [0.5], "kinds": ["gradient"]}, "model", 1, 2.5, (IMAGE,))


@pytest.mark.parametrize(
    ("place", "key", "value"),
    [
        (("images", 0, "attempts", 0), "counts", [10, "90"]), (("images", 0, "attempts", 0), "counts", [90]),
        (("images", 0, "attempts", 0), "times", 2.0), (("images", 0, "attempts", 0), "p_value", None),
        (("images", 0, "target"), "label", 2), (("images", 0, "target"), "label", -1),
        (("images", 0, "target"), "radius", "x"), (("images", 0), "attempts", []), ((), "total", 1.5),
        ((), "images", 3), ((), "settings", {"times": "x"}), ((), "settings", None),
    ],
    ids=str,
)  # fmt: skip
def test_a_damaged_file_of_attacks_is_named(tmp_path, place, key, value):
    content = part = json.loads(ATTACKS.to_json())
    for step in place:
        part = part[step]
    part[key] = value
    (tmp_path / "attack").mkdir()
    (tmp_path / "attack/test.json").write_text(json.dumps(content))
    with pytest.raises(ReportError, match=r"test\.json cannot be read"):
        read_attacks(tmp_path, "test")
