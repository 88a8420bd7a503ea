"""Sukenik et al. (2022): Gaussian noise whose level sigma(x) grows with the distance from the training images."""

from jaxtyping import Float
from torch import Tensor, nn

from ars.smoothing.local_gaussian import InputDependentClassifier
from ars.smoothing.nearest_noise import NearestNoise, mean_distance

RATE, NEIGHBOURS = 0.01, 20
# How many training images calibrate the centre m and the training noise; the mean of D moves little beyond.
CALIBRATION_IMAGES = 500


def sukenik(classifier: nn.Module, references: Float[Tensor, "n c h w"], *, sigma: float) -> InputDependentClassifier:
    """sigma(x) = sigma exp(rate (D(x) - m)), D the mean distance to the 20 nearest references, m their own mean of D.

    References are training images, as they are or as they are trained on. m is taken over about 500 of them.
    Trained with constant noise of the mean sigma(x); at each test image the votes are drawn, and the radius is stated,
    at that image's own sigma(x).
    """
    if not isinstance(references, Tensor) or references.ndim != 4 or len(references) <= NEIGHBOURS:
        given = list(references.shape) if isinstance(references, Tensor) else type(references).__name__
        raise ValueError(f"references must be a tensor [n, c, h, w] of more than {NEIGHBOURS} images, got {given}")
    every = max(1, len(references) // CALIBRATION_IMAGES)
    distance = mean_distance(references[::every], references, NEIGHBOURS, skip_nearest=True)
    # rounded, so that every machine has the same noise
    centre = round(distance.mean().item(), 6)
    noise = NearestNoise(references, sigma=sigma, centre=centre, rate=RATE, neighbours=NEIGHBOURS)
    return InputDependentClassifier(noise, classifier, train_sigma=round(noise.of_distance(distance).mean().item(), 6))
