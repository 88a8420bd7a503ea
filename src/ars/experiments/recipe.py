"""Recipes: everything that decides a result, as frozen dataclasses read from YAML; the defaults are the demo's."""

import hashlib
import json
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from itertools import pairwise
from typing import Any, Literal

import yaml

from ars.certification.bounds import Bound, check_alpha, check_enough
from ars.certification.limits import MOST_DRAWS, MOST_SEED
from ars.certification.run_folder import NOT_OF_WEIGHTS
from ars.certification.schedule import Mode, Schedule
from ars.data.settings import PLACES, Data
from ars.theory import Norm
from ars.theory.arguments import as_whole
from ars.theory.generalised_normal import check_shape
from ars.training.settings import TrainSettings

Method = Literal["adaptive", "cohen", "static_mask", "unicr", "sukenik"]
MASKED: tuple[Method, ...] = ("adaptive", "static_mask")


class RecipeError(ValueError):
    """A recipe that cannot be read or does not make sense."""


@dataclass(frozen=True)
class Classifier:
    """The base classifier, behind a normalisation layer.

    Args:
        name: small_cnn, cifar_resnet or resnet50.
        width: channels of small_cnn.
        depth: layers of cifar_resnet, 6n + 2 (the paper's is 110).
        block_scale: where the scale of the last norm in each of its blocks starts; from 0 they begin as identities.
        from_run: start from the trained classifier of this run folder, whose recipe names the same network.
        factory: package:name of a classifier of your own instead, images in [0, 1] to logits (--classifier).
        weights: a safetensors file with its state dict (--weights).
        sha256: of the file that the weights were read from; written down when training begins, another is refused.
        freeze: keep the classifier as it is, BatchNorm statistics too, and train the mask alone (--freeze).
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
            raise ValueError("classifier.weights belong to a classifier of your own; name it with classifier.factory")
        if self.weights is not None and self.from_run is not None:
            raise ValueError("a classifier starts from classifier.from_run or classifier.weights, not from both")
        if self.freeze and not self.trained:
            raise ValueError(
                "classifier.freeze needs a classifier that is trained already: give classifier.from_run, a run folder, "
                "or classifier.factory, your own"
            )

    @property
    def trained(self) -> bool:
        """Whether it comes with weights of its own."""
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
        size: data.size of these images; where the recipe's own are no larger, this part is left out.
        epochs: how often it sees the training set; all else is as in train.
        through: sizes that the method itself is trained on next, each as train says, as far as the recipe's own images
            are larger; its mask network goes along.
    """

    size: int = 32
    epochs: int = 16
    through: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        if self.size < 1 or self.epochs < 1:
            raise ValueError(f"start needs size and epochs of at least 1, got {self.size} and {self.epochs}")
        if not all(one < two for one, two in pairwise((self.size, *self.through))):
            sizes = ", ".join(map(str, self.through))
            raise ValueError(f"start.through names growing sizes, all above start.size {self.size}, got {sizes}")


@dataclass(frozen=True)
class CertifySettings:
    """How test images are certified; the command line of certify may override each.

    What can be refused without a model is refused here, before anything is trained.

    Args:
        examples: how many images.
        every: take each every-th image of the test set.
        norm: linf or l2 (l2 for methods without a mask; of unicr with beta 2).
        n_select: draws that choose the class.
        n_estimate: fresh draws that its radius rests on; the most of them where the mode may stop earlier.
        mode: fixed (all draws, as in the paper), radius (planned from the selection draws) or curve (decide radii).
        radii: the increasing radii that curve decides, in pixel units where an image lies in [0, 1].
        tolerance: the share of the radius that mode radius may lose; null is .01.
        alpha: probability that a certificate may be wrong.
        bound: cohen, as in the paper, or classes, which uses every count; both are recorded.
        seed: of the noise.
        precision: of the networks: float32, bfloat16, or auto (bfloat16 where the device has it).
    """

    examples: int = 100
    every: int = 1
    norm: Norm = "linf"
    n_select: int = 100
    n_estimate: int = 1000
    alpha: float = 0.05
    bound: Bound = "cohen"
    mode: Mode = "fixed"
    radii: tuple[float, ...] = ()
    tolerance: float | None = None
    seed: int = 0
    precision: Literal["float32", "bfloat16", "auto"] = "auto"

    def __post_init__(self) -> None:
        check_alpha(self.alpha)
        _ = self.schedule
        if self.examples < 1 or self.every < 1:
            raise ValueError(f"examples and every must be at least 1, got {self.examples} and {self.every}")
        as_whole("n_select", self.n_select, least=1, most=MOST_DRAWS)
        as_whole("certify.seed", self.seed, least=0, most=MOST_SEED)
        check_enough(self.n_estimate, self.alpha, self.bound)
        self.schedule.check_bound(self.bound)

    @property
    def schedule(self) -> Schedule:
        """How the draws of an image end."""
        return Schedule.of(self.mode, self.n_estimate, radii=self.radii, tolerance=self.tolerance)


