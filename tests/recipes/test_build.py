"""What a recipe says of a model is what is built."""

import dataclasses

import pytest
import torch

from ars.certification.digest import digest_model
from ars.methods.paper_values import paper_beta
from ars.models import CifarResNet, ResNet50, UNet
from ars.recipes.build import build_model
from ars.recipes.read import SHIPPED, read_recipe
from ars.recipes.recipe import Classifier, Mask
from ars.recipes.user_code import check_fit

from ..conftest import CPU, TINY


class Photographs:
    """Inputs of a model, without data."""

    title = "photographs"

    def __init__(self, side=16, classes=2):
        self.shape, self.class_names = (3, side, side), [str(number) for number in range(classes)]

    def images(self, count):
        return torch.rand(count, *self.shape, generator=torch.Generator().manual_seed(0))

    def references(self):
        return self.images(30)

    def moments(self):
        return [0.4, 0.5, 0.6], [0.2, 0.2, 0.2]


def build(**changes):
    return build_model(dataclasses.replace(TINY, **changes), Photographs(), CPU)


def test_fresh_weights_are_those_of_the_seed_whatever_was_drawn_before():
    one, _, again, other = build(seed=3), torch.rand(5), build(seed=3), build(seed=4)
    for name, weight in one.named_parameters():
        assert torch.equal(weight, again.get_parameter(name)), name
    for name in ("classifier.1.0.weight", "mechanism.steps.1.mask.to_mask.weight"):
        assert not torch.equal(one.get_parameter(name), other.get_parameter(name)), name


@pytest.mark.parametrize(("beta", "built"), [(1.5, 1.5), (None, paper_beta(16, TINY.sigma))])
def test_the_shape_of_the_noise_is_that_of_the_recipe_or_else_the_papers(beta, built):
    [step] = build(method="unicr", beta=beta).mechanism.steps
    assert step.beta == built


def test_the_networks_are_as_wide_and_begin_as_the_recipe_says():
    resnet = Classifier(name="cifar_resnet", depth=8, block_scale=0.25)
    model = build(classifier=resnet, mask=Mask(width=3))
    _, network = model.classifier
    assert set(network.layer2[0].bn2.weight.tolist()) == {0.25}
    shapes = {name: weight.shape for name, weight in model.mechanism.steps[1].mask.named_parameters()}
    assert shapes == {name: weight.shape for name, weight in UNet(width=3, in_channels=3).named_parameters()}


def test_models_that_differ_in_a_learned_split_or_in_the_shape_of_the_noise_have_other_digests():
    one, other = build(share="learned"), build(share="learned")
    assert digest_model(one) == digest_model(other)
    with torch.no_grad():
        other.mechanism.steps[0].split.logit.fill_(1e-3)
    assert digest_model(one) != digest_model(other)
    one, same, other = (digest_model(build(method="unicr", beta=beta)) for beta in (2.25, 2.25, 1.5))
    assert one == same != other


def test_an_unknown_method_or_network_is_refused():
    with pytest.raises(ValueError, match="unknown"):
        build(method="unknown")
    with pytest.raises(AssertionError, match="'unknown'"):
        build(classifier=Classifier(name="unknown"))


WHICH = {
    "cifar_backgrounds": (64, 10, CifarResNet),
    "celeba": (160, 2, ResNet50),
    "imagenet": (224, 1000, ResNet50),
    "folder": (64, 3, CifarResNet),
}


@pytest.mark.parametrize("path", [path for path in sorted(SHIPPED.glob("*.yaml")) if path.stem != "digits"],
                         ids=lambda path: path.stem)  # fmt: skip
def test_every_recipe_builds_a_model_for_its_images(path):
    recipe = read_recipe(path)
    side, classes, network = WHICH[recipe.data.kind]
    inputs = Photographs(recipe.data.options.get("size", side), classes)
    model = build_model(recipe, inputs, CPU)
    check_fit(path.stem, model, inputs, inputs.images(1), trains=True)
    assert isinstance(model.classifier[1], network)
    if recipe.method == "adaptive":
        width = {"cifar_backgrounds": 32, "celeba": 64, "imagenet": 16, "folder": 16}[recipe.data.kind]
        assert model.mechanism.steps[1].mask.to_mask.in_channels == width
