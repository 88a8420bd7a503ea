"""Draws saved by each stopping mode, and what they cost: python benchmarks/stopping.py [--records FILE ...] --out FILE.

Votes are synthetic (class probabilities drawn from the distributions below, then binomial votes) unless record files
of mode "fixed" are given: then each image's own votes are dealt out in random order, which is as it was drawn.
Radii are in units of tau, the effective noise. Compared with N draws for every image and the full alpha at each radius;
a share lost is of the certified images (points) or of the average radius (percent).
"""

import argparse
import json
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from scipy.special import betaincinv, ndtr, ndtri

from ars.certification.settings import Schedule
from ars.certification.stopping import CurveRule, RadiusRule, Rule
from ars.runs.records import read_records

IMAGES, SELECT = 4000, 100
GRIDS = {
    "one radius, 0.5": (0.5,),
    "one radius, 1": (1.0,),
    "one radius, 2": (2.0,),
    "one radius, 3": (3.0,),
    "8 radii to 3.2": tuple((0.4 * np.arange(1, 9)).tolist()),
    "15 radii to 3.75": tuple((0.25 * np.arange(1, 16)).tolist()),
}
Deal = Callable[[np.ndarray, np.ndarray, np.random.Generator], np.ndarray]


@dataclass(frozen=True)
class Images:
    """Selection votes for the candidate of each image, its votes in n draws, and how to deal some of them."""

    selected: np.ndarray  # [images, 2]: for the candidate, against it
    full: np.ndarray  # [images]: votes for the candidate in n draws
    n: int
    deal: Deal  # (draws so far [images, 2], more draws [images], rng) -> votes for the candidate among them


def synthetic(p: np.ndarray, n: int, rng: np.random.Generator) -> Images:
    """Binomial votes; the class that leads the selection draws is the candidate."""
    first = rng.binomial(SELECT, p)
    chosen = np.where(2 * first >= SELECT, p, 1 - p)
    votes = np.maximum(first, SELECT - first)
    selected = np.stack([votes, SELECT - votes], axis=1)
    return Images(selected, rng.binomial(n, chosen), n, lambda _, more, own: own.binomial(more, chosen))


