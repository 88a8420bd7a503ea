"""An audit has a verdict, with controls; it never changes the model and can be stopped."""

import pytest
import torch

from ars.audit import model_audit
from ars.audit.draws import AuditSettings
from ars.audit.model_audit import audit_model
from ars.audit.planted import PLANTED, Planted, images, two_steps
from ars.runs.audits import FAMILY_LEVEL

FEW = AuditSettings(draws=2000, precision="float32")


@pytest.fixture
def few_controls(monkeypatch):
    monkeypatch.setattr(model_audit, "PLANTED", PLANTED[:2])


@pytest.mark.usefixtures("few_controls")
def test_a_sound_model_is_sound_and_stays_as_it_is():
    model = two_steps().train()
    before = {name: value.clone() for name, value in model.state_dict().items()}
    seen = []
    audit = audit_model(model, images(), settings=FEW, report=lambda *told: seen.append(told))
    assert audit.sound
    assert "not a proof" in audit.verdict
    assert sum(finding.false_alarm for finding in audit.findings) <= FAMILY_LEVEL
    assert model.training
    assert all(torch.equal(value, before[name]) for name, value in model.state_dict().items())
    done = [made for _, made, _ in seen]
    assert done == sorted(done)
    assert 0.8 * seen[-1][2] <= done[-1] <= seen[-1][2]
    again = audit_model(model, images(), settings=FEW)
    assert again.findings == audit.findings


@pytest.mark.usefixtures("few_controls")
def test_defects_are_named_in_the_verdict():
    [planted] = (planted for planted in PLANTED if planted.defect == "a quarter of the noise")
    audit = audit_model(planted.make(), images(), settings=FEW)
    assert not audit.sound
    assert "noise" in audit.verdict
    assert audit.verdict.startswith(f"{len(audit.defects)} defects found")


def test_an_audit_that_misses_a_planted_defect_is_broken(monkeypatch):
    monkeypatch.setattr(model_audit, "PLANTED", (Planted("nothing", "masks", two_steps),))
    audit = audit_model(two_steps(), images(), settings=FEW)
    assert not audit.defects
    assert not audit.sound
    assert "audit itself is broken" in audit.verdict


@pytest.mark.usefixtures("few_controls")
def test_it_stops_between_two_batches():
    asked = []

    def stop():
        asked.append(True)
        return len(asked) > 20

    with pytest.raises(KeyboardInterrupt):
        audit_model(two_steps(), images(), settings=FEW, stop=stop)
    assert len(asked) == 21


def test_what_is_no_smoothed_classifier_is_refused():
    with pytest.raises(TypeError, match="smooth it"):
        audit_model(torch.nn.Identity(), images(), settings=FEW)
