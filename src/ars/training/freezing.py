"""What is trained when: a classifier that is not stays exactly as it is, BatchNorm statistics too."""

from ars.smoothing import SmoothedClassifier


def freeze_classifier(model: SmoothedClassifier) -> None:
    """Train nothing but the mask of this model."""
    model.classifier.requires_grad_(False)


class Modes:
    """Sets a model up for a step of an epoch: the mask is always trained, the classifier after the mask-only epochs.

    A classifier that is not trained is in eval mode, as certification will see it: fixed statistics, no dropout. A
    frozen one, without a parameter that wants a gradient, is never trained.
    """

    def __init__(self, model: SmoothedClassifier, *, mask_only_epochs: int) -> None:
        self.model, self.mask_only_epochs = model, mask_only_epochs
        self.trainable = [parameter for parameter in model.classifier.parameters() if parameter.requires_grad]
        self._trained: bool | None = None

    def set(self, epoch: int) -> bool:
        """Training mode and gradients for what this epoch trains; whether that is something new."""
        trained = bool(self.trainable) and epoch >= self.mask_only_epochs
        for parameter in self.trainable:
            parameter.requires_grad_(trained)
        self.model.train()
        self.model.classifier.train(trained)
        new, self._trained = trained != self._trained, trained
        return new
