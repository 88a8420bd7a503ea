import dataclasses
import sys
from pathlib import Path

import pytest
import torch
import yaml

from ars.certification.shards import merge
from ars.experiments.certifying.given import Given, check_certified, import_model, load_certified
from ars.experiments.certifying.local_engine import certify_run
from ars.experiments.certifying.request import Request
from ars.experiments.recipe import CertifySettings, RecipeError
from ars.methods import cohen
from ars.smoothing import SmoothedClassifier
from ars.theory import total_noise

from ..conftest import CPU

MODELS = """
import torch
from torch import nn
from ars import adaptive, cohen

torch.manual_seed(0)
network = nn.Sequential(nn.Flatten(), nn.Linear(3 * 24 * 24, 10))
smoothed = cohen(network, sigma=0.5)
wide = nn.Sequential(nn.Flatten(), nn.Linear(3 * 32 * 32, 10))
few = nn.Sequential(nn.Flatten(), nn.Linear(3 * 24 * 24, 7))
number = 7

class OfTheBatch(nn.Module):
    def forward(self, x):
        return network((x - x.mean(0)) / x.std(0).clamp_min(1e-6) if len(x) > 1 else x)

class Random(nn.Module):
    def forward(self, x):
        return network(nn.functional.dropout(x, 0.5))

class MaskOfTheBatch(nn.Module):
    def forward(self, x):
        left = x.flatten(1)[:, ::2].mean() > x.flatten(1)[:, 1::2].mean()
        return torch.full_like(x[:, :1], 0.9) if left else torch.rand(x[:, :1].shape, generator=torch.Generator())

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

batch, random, pair, missing, nan = OfTheBatch(), Random(), Pair(), Missing(), NoNumbers()
scattering = Scattering()
two_steps = adaptive(network, nn.Sequential(nn.Conv2d(3, 1, 1), nn.Sigmoid()), sigma=0.25, share=0.2)
masked = adaptive(network, MaskOfTheBatch(), sigma=0.5)

def make():
    return smoothed

def make_number():
    return 7

def needs(size):
    return smoothed

def fails():
    raise KeyError("weights.pt")

class Space:
    model = smoothed
"""


@pytest.fixture
def models(tmp_path, monkeypatch):
    """A module in the current folder, as a user would have it."""
    (tmp_path / "my_models.py").write_text(MODELS)
    (tmp_path / "my_broken.py").write_text("import a_package_that_is_not_there\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [path for path in sys.path if path not in ("", str(tmp_path))])
    yield tmp_path
    for name in ("my_models", "my_broken"):
        sys.modules.pop(name, None)


@pytest.mark.parametrize("name", ["smoothed", "make", "Space.model"])
def test_a_smoothed_classifier_or_its_factory_is_imported_from_the_current_folder(models, name):
    model = import_model(f"my_models:{name}")
    assert isinstance(model, SmoothedClassifier)
    assert model.mechanism.sigmas == (0.5,)


def test_a_plain_classifier_is_smoothed_as_in_cohen_et_al(models):
    model = import_model("my_models:network", 0.25)
    assert model.mechanism.sigmas == (0.25,)


@pytest.mark.parametrize(
    ("path", "sigma", "words"),
    [
        ("my_models", None, "--model must look like package.module:attribute, got 'my_models'"),
        (":smoothed", None, "must look like"),
        ("my_models:", None, "must look like"),
        ("no_such_models:make", None, "cannot import no_such_models from .*ModuleNotFoundError"),
        ("my_broken:make", None, "cannot import my_broken .*a_package_that_is_not_there"),
        ("my_models:magic", None, "my_models has no attribute 'magic'"),
        ("my_models:number", None, "must be or return a SmoothedClassifier or an nn.Module, got int"),
        ("my_models:make_number", None, "must be or return a SmoothedClassifier or an nn.Module, got int"),
        ("my_models:needs", None, "called without arguments and failed: TypeError"),
        ("my_models:fails", None, "called without arguments and failed: KeyError"),
        ("my_models:network", None, "without noise; .* --sigma S"),
        ("my_models:smoothed", 0.5, "brings its own noise; leave --sigma out"),
        ("my_models:network", -1.0, "sigma must be positive"),
    ],
)
def test_what_is_no_model_gets_one_sentence(models, path, sigma, words):
    with pytest.raises(ValueError, match=words) as caught:
        import_model(path, sigma)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("wide", "cannot take the digits on photographs images of shape"),
        ("pair", r"gives a tuple for an image, expected a tensor of logits \[b, classes\]"),
        ("missing", "cannot take .*: KeyError: 'logits'"),
        (
            "few",
            r"gives logits of shape \[1, 7\] for one image, digits on photographs has 10 classes \(0, 1, .*, 9\); it "
            r"should give \[1, 10\], a logit a class in this order: of a model of more classes pick these",
        ),
    ],
)
def test_a_model_that_does_not_fit_the_benchmark_is_refused(models, name, words):
    given = Given(f"my_models:{name}", ("--data.kind=digits",), 0.5)
    with pytest.raises(ValueError, match=words):
        given.check_fit(*given.load(CPU), CPU)