@dataclass(frozen=True)
class Recipe:
    """Everything that decides a result.

    Args:
        method: adaptive (ARS), cohen, static_mask, unicr or sukenik.
        sigma: the noise budget, in pixel units where an image lies in [0, 1].
        share: share of the budget that the adaptive method's first step gets, or learned.
        beta: shape of unicr's noise; null is the paper's for the image size and sigma.
        seed: of initialisation, training data order and training noise.
        data: the benchmark.
        classifier: the base classifier.
        mask: the mask network.
        train: the training.
        start: what comes before that, on smaller images; null, or a classifier that is trained already: nothing.
        certify: the certification.
    """

    method: Method = "adaptive"
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

    def __post_init__(self) -> None:
        if not self.sigma > 0:
            raise ValueError(f"sigma must be positive, got {self.sigma}")
        as_whole("seed", self.seed, least=0, most=MOST_SEED)
        if self.beta is not None:
            check_shape(self.beta)
        if self.method in MASKED and self.certify.norm != "linf":
            raise ValueError(
                f"method {self.method} masks, which certifies linf only (Prop. 2.4), got certify.norm "
                f"{self.certify.norm}; use linf, or cohen"
            )
        if self.method == "unicr" and self.certify.norm != "linf" and self.beta != 2:
            beta = "null (the paper's, mostly not 2)" if self.beta is None else f"{self.beta:g}"
            raise ValueError(
                f"method unicr certifies {self.certify.norm} for beta 2 only, got beta {beta} and certify.norm "
                f"{self.certify.norm}; set beta to 2, or use linf"
            )
        if self.share != "learned" and not 0 < self.share < 1:
            raise ValueError(f"share must lie strictly between 0 and 1 or be learned, got {self.share}")
        if self.train.mask_prior.weight and self.method not in MASKED:
            raise ValueError(
                f"train.mask_prior needs a method with a mask ({' or '.join(MASKED)}), got {self.method}; "
                "set its weight to 0"
            )
        if self.method not in MASKED and self.classifier.freeze:
            raise ValueError(
                f"method {self.method} has no mask, so with a frozen classifier there is nothing to train; "
                "use adaptive or static_mask, or do not freeze it"
            )
        if self.method not in MASKED and self.train.mask_only_epochs:
            raise ValueError(f"method {self.method} has no mask to train alone; set train.mask_only_epochs to 0")
        if self.classifier.freeze and self.train.mask_only_epochs:
            raise ValueError(
                "a frozen classifier is never trained, so every epoch is mask-only; set train.mask_only_epochs to 0"
            )

        if self.start is not None and "size" not in self.data.options:
            raise ValueError(f"start needs images of another size, which data.kind {self.data.kind} does not have")

    @property
    def passed(self) -> tuple[int, ...]:
        """The sizes of start.through that lie on the way to the recipe's own."""
        return tuple(size for size in self.start.through if size < self.data.options["size"]) if self.start else ()

    @property
    def at_most(self) -> bool:
        """Whether certify.examples is a limit: of a folder of one's own, a recipe does not know how many there are."""
        return self.data.kind == "folder"

    def to_yaml(self) -> str:
        """The resolved recipe, as it is kept in a run folder."""
        return yaml.safe_dump(self.resolved(), sort_keys=False)

    def resolved(self) -> dict[str, Any]:
        """All values; of the data, those keys that its kind has."""
        return {**asdict(self), "data": {"kind": self.data.kind, **self.data.options}}

    @property
    def identity(self) -> str:
        """A digest of all that decides the weights: the recipe without its certification, but for an attack's norm."""
        content = self.resolved()
        certify = content.pop("certify")
        if self.train.smoothadv.epsilon:
            content["norm"] = certify["norm"]  # adversarial examples are made in the certified norm
        for key in NOT_OF_WEIGHTS:
            part, name = key.split(".")
            content[part].pop(name, None)  # not every kind of data has it
        if self.start is not None:
            content["start"] = {"size": self.start.size, "epochs": self.start.epochs} | (
                {"through": self.passed} if self.passed else {}
            )
        return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()[:16]


def differences(one: Recipe, two: Recipe) -> Iterator[tuple[str, object, object]]:
    """The dotted keys beside certify's in which two recipes differ, with their values.

    >>> [*differences(Recipe(seed=1), Recipe(mask=Mask(width=4)))]
    [('seed', 1, 0), ('mask.width', 8, 4)]
    """
    first, second = (dict(_flat(recipe.resolved())) for recipe in (one, two))
    for key in dict.fromkeys((*first, *second)):
        if first.get(key) != second.get(key) and not key.startswith("certify.") and key not in NOT_OF_WEIGHTS:
            yield key, first.get(key), second.get(key)


def first_difference(there: Recipe, here: Recipe) -> str:
    """Where the recipe of a folder differs first from the one that is wanted, to follow a word; empty where nowhere.

    >>> first_difference(Recipe(seed=1), Recipe(mask=Mask(width=4)))
    ' (seed is 1 there, 0 here)'
    """
    return next((f" ({key} is {one} there, {two} here)" for key, one, two in differences(there, here)), "")


def elsewhere(there: Recipe, here: Recipe) -> bool:
    """Whether two recipes differ, and in nothing but where the data lies.

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
