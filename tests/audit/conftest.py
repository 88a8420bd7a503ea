import pytest
import torch

from ars.audit.checks import CHECKS
from ars.audit.draws import AuditSettings, Subject
from ars.audit.planted import images as planted_images


@pytest.fixture
def findings():
    """The findings of some checks, of all unless told otherwise, by name."""

    def audit(model, images=None, *, names=None, draws=4000, **options):
        settings = AuditSettings(draws=draws, precision="float32", **options)
        with torch.inference_mode():
            subject = Subject(model, planted_images() if images is None else images, settings)
            return {check.name: check(subject) for check in CHECKS if names is None or check.name in names}

    return audit


@pytest.fixture
def defects(findings):
    """What the checks that a model does not pass say, by name."""

    def audit(*model, **options):
        return {name: one.said for name, one in findings(*model, **options).items() if one.passed is False}

    return audit