@pytest.mark.parametrize("name", ["batch", "random", "masked"])
def test_a_model_whose_draws_hang_together_or_are_not_its_noise_alone_is_refused(models, name):
    settings = CertifySettings(examples=3, n_select=10, n_estimate=20, precision="float32")
    given = Given(f"my_models:{name}", ("--data.kind=digits",), None if name == "masked" else 0.5)
    with pytest.raises(
        ValueError, match=r"answers otherwise to a noisy image alone than among others|draws random numbers of its own"
    ):
        certify_run(Request(models / "out", settings, given=given), device=CPU)
    assert not (models / "out").exists()


def test_a_model_without_numbers_is_refused_and_leaves_nothing(models):
    settings = CertifySettings(examples=3, n_select=10, n_estimate=20, precision="float32")
    given = Given("my_models:nan", ("--data.kind=digits",), 0.5)
    with pytest.raises(ValueError, match="no numbers"):
        certify_run(Request(models / "out", settings, given=given), device=CPU)
    assert not (models / "out").exists()


def test_a_model_that_answers_in_float32_alone_is_told_so_and_leaves_nothing(models):
    settings = CertifySettings(examples=3, n_select=10, n_estimate=20, precision="bfloat16")
    given = Given("my_models:scattering", ("--data.kind=digits",), 0.5)
    with pytest.raises(ValueError, match=r"answers in float32 but not in bfloat16 \(.*; ask for float32 \(--precision"):
        certify_run(Request(models / "out", settings, given=given), device=CPU)
    assert not (models / "out").exists()
    certify_run(Request(models / "out", dataclasses.replace(settings, precision="float32"), given=given), device=CPU)
    assert len(merge(models / "out" / "certify" / "test").records) == 3


def test_a_folder_with_something_else_in_recipe_yaml_is_left_alone(models):
    (models / "out").mkdir()
    (models / "out" / "recipe.yaml").write_text("{: no yaml")
    settings = CertifySettings(examples=3, n_select=10, n_estimate=20, precision="float32")
    given = Given("my_models:smoothed", ("--data.kind=digits",))
    with pytest.raises(RecipeError, match="holds another model or benchmark; choose another folder with --out"):
        certify_run(Request(models / "out", settings, given=given), device=CPU)


def test_a_benchmark_that_is_not_known_is_refused(models):
    with pytest.raises(RecipeError, match="kind"):
        Given("my_models:smoothed", ("--data.kind=magic",)).load(CPU)


