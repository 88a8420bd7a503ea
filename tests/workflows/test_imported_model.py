import dataclasses
import sys
from pathlib import Path

import pytest
import yaml

from ars.certification.settings import CertifySettings
from ars.methods.cohen import cohen
from ars.recipes.recipe import RecipeError
from ars.runs.run import load_runs
from ars.runs.shards import merge
from ars.smoothing import SmoothedClassifier
from ars.theory import total_noise
from ars.workflows.certify import certify_run
from ars.workflows.imported_model import Given, check_certified, import_model, load_certified
from ars.workflows.request import Request

from ..conftest import CPU, contents

FEW = CertifySettings(examples=2, n_select=10, n_estimate=20, precision="float32")
DIGITS = ("--data.kind=digits",)
MODELS = """
import torch
from torch import nn
from ars import Gaussian, SmoothedClassifier, adaptive, cohen, compose, last

torch.manual_seed(0)
network = nn.Sequential(nn.Flatten(), nn.Linear(3 * 24 * 24, 10))
smoothed = cohen(network, sigma=0.5)
exact = SmoothedClassifier(compose(Gaussian(0.5, exact=True)), last, network)
wide = nn.Sequential(nn.Flatten(), nn.Linear(3 * 32 * 32, 10))
few = nn.Sequential(nn.Flatten(), nn.Linear(3 * 24 * 24, 7))
number = 7

class Random(nn.Module):
    def forward(self, x):
        return network(nn.functional.dropout(x, 0.5))

class Pair(nn.Module):
    def forward(self, x):
        return network(x), x

class Missing(nn.Module):
    def forward(self, x):
        return {}["logits"]

class NoNumbers(nn.Module):
    def forward(self, x):
        return network(x) * float("nan")

class Scattering(nn.Module):
    def forward(self, x):
        logits = torch.zeros(len(x), 10)
        logits[:, torch.arange(10)] = network(x)[:, :10]
        return logits

class Counting(nn.Sequential):
    calls = 0

    def forward(self, x):
        self.calls += 1
        return super().forward(x)

random, pair, missing, nan, scattering = Random(), Pair(), Missing(), NoNumbers(), Scattering()
counting = Counting(*network)
two_steps = adaptive(network, nn.Sequential(nn.Conv2d(3, 1, 1), nn.Sigmoid()), sigma=0.25, share=0.2)

def make():
    return smoothed

def make_number():
    return 7

def fails():
    raise KeyError("weights.pt")

class Space:
    model = smoothed
"""


@pytest.fixture
def models(own_code):
    """A module in the current folder, as a user would have it."""
    own_code("my_models", MODELS)
    own_code("my_broken", "import a_package_that_is_not_there\n")


def certify(name, sigma=None, settings=FEW, *, data=DIGITS, to="test"):
    certify_run(Request(Path("out"), settings, name=to, given=Given(f"my_models:{name}", data, sigma)), device=CPU)


def recipe():
    return yaml.safe_load(Path("out/recipe.yaml").read_text())


@pytest.mark.parametrize(
    ("name", "sigma", "noise"),
    [("smoothed", None, 0.5), ("make", None, 0.5), ("Space.model", None, 0.5), ("network", 0.25, 0.25)],
)
def test_a_model_or_a_function_that_makes_one_is_imported_from_the_current_folder(models, name, sigma, noise):
    model = import_model(f"my_models:{name}", sigma)
    assert isinstance(model, SmoothedClassifier)
    assert model.mechanism.sigmas == (noise,)


@pytest.mark.parametrize(
    ("path", "sigma", "words"),
    [
        ("my_models", None, "package.module:attribute"),
        ("my_models:", None, "package.module:attribute"),
        ("no_such_models:make", None, "no_such_models"),
        ("my_broken:make", None, "a_package_that_is_not_there"),
        ("my_models:magic", None, "no attribute 'magic'"),
        ("my_models:number", None, "got int"),
        ("my_models:make_number", None, "got int"),
        ("my_models:fails", None, "KeyError"),
        ("my_models:network", None, "--sigma S"),
        ("my_models:smoothed", 0.5, "--sigma"),
        ("my_models:network", -1.0, "sigma must be positive"),
    ],
)
def test_what_is_not_a_model_gets_one_sentence(models, path, sigma, words):
    with pytest.raises(ValueError, match=words) as caught:
        import_model(path, sigma)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("wide", "digits on photographs"),
        ("pair", "tuple"),
        ("missing", "KeyError: 'logits'"),
        ("few", r"\[1, 7\] for one image, .* has 10 classes \(0, 1, .*, 9\)"),
        ("random", "random numbers"),
        ("nan", "NaN"),
        ("scattering", "bfloat16"),
    ],
)
def test_a_model_that_cannot_be_certified_is_refused_and_leaves_nothing(models, name, words):
    settings = dataclasses.replace(FEW, precision="bfloat16" if name == "scattering" else "float32")
    with pytest.raises(ValueError, match=words):
        certify(name, 0.5, settings)
    assert not Path("out").exists()


