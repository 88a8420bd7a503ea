"""Every planted defect is found by the check that it is meant for, and every check has one."""

import pytest
import torch

from ars.audit.answer import LEVEL
from ars.audit.checks import CHECKS
from ars.audit.model_audit import control
from ars.audit.planted import PLANTED, images, two_steps
from ars.runs.audits import FAMILY_LEVEL

# from an independent audit of certificates
KNOWN = {
    "batch statistics in batches of 32 or more", "a network that changes after 100 images",
    "a forward hook that changes X before the noise", "no noise", "a quarter of the noise",
    "noise clamped at 4 deviations", "a mask that sees X", "a scale with the wrong number of coordinates",
    "noise shared inside a batch", "bf16 noise", "dropout in eval mode",
}  # fmt: skip


def test_every_check_has_a_control_and_every_known_defect_is_planted():
    assert LEVEL * len({check.name for check in CHECKS}) <= FAMILY_LEVEL
    assert {planted.check for planted in PLANTED} == {check.name for check in CHECKS}
    assert {planted.defect for planted in PLANTED} >= KNOWN
    assert len({planted.defect for planted in PLANTED}) == len(PLANTED)


@pytest.mark.parametrize("planted", PLANTED, ids=lambda planted: planted.defect)
def test_a_planted_defect_is_found(planted):
    found = control(planted)
    assert found.found, found.said
    assert found.check == planted.check


def test_the_model_that_defects_are_planted_in_draws_and_answers():
    logits = two_steps().eval()(images(), torch.Generator().manual_seed(0))
    assert logits.shape == (2, 4)
    assert logits.std() > 0