def test_its_records_are_certified_into_a_folder_that_says_what_it_holds(models):
    given = Given("my_models:smoothed", ("--data.kind=digits",))
    settings = CertifySettings(examples=3, n_select=10, n_estimate=20, precision="float32")
    out = models / "out"
    certify_run(Request(out, settings, given=given), device=CPU)
    assert len(merge(out / "certify" / "test").records) == 3
    assert yaml.safe_load((out / "recipe.yaml").read_text())["model"] == "my_models:smoothed"
    certify_run(Request(out, settings, given=given), device=CPU)
    for other in (Given("my_models:make", given.data), Given("my_models:network", given.data, 0.7)):
        with pytest.raises(RecipeError, match="holds another model or benchmark"):
            certify_run(Request(out, settings, given=other), device=CPU)
    with pytest.raises(RecipeError, match="is not a run folder"):
        certify_run(Request(models, settings, given=given), device=CPU)


def test_a_key_of_the_data_that_alone_is_another_is_named(models):
    settings = CertifySettings(examples=3, n_select=10, n_estimate=20, precision="float32")
    begun = Given("my_models:smoothed", ("--data.kind=digits",))
    certify_run(Request(models / "out", settings, given=begun), device=CPU)
    other = Given("my_models:smoothed", ("--data.kind=digits", "--data.seed=3"))
    with pytest.raises(RecipeError, match=r"out was begun with data\.seed = 0, asked for is 3; give the same"):
        certify_run(Request(models / "out", settings, given=other), device=CPU)


@pytest.mark.parametrize(("name", "sigma"), [("smoothed", None), ("network", 0.5)])
def test_records_go_on_at_the_noise_that_they_were_begun_with_whoever_gave_it(models, name, sigma):
    settings = CertifySettings(examples=3, n_select=10, n_estimate=20, precision="float32")
    given, out = Given(f"my_models:{name}", ("--data.kind=digits",), sigma), models / "out"
    certify_run(Request(out, settings, given=given), device=CPU)
    recipe = yaml.safe_load((out / "recipe.yaml").read_text())
    assert recipe["given_sigma"] == sigma
    before = {path: path.read_bytes() for path in out.rglob("*") if path.is_file()}
    sys.modules["my_models"].smoothed = cohen(sys.modules["my_models"].network, sigma=0.25)
    other = dataclasses.replace(given, sigma=None if sigma is None else 0.25)
    words = f"holds records of my_models:{name} at sigma = 0.5, asked for is 0.25; give the same noise, or choose"
    with pytest.raises(RecipeError, match=words):
        certify_run(Request(out, settings, given=other), device=CPU)
    assert {path: path.read_bytes() for path in out.rglob("*") if path.is_file()} == before
    # as a version before wrote it, and with the noise by other means
    (out / "recipe.yaml").write_text(yaml.safe_dump({key: recipe[key] for key in recipe if key != "given_sigma"}))
    setattr(sys.modules["my_models"], name, cohen(sys.modules["my_models"].network, sigma=0.5))
    certify_run(Request(out, settings, given=dataclasses.replace(given, sigma=None)), device=CPU)


@pytest.mark.parametrize(("name", "sigma"), [("smoothed", 0.5), ("two_steps", 0.25)])
def test_the_noise_that_its_recipe_states_is_that_of_all_steps_together(models, name, sigma):
    given = Given(f"my_models:{name}", ("--data.kind=digits",))
    benchmark, model = given.load(CPU)
    given.claim(models / "out", model, benchmark, CPU)
    written = yaml.safe_load((models / "out" / "recipe.yaml").read_text())["sigma"]
    assert written == pytest.approx(sigma, rel=1e-12)
    assert written == pytest.approx(total_noise(model.mechanism.sigmas), rel=1e-12)


def test_changed_weights_are_not_mixed_with_earlier_records(models):
    given = Given("my_models:smoothed", ("--data.kind=digits",))
    settings = CertifySettings(examples=3, n_select=10, n_estimate=20, precision="float32")
    certify_run(Request(models / "out", settings, given=given), device=CPU)
    with torch.no_grad():
        sys.modules["my_models"].network[1].bias += 1
    with pytest.raises(ValueError, match="a model with other weights"):
        certify_run(Request(models / "out", settings, given=given), device=CPU)


