"""What the playground computes: one draw taken apart, votes that fill up, the certified radius, and attacked images.

Nothing is kept between calls, and nothing here knows how it is shown.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from jaxtyping import Float
from numpy.typing import NDArray
from torch import Tensor

from ars.audit.attack import Attacker, AttackSettings
from ars.audit.verdict import judge
from ars.certification.bounds import lower_bound
from ars.certification.certifier import Certifier, make_rule
from ars.certification.images import as_batch
from ars.certification.settings import BLOCK, MOST_SEED, CertifySettings
from ars.data.benchmark import open_benchmark
from ars.data.crops import read_fitted
from ars.data.image_files import conversion
from ars.data.settings import Data, DataError
from ars.methods.registry import Method, method_called
from ars.recipes.read import read_recipe
from ars.report.pipeline_figure import StageRow, stage_rows
from ars.runs.paths import RECIPE, find_run
from ars.smoothing import SmoothedClassifier
from ars.theory import Norm
from ars.workflows.load import load_without_data
from ars.workflows.stages import take_apart

MODELS = ("digits", "digits-static_mask", "digits-cohen")
NORM: Norm = "linf"
ALPHA = 0.001
DRAWS = 5000
PER_LEVEL = 2
"""How many radii are decided per 8-bit level: they are multiples of .5/255."""
TIMES = (1, 3)
"""The radii of the attacks, in certified radii."""
ATTACK = AttackSettings(steps=10, draws=32, restarts=1)
JUDGED = 500
"""Fresh draws that decide the label of an attacked image."""
CPU = torch.device("cpu")
Image = Float[Tensor, "3 h w"]


@dataclass(frozen=True)
class Player:
    """A pretrained model with the noise that the visitor chose; trained is the (sigma, share) of its training."""

    method: Method
    model: SmoothedClassifier
    class_names: tuple[str, ...]
    shape: tuple[int, int, int]
    trained: tuple[float, float]


def open_player(name: str, *, sigma: float | None = None, share: float | None = None) -> Player:
    """A pretrained model, with other noise than it was trained with if that is given; certificates hold for any."""
    if name not in MODELS:
        raise ValueError(f"the model must be one of {', '.join(MODELS)}, got {name}")
    folder = find_run(Path(name))
    recipe = read_recipe(folder / RECIPE)
    method = method_called(recipe.method)
    given = [("sigma", sigma), ("share", share if method.looks == 2 else None)]
    noise = [f"--{key}={value}" for key, value in given if value is not None]
    inputs, model = load_without_data(folder, CPU, moved=noise)
    assert isinstance(recipe.share, float)  # that of a pretrained model is not learned
    return Player(method, model, tuple(inputs.class_names), inputs.shape, (recipe.sigma, recipe.share))


@dataclass(frozen=True)
class Example:
    """An image to play with: where it comes from, in words, and its class, if that is known."""

    image: Image
    about: str
    truth: int | None = None


def examples() -> list[Example]:
    """The first test image of each class of the embedded benchmark."""
    benchmark = open_benchmark(Data(), CPU)
    labels = benchmark.labels("test", range(benchmark.size("test"))).tolist()
    indices = [labels.index(label) for label in range(len(benchmark.class_names))]
    images, _ = benchmark.examples("test", indices)
    return [
        Example(image, f"test image {index}, true class {benchmark.class_names[label]}", label)
        for label, (image, index) in enumerate(zip(images, indices, strict=True))
    ]


def read_example(path: Path, side: int) -> Example:
    """An image file, fitted to the size that the models take; errors name the file without its folder."""
    try:
        image, fitting = read_fitted(path, (side, side))
        done = [conversion(path), fitting and f"{fitting} to {side}×{side}"]
    except DataError as error:
        raise DataError(str(error).replace(str(path), path.name)) from error
    about = " and ".join(filter(None, done))
    return Example(image, f"{path.name}, {about}: this picture is certified" if about else path.name)


def one_draw(player: Player, image: Image, *, seed: int) -> tuple[StageRow, ...]:
    """The stages of one draw, from the input to what the classifier sees."""
    return stage_rows(take_apart(player.model, as_batch(image), seed=seed))


@dataclass(frozen=True)
class Count:
    """The votes so far, and the radius that they certify.

    With probability at least 1 - alpha over the draws, no perturbation within ``radius`` changes the label of the
    smoothed classifier from ``candidate``, at whatever moment one looks: radii are decided in mode "curve", whose test
    holds at any time, and all that could be certified were fixed before the first draw. ``most`` is the largest of
    them. radius 0 says nothing.
    """

    candidate: int
    votes: tuple[int, ...]
    radius: float
    most: float
    ended: bool

    @property
    def draws(self) -> int:
        """How many draws have been made."""
        return sum(self.votes)

    @property
    def runner_up(self) -> int:
        """The class with the most votes but for the candidate."""
        return max((label for label in range(len(self.votes)) if label != self.candidate), key=self.votes.__getitem__)


def settings_for(player: Player, *, seed: int, draws: int = DRAWS, alpha: float = ALPHA) -> CertifySettings:
    """Mode "curve" on a grid of radii up to what unanimous votes would certify."""
    p = lower_bound(draws, draws, alpha / 2)  # the rule tests at alpha / 2 at the last draw
    most = player.model.mechanism.radius(p, 1 - p, norm=NORM, dim=math.prod(player.shape)) if p > 0.5 else 0.0
    radii = tuple(number / (255 * PER_LEVEL) for number in range(1, int(most * 255 * PER_LEVEL) + 1))
    if not radii:
        raise ValueError(f"{draws} draws cannot certify any radius of the grid; use more draws or a larger sigma")
    return CertifySettings(
        norm=NORM, n_estimate=draws, alpha=alpha, mode="curve", radii=radii, seed=seed, precision="float32"
    )


def count_votes(player: Player, image: Image, settings: CertifySettings) -> Iterator[Count]:
    """Draw until every radius is decided; the last count is what certify() returns with these settings.

    One may stop at any count. Drawing again, with another seed, until a radius pleases is not covered.
    """
    images = as_batch(image)
    if images.shape[1:] != player.shape:
        raise ValueError(f"the model takes images of shape {list(player.shape)}, got {list(images.shape[1:])}")
    counter = Certifier(player.model, settings).prepare(images)
    mechanism = counter.model.mechanism
    rule = make_rule(settings, mechanism, dim=images[0].numel())
    seed = settings.seed
    state = rule.start(counter([mechanism], images, [0], n=settings.n_select, stage="select", seed=seed))
    counts = np.zeros((1, len(player.class_names)), dtype=np.int64)
    while state.going.any():
        drawn = int(counts.sum())
        n = int(rule.next_look(np.array([drawn]), state)[0]) - drawn
        counts += counter([mechanism], images, [0], n=n, first_block=drawn // BLOCK, stage="estimate", seed=seed)
        state = rule.look(state, counts)
        certified = int(state.certified[0])
        yield Count(
            candidate=int(state.candidate[0]),
            votes=tuple(counts[0].tolist()),
            radius=settings.radii[certified - 1] if certified else 0.0,
            most=settings.radii[-1],
            ended=not state.going.any(),
        )


@dataclass(frozen=True)
class Attacked:
    """An image that an attack found at ``times`` the certified radius, and the votes of fresh draws there."""

    times: int
    image: NDArray[np.floating[Any]]
    label: int
    votes: int
    draws: int


def attack(player: Player, image: Image, count: Count, *, seed: int, times: Sequence[int] = TIMES) -> list[Attacked]:
    """Attack the certified label at its radius and beyond; the votes there share no noise with the certificate's."""
    images = as_batch(image).repeat(len(times), 1, 1, 1)
    labels, runners_up = (torch.tensor([label] * len(times)) for label in (count.candidate, count.runner_up))
    radii = torch.tensor([factor * count.radius for factor in times])
    found = Attacker(player.model, NORM, ATTACK)("gradient", images, labels, radii, runners_up)
    fresh = CertifySettings(seed=(seed + 1) % (MOST_SEED + 1), n_estimate=JUDGED, precision="float32")
    verdicts = judge(Certifier(player.model, fresh), found, labels.tolist(), range(len(times)), draws=JUDGED)
    return [
        Attacked(factor, moved.numpy(), verdict.winner, max(verdict.counts), JUDGED)
        for factor, moved, verdict in zip(times, found, verdicts, strict=True)
    ]
