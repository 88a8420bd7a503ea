"""Recipes: everything that determines a result, as frozen dataclasses read from YAML. The defaults are the demo's."""

import hashlib
import json
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from itertools import pairwise
from typing import Any, Literal

from ars.certification.settings import MOST_SEED, CertifySettings
from ars.data.settings import PLACES, Data
from ars.methods.registry import method_called
from ars.runs.paths import NOT_OF_WEIGHTS
from ars.theory.generalised_normal import check_shape
from ars.theory.rounding import as_whole
from ars.training.settings import TrainSettings
from ars.untrusted import dump_yaml


class RecipeError(ValueError):
    """A recipe that cannot be read or is inconsistent."""


@dataclass(frozen=True)
class Classifier:
    """The base classifier, behind a normalisation layer.

    Args:
        name: small_cnn, cifar_resnet or resnet50.
        width: channels of small_cnn.
        depth: layers of cifar_resnet, 6n + 2 (the paper's is 110).
        block_scale: initial scale of the last norm in each of its blocks; with 0 every block starts as the identity.
        from_run: start from the trained classifier of this run folder, which must be the same network.
        factory: package:name of your own classifier instead, from images in [0, 1] to logits (--classifier).
        weights: a safetensors file with its state dict (--weights).
        sha256: of the file of the weights; recorded when training starts, and then any other file is refused.
        freeze: keep the classifier as it is, BatchNorm statistics included, and train only the mask (--freeze).
    """

    name: Literal["small_cnn", "cifar_resnet", "resnet50"] = "small_cnn"
    width: int = 16
    depth: int = 110
    block_scale: float = 1.0
    from_run: str | None = None
    factory: str | None = None
    weights: str | None = None
    sha256: str | None = None
    freeze: bool = False

    def __post_init__(self) -> None:
        if self.weights is not None and self.factory is None:
            raise ValueError("classifier.weights are for your own classifier; name it with classifier.factory")
        if self.weights is not None and self.from_run is not None:
            raise ValueError("a classifier starts from classifier.from_run or classifier.weights, not both; give one")
        if self.freeze and not self.trained:
            raise ValueError(
                "classifier.freeze needs a trained classifier: give classifier.from_run, a run folder, "
                "or classifier.factory, your own classifier"
            )

    @property
    def trained(self) -> bool:
        """Whether it comes with weights."""
        return self.from_run is not None or self.factory is not None


@dataclass(frozen=True)
class Mask:
    """The mask network of the adaptive method, the paper's U-Net.

    Args:
        width: base channels (paper: 32 for CIFAR-10, 64 for CelebA, 16 for ImageNet).
    """

    width: int = 8


@dataclass(frozen=True)
class Start:
    """Train the classifier alone first, as Cohen et al. do, on smaller images with the same noise.

    Args:
        size: data.size of the smaller images; if the recipe's own size is no larger, the start is skipped.
        epochs: passes over the training set; all other settings are those of train.
        through: sizes on which the method itself, mask included, is trained next with the settings of train; sizes from
            the recipe's own size upwards are skipped.
    """

    size: int = 32
    epochs: int = 16
    through: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        if self.size < 1 or self.epochs < 1:
            raise ValueError(f"start needs size and epochs of at least 1, got {self.size} and {self.epochs}")
        if not all(one < two for one, two in pairwise((self.size, *self.through))):
            sizes = ", ".join(map(str, self.through))
            raise ValueError(f"start.through must be increasing sizes above start.size {self.size}, got {sizes}")


