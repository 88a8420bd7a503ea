"""Every committed radius is one that its votes allow, by formulas of this file's own."""

import gzip
import json
import math
from pathlib import Path

import pytest
import yaml
from scipy.stats import beta, norm

from ars.certification.bounds import class_probabilities
from ars.certification.certificate import Certificate
from ars.methods.paper_values import paper_beta
from ars.runs.records import Record
from ars.theory import ars_radius_linf, sukenik_radius, unicr_radius_linf

RESULTS = Path(__file__).parents[2] / "results"
CELLS = sorted(path.parents[2] for path in RESULTS.glob("*/*/certify/test/records.jsonl.gz"))


def certificates(cell: Path) -> list[Certificate]:
    with gzip.open(cell / "certify/test/records.jsonl.gz", "rt", encoding="utf-8") as lines:
        return [Record.from_json(line).certificate for line in lines]


def clopper_pearson(hits: int, draws: int, alpha: float) -> float:
    return float(beta.ppf(alpha, hits, draws - hits + 1)) if hits else 0.0


@pytest.mark.parametrize("cell", CELLS, ids=lambda cell: f"{cell.parent.name}/{cell.name}")
def test_committed_radii_are_those_of_their_votes(cell):
    recipe = yaml.safe_load((cell / "recipe.yaml").read_text(encoding="utf-8"))
    settings = json.loads((cell / "certify/test/settings.json").read_text(encoding="utf-8"))["settings"]
    method, certified = recipe["method"], 0
    shape = (recipe.get("beta") or paper_beta(recipe["data"]["size"], recipe["sigma"])) if method == "unicr" else 2.0
    for it in certificates(cell):
        assert sum(it.counts) == settings["n_estimate"] == it.planned
        assert sum(it.select_counts) == settings["n_select"]
        assert it.candidate == it.select_counts.index(max(it.select_counts))
        assert it.alpha == settings["alpha"]
        p = clopper_pearson(it.counts[it.candidate], sum(it.counts), it.alpha)
        assert (it.label is None) == (it.radii["cohen"] == 0)
        assert it.p_lower <= p * (1 + 1e-9)
        noise = 1 / math.hypot(*(1 / sigma for sigma in it.sigmas))
        if method in ("cohen", "static_mask", "adaptive"):
            assert noise == pytest.approx(recipe["sigma"], rel=1e-9)
            most = noise * max(float(norm.ppf(p)), 0.0) / math.sqrt(it.dim)
            assert most * (1 - 1e-6) <= it.radii["cohen"] <= most * (1 + 1e-9)
            low, high = class_probabilities(it.counts, it.candidate, it.alpha, "classes")
            classes = ars_radius_linf(it.sigmas, it.dim, low, high) if low > high else 0.0
            assert it.radii["classes"] <= classes * (1 + 1e-12)
        elif method == "sukenik":
            assert it.radii["cohen"] <= sukenik_radius(it.sigmas[0], 0.01, it.dim, p, norm="linf") * (1 + 1e-9)
        elif certified < 3:  # seconds each
            assert it.radii["cohen"] <= unicr_radius_linf(recipe["sigma"], shape, it.dim, p, 1 - p) * (1 + 1e-6)
        certified += it.label is not None
    assert certified >= 20
