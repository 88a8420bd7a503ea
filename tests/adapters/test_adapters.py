"""Adapters answer as the model's own pipeline does, and enlarge, normalise and choose classes behind the noise."""

import numpy as np
import pytest
import torch
from PIL import Image
from sklearn.datasets import load_sample_images
from torch import nn

import ars
from ars.adapters import Adapted, from_timm, from_transformers
from ars.certification.digest import digest_model
from ars.data.settings import DataWarning
from ars.workflows.imported_model import import_model, match_classes


class Colours(nn.Module):
    """Logits: the sums of the three channels."""

    def forward(self, x):
        return x.sum(dim=(2, 3))


def adapted(**options):
    return Adapted(Colours(), mean=[0.4, 0.5, 0.6], std=[0.2, 0.3, 0.4], **options)


def photographs(side, count=4):
    """Squares of real photographs."""
    pictures = [Image.fromarray(image) for image in load_sample_images().images]
    return [
        pictures[n % 2].crop((40 * n, 30 * n, 40 * n + 200, 30 * n + 200)).resize((side, side)) for n in range(count)
    ]


def tensor(picture):
    return torch.from_numpy(np.array(picture)).permute(2, 0, 1).float() / 255


def test_normalisation_is_behind_the_noise_and_images_stay_in_pixels():
    model, x = adapted(), torch.rand(2, 3, 4, 4)
    mean, std = (torch.tensor(values).view(1, 3, 1, 1) for values in ([0.4, 0.5, 0.6], [0.2, 0.3, 0.4]))
    assert torch.allclose(model(x), ((x - mean) / std).sum(dim=(2, 3)), atol=1e-5)
    smoothed = ars.cohen(model, sigma=0.5)
    assert smoothed.guarantee(ars.Ball("l2", 48, 0.5))(0.5) == ars.cohen(Colours(), sigma=0.5).guarantee(
        ars.Ball("l2", 48, 0.5)
    )(0.5)
    assert ars.certify(smoothed, x[0], n_estimate=100, seed=0).dim == 48


@pytest.mark.parametrize("interpolation", ["nearest", "bilinear", "bicubic"])
def test_smaller_images_are_enlarged_as_pillow_does(interpolation):
    [picture] = photographs(16, count=1)
    number = {"nearest": 0, "bilinear": 2, "bicubic": 3}[interpolation]
    expected = tensor(picture.resize((48, 48), number))
    found = adapted(size=(48, 48), interpolation=interpolation).enlarge(tensor(picture)[None])[0]
    apart = (found.clamp(0, 1) - expected).abs().max().item()  # Pillow rounds to bytes, after each of two passes
    assert apart < (1e-6 if interpolation == "nearest" else 1.6 / 255)


@pytest.mark.parametrize(("shape", "says"), [((48, 48), "shrink"), ((16, 20), "proportions")])
def test_what_is_no_function_of_the_certified_image_is_refused(shape, says):
    with pytest.raises(ValueError, match=says):
        adapted(size=(32, 32))(torch.rand(1, 3, *shape))


def test_an_interpolation_that_torch_lacks_is_refused_only_where_it_is_needed():
    model = adapted(size=(8, 8), interpolation="lanczos")
    model(torch.rand(1, 3, 8, 8))
    with pytest.raises(ValueError, match="hand over images of 8x8"):
        model(torch.rand(1, 3, 4, 4))


def test_classes_are_found_by_their_names_and_count_in_the_digest():
    model, x = adapted(class_names=["red", "green", "blue"]), torch.rand(2, 3, 4, 4)
    chosen = match_classes(model, ["blue", "red"])
    assert torch.equal(chosen(x), model(x)[:, [2, 0]])
    assert model.class_names == ("red", "green", "blue")
    assert model(x).shape == (2, 3)
    other = match_classes(model, ["red", "blue"])
    assert digest_model(ars.cohen(chosen, sigma=1.0)) != digest_model(ars.cohen(other, sigma=1.0))