OWN_NOISE = """
import math
import torch
import ars
from torch import nn

def laplace(run, generator):
    return run.exponential_(generator=generator) - torch.empty_like(run).exponential_(generator=generator)

class Laplace(ars.Step):
    def __init__(self, sigma):
        super().__init__()
        self._sigma, self.scale = sigma, 0.5 * sigma

    @property
    def sigma(self):
        return self._sigma

    def release(self, x, past, generator):
        one = torch.ones(1, 1, 1, 1, device=x.device)
        return ars.Release(x + self.scale * ars.draw_like(x, generator, laplace), one, math.sqrt(2) * self.scale * one)

    def guarantee(self, ball):
        return ars.theory.Gaussian(ball.l2_radius / self.sigma)

class Shifted(nn.Sequential):
    def __init__(self, *parts):
        super().__init__(*parts)
        self.mean = [0.5, 0.5, 0.5]

    def forward(self, x):
        return super().forward(x - torch.tensor(self.mean).view(-1, 1, 1))

def make():
    torch.manual_seed(0)
    network = Shifted(nn.Flatten(), nn.Linear(3 * 24 * 24, 10))
    return ars.SmoothedClassifier(ars.compose(Laplace(0.5)), ars.last, network)
"""


@pytest.mark.parametrize("change", [("0.5 * sigma", "1.2534 * sigma"), ("[0.5, 0.5, 0.5]", "[0.9, 0.9, 0.9]")])
def test_settings_of_own_noise_and_own_networks_are_not_mixed_with_earlier_records(models, change):
    given, out = Given("my_models:make", ("--data.kind=digits",)), models / "out"
    settings = CertifySettings(examples=2, n_select=10, n_estimate=20, precision="float32")
    for text in (OWN_NOISE, OWN_NOISE):
        sys.modules.pop("my_models", None)
        (models / "my_models.py").write_text(text)
        certify_run(Request(out, settings, given=given), device=CPU)
    sys.modules.pop("my_models")
    (models / "my_models.py").write_text(OWN_NOISE.replace(*change) + "# of another length\n")
    more = dataclasses.replace(settings, examples=4)
    with pytest.raises(ValueError, match="a model with other weights or noise"):
        certify_run(Request(out, more, given=given), device=CPU)
    with pytest.raises(RecipeError, match="a model with other weights or noise"):
        load_certified(out, yaml.safe_load((out / "recipe.yaml").read_text()), CPU)


SAVING_MORE = """
import torch
from torch import nn
from torch.ao import quantization

class Extra(nn.Sequential):
    def get_extra_state(self):
        return {"version": 1}

    def set_extra_state(self, state):
        pass

def quantised():
    net = nn.Sequential(quantization.QuantStub(), nn.Flatten(), nn.Linear(3 * 24 * 24, 10), quantization.DeQuantStub())
    net.eval().qconfig = quantization.get_default_qconfig("x86")
    quantization.prepare(net, inplace=True)
    net(torch.rand(8, 3, 24, 24))
    return quantization.convert(net)

torch.manual_seed(0)
extra = Extra(nn.Flatten(), nn.Linear(3 * 24 * 24, 10))
"""


@pytest.mark.filterwarnings("ignore::UserWarning", "ignore::DeprecationWarning")
@pytest.mark.parametrize("name", ["extra", "quantised"])
def test_a_model_that_saves_more_than_plain_tensors_is_certified_and_goes_on(models, name):
    given, out = Given(f"my_models:{name}", ("--data.kind=digits",), 0.5), models / "out"
    settings = CertifySettings(examples=2, n_select=10, n_estimate=20, precision="float32")
    (models / "my_models.py").write_text(SAVING_MORE)
    for examples in (2, 4):
        sys.modules.pop("my_models", None)
        certify_run(Request(out, dataclasses.replace(settings, examples=examples), given=given), device=CPU)
    assert len(merge(out / "certify" / "test").records) == 4


