"""Whether what is trained can be certified as it is meant to be, found out before."""

import math
from collections.abc import Sequence

from ars.certification.procedure import check_request
from ars.data.benchmark import Benchmark
from ars.experiments.recipe import CertifySettings, Recipe
from ars.methods.unicr import paper_beta
from ars.smoothing import SmoothedClassifier
from ars.theory import unicr_radius_linf


def check_certifiable(model: SmoothedClassifier, settings: CertifySettings, shape: Sequence[int]) -> None:
    """Refuse settings by which images of this shape could not be certified, whatever the weights."""
    check_request(
        model,
        settings.schedule,
        norm=settings.norm,
        dim=math.prod(shape),
        alpha=settings.alpha,
        bound=settings.bound,
        n_select=settings.n_select,
        seed=settings.seed,
        precision="float32" if settings.precision == "auto" else settings.precision,
    )


def check_subset(benchmark: Benchmark, settings: CertifySettings) -> None:
    """Refuse more examples than there are."""
    images, examples, every = benchmark.size("test"), settings.examples, settings.every
    there = len(range(0, images, every))
    if examples <= there:
        return
    closer = (images - 1) // (examples - 1)  # the largest step that leaves as many; 0 where there are not so many
    spread = f", or certify.every to {closer} or less (--every)" if closer else ""
    raise ValueError(
        f"{benchmark.title} has {there} test images at every={every}, so {examples} are too many; "
        f"set certify.examples to {there} or fewer (--examples of ars certify){spread}"
    )


def check_noise(recipe: Recipe) -> None:
    """Find out, before any image is read, whether all is there that the radius of the recipe's noise is computed with.

    That of UniCR alone takes more than closed forms; what is computed here is kept for the certificates.
    """
    if recipe.method == "unicr":
        side = recipe.data.options.get("size", 32)  # benchmarks of one size have their own, of no matter here
        beta = recipe.beta or paper_beta(side, recipe.sigma)
        unicr_radius_linf(recipe.sigma, beta, 3 * side**2, 0.75, 0.25)