def test_classes_can_be_chosen_again_but_not_by_a_name_that_two_have():
    model, x = adapted(class_names=["red", "green", "blue"]), torch.rand(2, 3, 4, 4)
    twice = model.of_classes(["blue", "red"]).of_classes(["red", "blue"])
    assert torch.equal(twice(x), model(x)[:, [0, 2]])
    with pytest.raises(ValueError, match="2 classes called 'crane'"):
        match_classes(adapted(class_names=["crane", "blue", "crane"]), ["blue", "crane"])


def test_classes_of_other_names_are_matched_by_number_with_a_warning():
    model = adapted(class_names=["red", "green", "blue"])
    with pytest.warns(DataWarning, match="matched by their numbers"):
        assert match_classes(model, ["a", "b", "c"]) is model


def test_the_size_and_the_interpolation_count_in_the_digest():
    models = [adapted(), adapted(size=(8, 8)), adapted(size=(9, 9)), adapted(size=(8, 8), interpolation="bicubic")]
    assert len({digest_model(ars.cohen(model, sigma=1.0)) for model in models}) == 4


class StandIn(nn.Module):
    """What from_timm needs of a timm model."""

    def __init__(self, **settings):
        super().__init__()
        self.pretrained_cfg = {"input_size": (3, 12, 12), "mean": (0.1, 0.2, 0.3), "std": (0.5,), **settings}
        self.num_classes = 3
        self.layer = nn.Linear(3, 3)

    def forward(self, x):
        return self.layer(x.mean(dim=(2, 3)))


def test_a_model_with_timms_interface():
    network = StandIn(label_names=("ant", "bee", "cat"), crop_pct=0.75, interpolation="bilinear")
    model, x = from_timm(network), torch.rand(2, 3, 12, 12)
    mean = torch.tensor([0.1, 0.2, 0.3]).view(1, 3, 1, 1)
    assert torch.allclose(model(x), network((x - mean) / 0.5), atol=1e-5)
    assert model.class_names == ("ant", "bee", "cat")
    assert "3x12x12" in model.image
    assert "scaling to 16, then a center crop" in model.image
    assert model(torch.rand(2, 3, 6, 6)).shape == (2, 3)
    assert network.training  # the user's module is not changed


def test_a_model_of_unknown_normalisation_is_refused():
    with pytest.raises(ValueError, match="Adapted"):
        from_timm(nn.Linear(2, 2))
    with pytest.raises(ValueError, match="Adapted"):
        from_timm(StandIn(mean=None))


def test_a_missing_package_is_named_with_its_extra(monkeypatch):
    import sys

    for name in ("timm", "transformers"):
        monkeypatch.setitem(sys.modules, name, None)
        with pytest.raises(ValueError, match=rf"adaptive-smoothing\[{name}\]"):
            import_model(f"{name}:resnet50", 0.5)


def test_timm_itself():
    pytest.importorskip("torchvision")
    timm = pytest.importorskip("timm")
    network = timm.create_model("resnet18", pretrained=False).eval()
    model = from_timm(network)
    config = timm.data.resolve_model_data_config(network)
    transform = timm.data.create_transform(**config)
    [picture] = photographs(config["input_size"][-1], count=1)
    alone = timm.data.create_transform(**{**config, "crop_pct": 1.0})(picture)  # no shrinking and cropping
    with torch.no_grad():
        assert torch.allclose(model(tensor(picture)[None]), network(alone[None]), atol=1e-4)
    assert len(model.class_names) == 1000
    assert transform is not None


# transformers, with networks that are made here: nothing is downloaded


