"""Sukenik et al. (2022): Gaussian noise whose level sigma(x) grows with the distance from the training images."""

from jaxtyping import Float
from torch import Tensor, nn

from ars.methods.builder import Inputs, MethodSettings
from ars.methods.paper_values import RATE
from ars.smoothing.input_dependent import InputDependentClassifier, NearestNoise, mean_distance

NEIGHBOURS = 20
# How many training images calibrate the centre m and the training noise; more hardly change the mean of D.
CALIBRATION_IMAGES = 500


def sukenik(classifier: nn.Module, references: Float[Tensor, "n c h w"], *, sigma: float) -> InputDependentClassifier:
    """sigma(x) = sigma exp(rate (D(x) - m)), D the mean distance to the 20 nearest references, m their own mean of D.

    References are training images, with or without augmentation. m is the mean over about 500 of them. Training uses
    constant noise at the mean of sigma(x). At a test image, the votes and the radius use that image's sigma(x).
    """
    if not isinstance(references, Tensor) or references.ndim != 4 or len(references) <= NEIGHBOURS:
        given = list(references.shape) if isinstance(references, Tensor) else type(references).__name__
        raise ValueError(f"references must be a tensor [n, c, h, w] of more than {NEIGHBOURS} images, got {given}")
    every = max(1, len(references) // CALIBRATION_IMAGES)
    distance = mean_distance(references[::every], references, NEIGHBOURS, skip_nearest=True)
    # rounded, so that the noise is the same on every machine
    centre = round(distance.mean().item(), 6)
    noise = NearestNoise(references, sigma=sigma, centre=centre, rate=RATE, neighbours=NEIGHBOURS)
    return InputDependentClassifier(noise, classifier, train_sigma=round(noise.of_distance(distance).mean().item(), 6))


def build(settings: MethodSettings, inputs: Inputs, classifier: nn.Module) -> InputDependentClassifier:
    """The method around a base classifier, with a recipe's settings."""
    return sukenik(classifier, inputs.references(), sigma=settings.sigma)