@dataclass(frozen=True)
class Recipe:
    """Everything that determines a result.

    Args:
        method: adaptive (ARS), cohen, static_mask, unicr, sukenik, or one that an installed package registers.
        sigma: the noise budget, in pixel units for images in [0, 1].
        share: the adaptive method's share of the budget for its first step, or learned.
        beta: shape of unicr's noise; null: the paper's value for the image size and sigma.
        seed: of initialisation, training data order and training noise.
        data: the benchmark.
        classifier: the base classifier.
        mask: the mask network.
        train: the training.
        start: training on smaller images beforehand; null: none. Skipped if the classifier is already trained.
        certify: the certification.
        options: options of a registered method, by name.
    """

    method: str = "adaptive"
    sigma: float = 0.75
    share: float | Literal["learned"] = 0.5
    beta: float | None = None
    seed: int = 0
    data: Data = field(default_factory=Data)
    classifier: Classifier = field(default_factory=Classifier)
    mask: Mask = field(default_factory=Mask)
    train: TrainSettings = field(default_factory=TrainSettings)
    start: Start | None = None
    certify: CertifySettings = field(default_factory=CertifySettings)
    options: dict[str, Any] = field(default_factory=dict, hash=False)

    def __post_init__(self) -> None:
        method = method_called(self.method)
        method.own_options(self.options)
        masked = method.masked
        if not self.sigma > 0:
            raise ValueError(f"sigma must be positive, got {self.sigma}")
        as_whole("seed", self.seed, least=0, most=MOST_SEED)
        if self.beta is not None:
            check_shape(self.beta)
        if masked and self.certify.norm != "linf":
            raise ValueError(
                f"method {self.method} has a mask, so it certifies linf only (Prop. 2.4), got certify.norm "
                f"{self.certify.norm}; use linf, or cohen"
            )
        if self.method == "unicr" and self.certify.norm != "linf" and self.beta != 2:
            beta = "null (the paper's, mostly not 2)" if self.beta is None else f"{self.beta:g}"
            raise ValueError(
                f"method unicr certifies {self.certify.norm} only for beta 2, got beta {beta} and certify.norm "
                f"{self.certify.norm}; set beta to 2, or use linf"
            )
        if self.share != "learned" and not 0 < self.share < 1:
            raise ValueError(f"share must lie strictly between 0 and 1 or be learned, got {self.share}")
        if self.train.mask_prior.weight and not masked:
            raise ValueError(
                f"train.mask_prior needs a method with a mask, such as adaptive, got {self.method}; set its weight to 0"
            )
        if not masked and self.classifier.freeze:
            raise ValueError(
                f"method {self.method} has no mask, so there is nothing to train with a frozen classifier; "
                "use adaptive or static_mask, or do not freeze it"
            )
        if not masked and self.train.mask_only_epochs:
            raise ValueError(f"method {self.method} has no mask to train; set train.mask_only_epochs to 0")
        if self.classifier.freeze and self.train.mask_only_epochs:
            raise ValueError(
                "a frozen classifier is never trained, so every epoch is mask-only; set train.mask_only_epochs to 0"
            )
        if self.start is not None and "size" not in self.data.options:
            raise ValueError(f"start needs other image sizes, but data.kind {self.data.kind} has one; set it to null")

        if self.start is not None and self.data.width is not None:
            raise ValueError("a start has square images, so it does not go with data.width; set start to null")

    @property
    def passed(self) -> tuple[int, ...]:
        """The sizes of start.through that are below the recipe's own."""
        return tuple(size for size in self.start.through if size < self.data.options["size"]) if self.start else ()

    @property
    def at_most(self) -> bool:
        """Whether certify.examples is only a limit: a recipe does not know how many images a folder holds."""
        return self.data.kind == "folder"

    def to_yaml(self) -> str:
        """The resolved recipe, as it is stored in a run folder."""
        return dump_yaml(self.resolved())

    def resolved(self) -> dict[str, Any]:
        """All values, with the data keys of this kind only, and with the method's options if there are any."""
        parts = {"data": {"kind": self.data.kind, **self.data.recorded}, "certify": self.certify.recorded()}
        content = {**asdict(self), **parts}
        if not self.options:
            del content["options"]
        return content

    @property
    def masked(self) -> bool:
        """Whether its method has a mask."""
        return method_called(self.method).masked

    @property
    def identity(self) -> str:
        """A digest of all that determines the weights: the recipe without certification, except an attack's norm."""
        content = self.resolved()
        certify = content.pop("certify")
        if self.train.smoothadv.epsilon:
            content["norm"] = certify["norm"]  # adversarial examples are made in the certified norm
        for key in NOT_OF_WEIGHTS:
            part, name = key.split(".")
            content[part].pop(name, None)  # not every kind of data has this key
        if self.start is not None:
            content["start"] = {"size": self.start.size, "epochs": self.start.epochs} | (
                {"through": self.passed} if self.passed else {}
            )
        return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()[:16]


def differences(one: Recipe, two: Recipe) -> Iterator[tuple[str, object, object]]:
    """The dotted keys, except certify's, in which two recipes differ, with both values.

    >>> [*differences(Recipe(seed=1), Recipe(mask=Mask(width=4)))]
    [('seed', 1, 0), ('mask.width', 8, 4)]
    """
    first, second = (dict(_flat(recipe.resolved())) for recipe in (one, two))
    for key in dict.fromkeys((*first, *second)):
        if first.get(key) != second.get(key) and not key.startswith("certify.") and key not in NOT_OF_WEIGHTS:
            yield key, first.get(key), second.get(key)


def first_difference(there: Recipe, here: Recipe) -> str:
    """The first difference between a folder's recipe and the requested one, in parentheses; empty if there is none.

    >>> first_difference(Recipe(seed=1), Recipe(mask=Mask(width=4)))
    ' (seed is 1 there, 0 here)'
    """
    return next((f" ({key} is {one} there, {two} here)" for key, one, two in differences(there, here)), "")


def elsewhere(there: Recipe, here: Recipe) -> bool:
    """Whether two recipes differ, and only in the place of their data.

    >>> elsewhere(Recipe(), Recipe()), elsewhere(Recipe(seed=1), Recipe())
    (False, False)
    """
    keys = {key for key, *_ in differences(there, here)}
    return bool(keys) and keys <= {f"data.{place}" for place in PLACES}


def _flat(content: dict[str, Any], prefix: str = "") -> Iterator[tuple[str, object]]:
    for key, value in content.items():
        if isinstance(value, dict):
            yield from _flat(value, f"{prefix}{key}.")
        else:
            yield prefix + key, value


def cell_name(method: str, k: int | None, sigma: float, seed: int, label: str = "") -> str:
    """The name of a cell's folder.

    >>> cell_name("adaptive", 64, 0.5, 0), cell_name("cohen", None, 1.0, 2, "long")
    ('adaptive-k64-s0.5-seed0', 'cohen-s1-seed2-long')
    """
    parts = [method, *([f"k{k}"] if k else []), f"s{sigma:g}", f"seed{seed}", *([label] if label else [])]
    return "-".join(parts)
