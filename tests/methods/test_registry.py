"""The registry of methods: what it knows, and a method of another package from train to report."""

import sys
from dataclasses import dataclass

import pytest

from ars.cli.main import main
from ars.methods.registry import Method, methods
from ars.recipes.recipe import Recipe

# Two looks at all of the image, the second with `times` the noise of the first: in a package of its own.
TOY = """
from dataclasses import dataclass

from ars.methods.registry import Method
from ars.smoothing import Gaussian, SmoothedClassifier, compose, minimum_variance


@dataclass(frozen=True)
class Options:
    times: float = 1.0


def build(settings, inputs, classifier, options):
    first = settings.sigma * (1 + options.times**-2) ** 0.5
    steps = compose(Gaussian(first), Gaussian(first * options.times))
    return SmoothedClassifier(steps, minimum_variance, classifier)


TWICE = Method("twice", "Two looks", "toy:build", "#123456", looks=2, options=Options)
"""
FAST = [
    "--data.passes", "1", "--classifier.width", "4", "--train.epochs", "1", "--train.max_steps", "2",
    "--certify.examples", "2", "--certify.n_estimate", "100", "--certify.precision", "float32",
]  # fmt: skip


@pytest.fixture
def ars(tmp_path, monkeypatch, capsys):
    """The command line where the package is installed, or where it is not."""
    (tmp_path / "toy.py").write_text(TOY)
    about = tmp_path / "toy-1.0.dist-info"
    about.mkdir()
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: toy\nVersion: 1.0\n")
    (about / "entry_points.txt").write_text("[ars.methods]\ntwice = toy:TWICE\n")
    (tmp_path / "recipe.yaml").write_text("method: twice\nsigma: 0.5\noptions: {times: 2}\n")
    monkeypatch.chdir(tmp_path)

    def run(*arguments, installed=True):
        methods.cache_clear()
        with monkeypatch.context() as patch:
            if installed:
                patch.syspath_prepend(tmp_path)
            code = main(arguments)
        methods.cache_clear()
        sys.modules.pop("toy", None)
        return code, *capsys.readouterr()

    return run


def test_a_method_of_another_package_goes_from_train_to_report(ars, tmp_path):
    for command in (["train", "recipe.yaml", "--out", "run", *FAST], ["certify", "run"]):
        code, out, problem = ars(*command)
        assert code == 0, problem
    assert "Two looks" in out
    assert '"sigmas": [0.559' in next((tmp_path / "run/certify").rglob("*.jsonl")).read_text()
    assert ars("report", "run", "--out", "report")[0] == 0
    page = (tmp_path / "report/index.html").read_text()
    assert "Two looks" in page
    assert "#123456" in page

    # records are read where the package is not installed; the model is not
    assert ars("report", "run", "--out", "away", installed=False)[0] == 0
    assert "twice" in (tmp_path / "away/index.html").read_text()
    code, _, problem = ars("certify", "run", installed=False)
    assert code == 2
    assert "method" in problem
    assert "twice" in problem


@pytest.mark.parametrize("option", ["--options.many=3", "--options.times=0x"])
def test_wrong_options_of_a_method_are_refused(ars, option, tmp_path):
    code, _, problem = ars("train", "recipe.yaml", "--out", "run", option)
    assert code == 2
    assert len(problem.splitlines()) == 1
    assert not (tmp_path / "run").exists()


def test_options_count_in_an_identity_only_where_there_are_some(monkeypatch):
    @dataclass(frozen=True)
    class Options:
        times: float = 1.0

    known = {**methods(), "twice": Method("twice", "Two", "toy:build", "#123456", options=Options)}
    monkeypatch.setattr("ars.methods.registry.methods", lambda: known)
    assert "options" not in Recipe().resolved()
    one, two = (Recipe(method="twice", options={"times": times}) for times in (1.0, 2.0))
    assert one.identity != two.identity


def test_a_recipe_names_a_method_that_is_known():
    with pytest.raises(ValueError, match="method must be one of cohen"):
        Recipe(method="nothing")
    with pytest.raises(ValueError, match="no option times"):
        Recipe(options={"times": 2})


def test_every_built_in_method_says_what_it_needs():
    assert list(methods())[:5] == ["cohen", "static_mask", "unicr", "sukenik", "adaptive"]
    assert len({method.colour for method in methods().values()}) == len(methods())
    assert [name for name, method in methods().items() if method.masked] == ["static_mask", "adaptive"]
    assert methods()["adaptive"].looks == 2
    assert methods()["sukenik"].input_dependent