def test_a_model_that_cannot_compute_in_bf16_is_certified_in_float32(models):
    certify("scattering", 0.5)
    assert {record.certificate.precision for record in merge(Path("out/certify/test")).records} == {"float32"}


def test_a_model_that_counts_its_calls_is_certified_and_continues_in_the_next_session(models, own_code):
    for examples in (2, 4):
        own_code("my_models", MODELS)  # as another call of ars would find it
        certify("counting", 0.5, dataclasses.replace(FEW, examples=examples))
    assert len(merge(Path("out/certify/test")).records) == 4
    own_code("my_models", MODELS)
    load_certified(Path("out"), recipe(), CPU)


def test_a_folder_with_something_else_is_left_alone(models):
    Path("out").mkdir()
    Path("out/notes.txt").write_text("mine")
    with pytest.raises(RecipeError, match="not a run folder"):
        certify("smoothed")
    Path("out/recipe.yaml").write_text("{: no yaml")
    before = contents(Path("out"))
    with pytest.raises(RecipeError, match="another model"):
        certify("smoothed")
    assert contents(Path("out")) == before


def test_an_unknown_benchmark_is_refused(models):
    with pytest.raises(RecipeError, match="kind"):
        certify("smoothed", data=("--data.kind=magic",))


def test_a_folder_holds_the_records_of_one_model_on_one_benchmark(models):
    for _ in range(2):
        certify("smoothed")
    assert (recipe()["model"], len(merge(Path("out/certify/test")).records)) == ("my_models:smoothed", 2)
    before = contents(Path("out"))
    for name, sigma in (("make", None), ("network", 0.7)):
        with pytest.raises(RecipeError, match="another model"):
            certify(name, sigma)
    with pytest.raises(RecipeError, match=r"data\.seed = 0"):
        certify("smoothed", data=(*DIGITS, "--data.seed=3"))
    assert contents(Path("out")) == before


@pytest.mark.parametrize(("name", "sigma"), [("smoothed", None), ("network", 0.5)])
def test_records_continue_at_the_noise_that_they_were_begun_with_whoever_gave_it(models, name, sigma):
    certify(name, sigma)
    written = recipe()
    assert written["given_sigma"] == sigma
    before = contents(Path("out"))
    my_models = sys.modules["my_models"]
    my_models.smoothed = cohen(my_models.network, sigma=0.25)
    with pytest.raises(RecipeError, match=r"sigma = 0\.5, got 0\.25"):
        certify(name, None if sigma is None else 0.25)
    assert contents(Path("out")) == before
    # as an earlier version wrote it, and with the noise by other means
    Path("out/recipe.yaml").write_text(yaml.safe_dump({key: written[key] for key in written if key != "given_sigma"}))
    setattr(my_models, name, cohen(my_models.network, sigma=0.5))
    certify(name)


@pytest.mark.parametrize(("name", "sigma"), [("smoothed", 0.5), ("two_steps", 0.25)])
def test_its_recipe_states_the_noise_of_all_steps_together(models, name, sigma):
    given = Given(f"my_models:{name}", DIGITS)
    benchmark, model = given.load(CPU)
    given.claim(Path("out"), model, benchmark, CPU)
    assert recipe()["sigma"] == pytest.approx(sigma, rel=1e-12)
    assert recipe()["sigma"] == pytest.approx(total_noise(model.mechanism.sigmas), rel=1e-12)


@pytest.mark.parametrize("change", [("seed(0)", "seed(1)"), ("calls = 0", "calls, version = 0, 2")])
def test_a_model_whose_weights_or_version_changed_is_not_mixed_with_earlier_records(own_code, change):
    own_code("my_models", MODELS)
    certify("counting", 0.5)
    own_code("my_models", MODELS.replace(*change))
    with pytest.raises(ValueError, match="other weights or noise"):
        certify("counting", 0.5, dataclasses.replace(FEW, examples=4))
    with pytest.raises(RecipeError, match="other weights or noise"):
        load_certified(Path("out"), recipe(), CPU)


def test_the_models_of_all_certifications_in_a_folder_are_known(models):
    model = import_model("my_models:smoothed")
    bias = sys.modules["my_models"].network[1].bias.data
    for number, name in enumerate(("first", "second")):
        bias.fill_(number)
        certify("smoothed", to=name)
    for number in (0, 1):
        bias.fill_(number)
        check_certified(Path("out"), model)
    bias.fill_(2)
    with pytest.raises(RecipeError, match="other weights or noise"):
        check_certified(Path("out"), model)


def test_a_model_with_exact_steps_of_its_own_is_recorded_as_exact(models):
    certify("exact")
    certify("exact", settings=dataclasses.replace(FEW, examples=3))
    merged = merge(Path("out/certify/test"))
    assert merged.manifest.settings["exact"] is True
    assert [record.certificate.exact for record in merged.records] == [True] * 3
    [run] = load_runs([Path("out")])
    assert run.settings.exact
