"""Image classifiers of timm (pip install 'adaptive-smoothing[timm]')."""

from collections.abc import Mapping
from typing import Any

from torch import nn

from ars.adapters.adapted import Adapted


def from_timm(model: str | nn.Module) -> Adapted:
    """A pretrained timm model by its name, or a module that timm made, as a classifier of images in [0, 1].

    Mean, deviation, size and interpolation are those of its pretrained_cfg. Shrinking the short side and cropping the
    centre are the loader's: a certificate speaks of the image after them.
    """
    name = model if isinstance(model, str) else type(model).__name__
    network = _pretrained(model) if isinstance(model, str) else model
    settings = getattr(network, "pretrained_cfg", None)
    if not isinstance(settings, Mapping) or not all(settings.get(key) for key in ("mean", "std", "input_size")):
        raise ValueError(
            f"{name} has no pretrained_cfg with mean, std and input_size, so how its images are normalised is unknown; "
            "use ars.adapters.Adapted(network, mean=..., std=...)"
        )
    channels, height, width = settings["input_size"]
    mean, std = ([*settings[key]] * (channels if len(settings[key]) == 1 else 1) for key in ("mean", "std"))
    crop, interpolation = settings.get("crop_pct") or 0.875, settings.get("interpolation") or "bicubic"
    return Adapted(
        network,
        mean=mean,
        std=std,
        size=(height, width),
        interpolation=interpolation,
        class_names=_class_names(network, settings),
        loading=f"{interpolation} scaling to {int(height / crop)}, then a {settings.get('crop_mode') or 'center'} crop",
    )


def _pretrained(name: str) -> nn.Module:
    try:
        import timm
    except ImportError as error:
        raise ValueError(
            f"timm cannot be imported ({error}); install it with pip install 'adaptive-smoothing[timm]'"
        ) from error
    try:
        network: nn.Module = timm.create_model(name, pretrained=True).eval()
    except Exception as error:  # of the download, or of a name that it does not know
        raise ValueError(f"timm has no pretrained model {name} ({type(error).__name__}: {error})") from error
    return network


def _class_names(network: nn.Module, settings: Mapping[str, Any]) -> list[str]:
    """The model's own names, or those of the subset of ImageNet that it was trained on; empty if unknown."""
    classes = getattr(network, "num_classes", None)
    names = list(settings.get("label_names") or ())
    if not names:
        try:
            from timm.data import ImageNetInfo, infer_imagenet_subset  # imports torchvision

            subset = infer_imagenet_subset(network)
            names = ImageNetInfo(subset).label_names() if subset else []
        except (ImportError, RuntimeError):
            names = []
    return [str(name) for name in names] if len(names) == classes else []
