"""What a recipe says of a model is what is built."""

import dataclasses

import pytest
import torch

from ars.certification.digest import digest_model
from ars.methods.unicr import paper_beta
from ars.models import UNet
from ars.recipes.build import build_model
from ars.recipes.recipe import Classifier, Mask

from ..conftest import CPU, TINY


class Photographs:
    """Inputs of a model, without data."""

    shape, class_names = (3, 16, 16), ("cat", "dog")

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
