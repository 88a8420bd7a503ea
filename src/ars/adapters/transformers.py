"""Image classifiers of transformers (pip install 'adaptive-smoothing[transformers]')."""

from typing import Any

import numpy as np
import torch
from torch import nn

from ars.adapters.adapted import Adapted, Size, check_separated

INTERPOLATIONS = {0: "nearest", 1: "lanczos", 2: "bilinear", 3: "bicubic", 4: "box", 5: "hamming"}
"""Pillow's numbers."""


def from_transformers(model: str | nn.Module, processor: Any = None) -> Adapted:
    """An image classifier from a local folder or the Hub, or a loaded one, as a classifier of images in [0, 1].

    Rescaling and normalising are read from its image processor and tried on an image. Shrinking and cropping are the
    loader's: a certificate speaks of the image after them. Weights are read from safetensors only.
    """
    try:
        from transformers import AutoImageProcessor, AutoModelForImageClassification
    except ImportError as error:
        raise ValueError(
            f"transformers cannot be imported ({error}); install it with pip install 'adaptive-smoothing[transformers]'"
        ) from error
    name = model if isinstance(model, str) else str(getattr(model, "name_or_path", "")) or type(model).__name__
    try:
        if processor is None:
            processor = AutoImageProcessor.from_pretrained(name)
        network: Any = model
        if name is model:
            network = AutoModelForImageClassification.from_pretrained(name, use_safetensors=True, dtype=torch.float32)
            network.name_or_path = ""  # the place of the files is no property of the model
    except Exception as error:  # of files, of the Hub, of the configuration
        first = f"{type(error).__name__}: {error}".strip().partition("\n")[0]
        raise ValueError(
            f"transformers cannot load an image classifier with its processor from {name} ({first}); give the folder "
            "that save_pretrained wrote, or a repository of the Hub"
        ) from error
    settings = processor.to_dict()
    scale = 255 * settings.get("rescale_factor", 1 / 255) if settings.get("do_rescale", True) else 255.0
    mean, std = [0.0], [1.0]
    if settings.get("do_normalize"):
        mean, std = list(settings["image_mean"]), list(settings["image_std"])
    channels = int(getattr(network.config, "num_channels", 3))
    mean, std = (values * (channels if len(values) == 1 else 1) for values in (mean, std))
    size, loading = _sizes(settings, network)
    labels = getattr(network.config, "id2label", None) or {}
    adapted = Adapted(
        network,
        mean=[value / scale for value in mean],
        std=[value / scale for value in std],
        size=size,
        interpolation=INTERPOLATIONS.get(settings.get("resample", 2), "unknown"),
        class_names=[str(labels[number]) for number in sorted(labels)],
        loading=loading,
    )
    _check_processor(processor, adapted, size or (32, 32), channels, name)
    return adapted


def _sizes(settings: dict[str, Any], network: Any) -> tuple[Size | None, str]:
    """The size of the network's input, and how the processor brings a picture to it."""
    steps, size = [], None
    if settings.get("do_resize"):
        wanted = {key: value for key, value in dict(settings["size"]).items() if value}
        steps.append("scaling to " + ", ".join(f"{key} {value}" for key, value in wanted.items()))
        if {"height", "width"} <= wanted.keys():
            size = wanted["height"], wanted["width"]
        elif "shortest_edge" in wanted:
            size = wanted["shortest_edge"], wanted["shortest_edge"]
    if settings.get("do_center_crop"):
        crop = dict(settings["crop_size"])
        size = crop["height"], crop["width"]
        steps.append(f"then the centre of {size[0]}x{size[1]}")
    trained = getattr(network.config, "image_size", None)
    if size is None and trained:
        size = (trained, trained) if isinstance(trained, int) else (trained[0], trained[1])
    return size, ", ".join(steps)


def _check_processor(processor: Any, adapted: Adapted, size: Size, channels: int, name: str) -> None:
    """Compare what the processor makes of a noisy picture of the network's size, without resizing, with our own."""
    pixels = np.random.default_rng(0).integers(0, 256, (*size, channels), dtype=np.uint8)
    try:
        options = {"do_resize": False, "do_center_crop": False, "input_data_format": "channels_last"}
        theirs = processor(pixels, return_tensors="pt", **options)["pixel_values"].float()
    except Exception as error:
        raise ValueError(
            f"the image processor of {name} cannot leave out resizing ({type(error).__name__}: {error}), so its "
            "preprocessing cannot be separated; write a module from images in [0, 1] to logits that does all of it"
        ) from error
    own = adapted.normalize(torch.from_numpy(pixels).permute(2, 0, 1)[None].float() / 255)
    check_separated(theirs, own, name)
