"""The page on your own method runs as printed, and its noise is what its step states."""

import importlib
import re
import runpy
import shlex
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from scipy.stats import kstest, laplace, norm

import ars
from ars.cli.main import main
from ars.recipes.recipe import Recipe
from ars.theory import Ball

PAGE = (Path(__file__).parents[2] / "docs" / "own-method.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"^```(\w*)\n(.*?)^```", PAGE, flags=re.DOTALL | re.MULTILINE)
MODULES = ("my_method", "my_noise", "train", "my_trained", "my_methods", "denoiser")


@pytest.fixture
def page(tmp_path, monkeypatch):
    """A folder with the files of the page, from which they are imported; the commands."""
    files = [block for kind, block in BLOCKS if kind == "python"]
    commands = next(block for kind, block in BLOCKS if not kind and "ars certify" in block)
    for name, code in zip(MODULES, files, strict=True):
        (tmp_path / f"{name}.py").write_text(code)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    yield commands.splitlines()
    for name in MODULES:
        sys.modules.pop(name, None)


@pytest.fixture
def step(page):
    return importlib.import_module("my_noise").Laplace(0.5)


@pytest.mark.slow
def test_the_road_from_a_method_to_a_table(page, capsys):
    for command in page:
        program, *arguments = shlex.split(command)
        if program == "python":
            runpy.run_path(*arguments)
        else:
            assert main(arguments) == 0, command
    capsys.readouterr()
    [heading, *_] = tables = re.split(r"^#+ ", Path("report/table.md").read_text(), flags=re.MULTILINE)[1:]
    assert "σ = 0.75" in heading
    for table in tables:  # one for each bound
        rows = re.findall(r"^\| ([^|]+) \| [\d.]+ \|", table, flags=re.MULTILINE)
        assert rows == ["Cohen et al.", "my_trained:looks", "my_trained:laplace"]


@pytest.mark.slow
@pytest.mark.usefixtures("page")
def test_both_methods_pass_their_audit():
    """A false alarm has probability 1e-4 at most for each."""
    audits = next(block for kind, block in BLOCKS if not kind and "ars audit" in block).splitlines()
    assert len(audits) == 2
    for command in audits:
        assert main([*shlex.split(command)[1:], "--draws=4000", "--device=cpu"]) == 0


def test_three_looks_are_certified_as_one_of_their_noise(page):
    model = importlib.import_module("my_method").three_looks()
    expected = ars.theory.rs_radius_linf(0.75, 1728, 0.9, 0.1)
    assert model.radius(0.9, 0.1, norm="linf", dim=1728) == pytest.approx(expected, rel=1e-9)


@pytest.mark.false_alarm(1e-6)
def test_the_noise_that_is_drawn_is_laplace_noise_of_its_scale(step, seed):
    x = torch.rand(40, 3, 16, 16)
    release = step.release(x, [], torch.Generator().manual_seed(seed))
    noise = (release.value - x).flatten().double().numpy()
    assert kstest(noise, laplace(scale=step.scale).cdf).pvalue > 1e-7
    assert noise.std() == pytest.approx(float(release.std), rel=0.04)
    assert np.abs(np.corrcoef(noise.reshape(40, -1)) - np.eye(40)).max() < 7 / 768**0.5


@pytest.mark.parametrize("moved", [1e-3, 0.1, 0.5, 1.0, 3.0])
def test_its_guarantee_in_one_coordinate_is_below_the_trade_off_of_laplace_noise(step, moved):
    stated, exact = step.guarantee(Ball("linf", 1, moved)), ars.theory.Laplace(moved / step.scale)
    for alpha in (1e-9, 1e-3, 0.05, 0.25, 0.5, 0.75, 0.999):
        assert stated(alpha) <= exact(alpha)
    if moved < 0.01:  # no better constant would do
        assert stated(0.5) == pytest.approx(exact(0.5), rel=1e-5)


@pytest.mark.parametrize("p", [0.6, 0.9, 0.999])
def test_its_radius_is_below_that_by_composing_the_coordinates_and_by_what_the_page_says(step, p):
    own = step.radius(p, 1 - p, norm="linf", dim=1728)
    assert own == pytest.approx(ars.theory.rs_radius_linf(step.sigma, 1728, p, 1 - p), rel=1e-9)
    composed = ars.theory.unicr_radius_linf(2**0.5 * step.scale, 1.0, 1728, p, 1 - p)
    assert 1.24 < composed / own < 1.26


def test_no_test_tells_its_releases_apart_better_than_it_says(step):
    """The likelihood ratio, of all tests the best, on releases at X and at X + e, e = r everywhere."""
    draws, shape = 20_000, (3, 4, 4)
    ball = Ball("linf", 48, 0.1)
    x = torch.full((draws, *shape), 0.5)

    def score(images, seed):
        m = step.release(images, [], torch.Generator().manual_seed(seed)).value.double()
        return ((m - 0.5).abs() - (m - 0.5 - ball.radius).abs()).sum(dim=(1, 2, 3)).numpy()

    there, moved = score(x, 0), score(x + ball.radius, 1)
    for alpha in (0.05, 0.25, 0.5):
        missed = (moved <= np.quantile(there, 1 - alpha)).mean()
        margin = 4 * (0.25 / draws) ** 0.5 * 2
        assert missed > step.guarantee(ball)(alpha) - margin
        tight = norm.cdf(norm.ppf(1 - alpha) - ball.l2_radius / step.scale)  # of Fisher's information, as if Gaussian
        assert missed < tight + 0.05
    weaker = type(step)(2 * step.sigma)  # a step that states twice its noise is caught
    assert (moved <= np.quantile(there, 0.75)).mean() < weaker.guarantee(ball)(0.25) - margin


def test_its_draws_pass_the_trial_of_their_independence(page):
    model = importlib.import_module("my_noise").laplace_first()
    ars.certify(model, torch.rand(2, 3, 24, 24), n_estimate=100, seed=0)


def test_the_method_that_is_registered_can_be_built(page):
    method = importlib.import_module("my_methods").TWICE
    model = method.build(Recipe(sigma=0.5), None, torch.nn.Flatten())
    assert model.mechanism.sigmas == pytest.approx([0.5 * 2**0.5] * 2)


def test_the_denoiser_is_certified(page):
    assert max(runpy.run_path("denoiser.py")["radii"]) > 0
