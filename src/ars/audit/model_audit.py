"""audit_model(): every check on a model, and the same checks on models with planted defects, in one report."""

import time
from collections.abc import Callable

import torch

from ars.audit.checks import CHECKS
from ars.audit.draws import AuditSettings, Subject
from ars.audit.network_checks import IMAGES_COUNTED
from ars.audit.planted import PLANTED, Planted
from ars.audit.planted import images as planted_images
from ars.certification.digest import digest_model
from ars.certification.images import as_batch
from ars.certification.settings import BLOCK
from ars.kernels.backend import exact
from ars.kernels.precision import autocast, current
from ars.runs.audits import Audit, Control
from ars.smoothing import SmoothedClassifier
from ars.smoothing.mechanism import Images

SHARES = 2.65
"""Draws of an audit without drift, in units of AuditSettings.draws: 1 at X, 1 at X + e, .5 for votes, and some more."""
Report = Callable[[str, int, int], None]
"""Called with what is done, and how many draws are made of how many."""


def audit_model(
    model: SmoothedClassifier,
    images: Images,
    *,
    settings: AuditSettings | None = None,
    name: str = "model",
    report: Report = lambda doing, done, total: None,
    stop: Callable[[], bool] = lambda: False,
) -> Audit:
    """Audit a model on images [b, c, h, w] in [0, 1]; four or more let every direction of e be tried.

    With probability at least 1 - FAMILY_LEVEL no check refuses a sound model. The model is copied and never changed.
    stop is asked after every batch of draws; if it says yes, KeyboardInterrupt is raised.
    """
    began, images, settings = time.perf_counter(), as_batch(images), settings or AuditSettings()
    total, done, doing = round(SHARES * settings.draws) + max(BLOCK * IMAGES_COUNTED, settings.draws), 0, ""

    def tick(draws: int) -> None:
        nonlocal done
        done += draws
        if stop():
            raise KeyboardInterrupt
        report(doing, min(done, total), total)

    findings, controls = [], []
    with torch.inference_mode(), current(images.device), exact(), autocast(images.device, "float32"):
        subject = Subject(model, images, settings, tick)  # refuses before anything is drawn what cannot be audited
        for planted in PLANTED:
            doing = f"control: {planted.defect}"
            tick(0)
            controls.append(control(planted, stop=stop))
        for check in CHECKS:
            doing = check.name
            tick(0)
            findings.append(check(subject))
    recorded = {
        "draws": settings.draws, "images": len(images), "norm": settings.norm, "seed": settings.seed,
        "precision": subject.counter.precision, "exact": settings.exact,
    }  # fmt: skip
    return Audit(name, digest_model(model), recorded, tuple(findings), tuple(controls), time.perf_counter() - began)


def control(planted: Planted, *, stop: Callable[[], bool] = lambda: False) -> Control:
    """Whether the check that a planted defect is meant for finds it."""

    def tick(draws: int) -> None:
        if stop():
            raise KeyboardInterrupt

    [check] = (check for check in CHECKS if check.name == planted.check)
    with torch.inference_mode():
        finding = check(Subject(planted.make(), planted_images(), planted.settings, tick))
    return Control(planted.defect, planted.check, finding.passed is False, finding.said)