def recorded(paths: Sequence[Path]) -> Images:
    """The votes of records, dealt out without replacement."""
    every = [record.certificate for path in paths for record in read_records(path)]
    sizes = {(it.schedule.mode, it.n_estimate) for it in every}
    if len(sizes) != 1 or min(sizes)[0] != "fixed":
        raise SystemExit(f"need records of mode 'fixed' with one N, got {sorted(sizes)}")
    top = np.array([(it.select_counts[it.candidate], it.counts[it.candidate]) for it in every])
    selected = np.stack([top[:, 0], np.array([sum(it.select_counts) for it in every]) - top[:, 0]], axis=1)
    full, n = top[:, 1], every[0].n_estimate

    def deal(counts: np.ndarray, more: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        return rng.hypergeometric(full - counts[:, 0], n - full - counts[:, 1], more)

    return Images(selected, full, n, deal)


def follow(rule: Rule, images: Images, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray, np.ndarray, float]:
    """(radii certified, whether the plan was completed, votes, seconds that the rule itself took)."""
    began, elsewhere = time.perf_counter(), 0.0
    state, counts = rule.start(images.selected), np.zeros_like(images.selected)
    while state.going.any():
        drawn = counts.sum(axis=1)
        more = np.where(state.going, rule.next_look(drawn, state) - drawn, 0)
        dealing = time.perf_counter()
        wins = images.deal(counts, more, rng)
        elsewhere += time.perf_counter() - dealing
        counts = counts + np.stack([wins, more - wins], axis=1)
        state = rule.look(state, counts)
    return state.certified, counts.sum(axis=1) == state.planned, counts, time.perf_counter() - began - elsewhere


def lower(hits: np.ndarray, n: np.ndarray | int, alpha: float) -> np.ndarray:
    """Clopper and Pearson's bound, to a benchmark's precision."""
    return np.where(hits > 0, betaincinv(np.maximum(hits, 0.5), n - hits + 1, alpha), 0.0)


def saved(images: Images, counts: np.ndarray) -> float:
    """How many times fewer draws, those of the selection included."""
    selection = images.selected.sum(axis=1).mean()
    return float((images.n + selection) / (counts.sum(axis=1).mean() + selection))


def measure(images: Images, alpha: float, seed: int) -> list[dict[str, object]]:
    """Every mode on the same images."""
    rows: list[dict[str, object]] = []
    full = np.maximum(0, ndtri(lower(images.full, images.n, alpha)))
    for name, radii in GRIDS.items():
        rule = CurveRule(Schedule("curve", images.n, radii), [float(ndtr(radius)) for radius in radii], alpha=alpha)
        try:
            rule.check()
        except ValueError as error:
            print(f"  left out: {error}")
            continue
        certified, _, counts, seconds = follow(rule, images, np.random.default_rng(seed))
        lost = [float(100 * ((full > r).mean() - (certified > i).mean())) for i, r in enumerate(radii)]
        rows.append(
            {"mode": "curve", "what": name, "saved": saved(images, counts), "lost_points": lost,
             "worst_lost_points": max(lost), "rule_us_per_image": 1e6 * seconds / len(full)}
        )  # fmt: skip
    for tolerance in (0.01, 0.05):
        planner = RadiusRule(Schedule("radius", images.n, tolerance=tolerance), alpha=alpha, bound="cohen")
        _, planned, counts, seconds = follow(planner, images, np.random.default_rng(seed))
        radius = np.where(planned, np.maximum(0, ndtri(lower(counts[:, 0], counts.sum(axis=1), alpha))), 0.0)
        rows.append(
            {"mode": "radius", "what": f"within {tolerance:.0%}", "saved": saved(images, counts),
             "average_radius_lost_percent": float(100 * (1 - radius.mean() / full.mean())),
             "abstentions_more_points": float(100 * ((radius == 0).mean() - (full == 0).mean())),
             "rule_us_per_image": 1e6 * seconds / len(full)}
        )  # fmt: skip
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--records", type=Path, nargs="+", default=[], help="record files of mode fixed")
    parser.add_argument("--alpha", type=float, default=0.001, help="for records; synthetic votes have two settings")
    parser.add_argument("--out", type=Path, default=Path("stopping.json"))
    options = parser.parse_args()
    rng = np.random.default_rng(0)
    results = []
    if options.records:
        cases = [("recorded votes", options.alpha, recorded(options.records))]
    else:
        sure = rng.random(IMAGES) < 0.4
        p = {
            "40% all but unanimous (1 - p from 1e-6 to 1e-2), the rest Beta(2, 1)": np.where(
                sure, 1 - 10 ** rng.uniform(-6, -2, IMAGES), rng.beta(2, 1, IMAGES)
            ),
            "Phi^-1(p) ~ N(1.3, 1.5^2), a good classifier": ndtr(rng.normal(1.3, 1.5, IMAGES)),
            "Phi^-1(p) ~ N(0.5, 1), a weak one": ndtr(rng.normal(0.5, 1.0, IMAGES)),
        }
        cases = [
            (name, alpha, synthetic(values, n, rng))
            for name, values in p.items()
            for n, alpha in ((100_000, 0.001), (50_000, 0.05))
        ]
    for name, alpha, images in cases:
        rows = measure(images, alpha, seed=1)
        results.append({"votes": name, "images": len(images.full), "n": images.n, "alpha": alpha, "rows": rows})
        print(f"{name}; N = {images.n:,}, alpha = {alpha}, {len(images.full)} images")
        for row in rows:
            cost = "worst_lost_points" if row["mode"] == "curve" else "average_radius_lost_percent"
            print(f"  {row['mode']:6} {row['what']:17} {row['saved']:6.2f} times fewer draws, {cost} {row[cost]:.2f}")
    source = "recorded" if options.records else "synthetic"
    options.out.write_text(json.dumps({"source": source, "n_select": SELECT, "results": results}, indent=2) + "\n")


if __name__ == "__main__":
    main()