@pytest.fixture
def saved(tmp_path):
    """Write a tiny classifier and its image processor to a folder."""
    transformers = pytest.importorskip("transformers")
    from transformers.models.convnext.image_processing_pil_convnext import ConvNextImageProcessorPil
    from transformers.models.vit.image_processing_pil_vit import ViTImageProcessorPil

    names = {0: "cat", 1: "ant", 2: "bee"}

    def write(kind="vit", **settings):
        torch.manual_seed(0)
        labels = {"id2label": names, "label2id": {name: number for number, name in names.items()}}
        if kind == "vit":
            config = transformers.ViTConfig(image_size=32, patch_size=8, hidden_size=16, num_hidden_layers=2,
                                            num_attention_heads=2, intermediate_size=32, **labels)  # fmt: skip
            network = transformers.ViTForImageClassification(config)
            processor = ViTImageProcessorPil(**{"size": {"height": 32, "width": 32}, **settings})
        else:
            config = transformers.ResNetConfig(embedding_size=8, hidden_sizes=[8, 16], depths=[1, 1],
                                               layer_type="basic", **labels)  # fmt: skip
            network = transformers.ResNetForImageClassification(config)
            processor = ConvNextImageProcessorPil(**{"size": {"shortest_edge": 32}, "crop_pct": 0.875, **settings})
        network.eval().save_pretrained(tmp_path)
        processor.save_pretrained(tmp_path)
        return str(tmp_path), network, processor

    return write


@pytest.mark.parametrize("kind", ["vit", "resnet"])
def test_a_transformers_model_answers_as_its_own_pipeline(saved, kind):
    path, network, processor = saved(kind)
    model, pictures = from_transformers(path), photographs(32)
    # crop_pct is the loader's: it would enlarge these images and crop them
    inputs = processor(pictures, return_tensors="pt", do_resize=kind == "vit")
    with torch.no_grad():
        theirs = network(**inputs).logits
        own = model(torch.stack([tensor(picture) for picture in pictures]))
    assert (own - theirs).abs().max() < 1e-4
    assert (theirs[0] - theirs[1]).abs().max() > 1e-3  # the pictures differ
    assert model.class_names == ("cat", "ant", "bee")


def test_enlarging_is_that_of_the_pipeline(saved):
    path, network, processor = saved(resample=0)  # nearest: Pillow rounds nothing
    pictures = photographs(16)
    with torch.no_grad():
        theirs = network(**processor(pictures, return_tensors="pt")).logits
        own = from_transformers(path)(torch.stack([tensor(picture) for picture in pictures]))
    assert (own - theirs).abs().max() < 1e-4


@pytest.mark.parametrize("settings", [{"rescale_factor": 1 / 127.5}, {"do_normalize": False}, {"do_rescale": False}])
def test_other_scales_are_those_of_the_processor(saved, settings):
    path, network, processor = saved(**settings)
    pictures = photographs(32)
    with torch.no_grad():
        theirs = network(**processor(pictures, return_tensors="pt")).logits
        own = from_transformers(path)(torch.stack([tensor(picture) for picture in pictures]))
    assert (own - theirs).abs().max() < 1e-4 * max(1.0, theirs.abs().max().item())


def test_a_processor_that_does_more_is_refused(saved):
    _, network, processor = saved()

    class Flipping(type(processor)):
        def __call__(self, images, **options):
            return super().__call__(images[..., ::-1].copy(), **options)

    with pytest.raises(ValueError, match="cannot be separated"):
        from_transformers(network, Flipping(size={"height": 32, "width": 32}, image_mean=[0.1, 0.5, 0.9]))


def test_a_folder_without_a_model_is_refused(tmp_path):
    pytest.importorskip("transformers")
    with pytest.raises(ValueError, match="save_pretrained"):
        from_transformers(str(tmp_path))


def test_a_loaded_model_is_certified_and_not_changed(saved):
    path, network, processor = saved()
    network.train()
    model = ars.cohen(from_transformers(network, processor), sigma=0.5)
    certificate = ars.certify(model, tensor(photographs(32, 1)[0]), norm="l2", n_estimate=100, seed=0)
    assert sum(certificate.counts) == 100
    assert network.training
    same = import_model(f"transformers:{path}", 0.5, ["ant", "bee", "cat"])
    x = torch.rand(1, 3, 32, 32)
    network.eval()
    assert torch.allclose(same.classifier(x), model.classifier(x)[:, [1, 2, 0]], atol=1e-5)
