"""The smoothed classifier of Sukenik et al.: at each image Gaussian noise of that image's own level sigma(x)."""

from collections.abc import Sequence

from torch import nn

from ars.smoothing.averaging import last
from ars.smoothing.classifier import SmoothedClassifier
from ars.smoothing.compose import compose
from ars.smoothing.gaussian import Gaussian
from ars.smoothing.mechanism import Images
from ars.smoothing.nearest_noise import NearestNoise
from ars.theory import Ball, Norm, UnsupportedThreat
from ars.theory.sukenik import sukenik_radius
from ars.theory.tradeoff import Gaussian as GaussianTradeOff


class LocalGaussian(Gaussian):
    """m = X + z, z ~ N(0, sigma(x)^2 I) at the one clean image x whose sigma(x) this is.

    Around it log sigma moves by at most rate times the L2 distance, which the radius allows for.
    """

    def __init__(self, sigma: float, rate: float) -> None:
        super().__init__(sigma)
        self.rate = rate

    def guarantee(self, ball: Ball) -> GaussianTradeOff:
        """Refuse: the noise differs between X and X + e, so its level is a release too and no G_mu holds."""
        raise UnsupportedThreat("noise of level sigma(x) has no f-DP guarantee; its certificate is in radius()")

    def radius(self, p_plus: float, p_minus: float, *, norm: Norm, dim: int) -> float:
        """Sukenik et al.'s radius; every other class is bounded by 1 - p_plus, whatever p_minus."""
        return sukenik_radius(self.sigma, self.rate, dim, p_plus, norm=norm)


class InputDependentClassifier(SmoothedClassifier):
    """Trained with constant noise; votes and radius come from the local models, one an image."""

    def __init__(self, noise: NearestNoise, classifier: nn.Module, *, train_sigma: float) -> None:
        super().__init__(compose(LocalGaussian(train_sigma, noise.rate)), last, classifier)
        self.noise = noise

    def localise(self, images: Images) -> Sequence[SmoothedClassifier]:
        """At each clean image the same network under noise of its own sigma(x), computed once."""
        return [
            # the network is shared, so the mode must be too
            SmoothedClassifier(compose(LocalGaussian(level, self.noise.rate)), last, self.classifier).train(
                self.training
            )
            for level in self.noise(images).tolist()
        ]