WITH_CONFIG = """
import functools
import logging
import threading
import torch
from torch import nn

class Config:
    def __init__(self, shift):
        self.shift, self.log, self.lock = shift, logging.getLogger("my_models"), threading.Lock()

class Rolled(nn.Sequential):
    def __init__(self, config):
        super().__init__(nn.Flatten(), nn.Linear(3 * 24 * 24, 10))
        self.config, self.after, self.cached = config, lambda x: x, functools.lru_cache(lambda shift: -shift)

    def forward(self, x):
        return self.after(super().forward(x).roll(self.cached(self.config.shift), 1))

torch.manual_seed(0)
network = Rolled(Config(0))
"""


def test_a_configuration_is_not_mixed_with_earlier_records_and_goes_on_with_its_own(models):
    given, out = Given("my_models:network", ("--data.kind=digits",), 0.5), models / "out"
    settings = CertifySettings(examples=2, n_select=10, n_estimate=20, precision="float32")
    for examples in (2, 4):
        sys.modules.pop("my_models", None)
        (models / "my_models.py").write_text(WITH_CONFIG)
        certify_run(Request(out, dataclasses.replace(settings, examples=examples), given=given), device=CPU)
    sys.modules.pop("my_models")
    (models / "my_models.py").write_text(WITH_CONFIG.replace("Config(0)", "Config(1)") + "# of another length\n")
    with pytest.raises(ValueError, match="a model with other weights or noise"):
        certify_run(Request(out, dataclasses.replace(settings, examples=6), given=given), device=CPU)


BUSY = """
import time
import torch
from torch import nn

class Busy(nn.Sequential):
    def __init__(self, *parts):
        super().__init__(*parts)
        self.times, self.seen, self.features, self.calls, self.took = [], {}, None, 0, 0.0

    def forward(self, x):
        self.times.append(time.perf_counter())
        self.seen[id(x)] = len(x)
        self.features = x.mean() + time.perf_counter()  # as another machine rounds otherwise
        self.calls, self.took = self.calls + 1, time.perf_counter()
        return super().forward(x)

torch.manual_seed(0)
network = Busy(nn.Flatten(), nn.Linear(3 * 24 * 24, 10))
"""


def test_a_model_that_keeps_the_times_and_features_of_its_calls_stays_the_same(models):
    given, out = Given("my_models:network", ("--data.kind=digits",), 0.5), models / "out"
    settings = CertifySettings(examples=2, n_select=10, n_estimate=20, precision="float32")
    (models / "my_models.py").write_text(BUSY)
    for examples in (2, 4):
        sys.modules.pop("my_models", None)  # as another call of ars would find it
        certify_run(Request(out, dataclasses.replace(settings, examples=examples), given=given), device=CPU)
    sys.modules.pop("my_models")
    load_certified(out, yaml.safe_load((out / "recipe.yaml").read_text()), CPU)


def test_the_models_of_all_certifications_in_a_folder_are_known(models):
    given, out = Given("my_models:smoothed", ("--data.kind=digits",)), models / "out"
    settings = CertifySettings(examples=2, n_select=10, n_estimate=20, precision="float32")
    model = import_model(given.model)
    bias = sys.modules["my_models"].network[1].bias.data
    for number, name in enumerate(("first", "second")):
        bias.fill_(number)
        certify_run(Request(out, settings, name=name, given=given), device=CPU)
    for number in (0, 1):
        bias.fill_(number)
        check_certified(out, model)
    bias.fill_(2)
    with pytest.raises(RecipeError, match="holds records of a model with other weights or noise"):
        check_certified(out, model)


@pytest.mark.parametrize(("at_most", "images", "examples"), [(True, 300, 100), (True, 40, 20), (False, 40, 100)])
def test_where_no_number_was_asked_for_the_usual_one_is_certified_or_all(at_most, images, examples):
    request = Request(Path("run"), CertifySettings(examples=100, every=2), at_most=at_most)
    assert request.settings_for(images).examples == examples
