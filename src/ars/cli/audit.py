"""ars audit: the long version of the model check, for anyone who writes a mechanism, a mask or a step."""

import argparse
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ars.cli.interrupt import stoppable
from ars.cli.options import (
    Subparsers,
    add_classifier,
    add_command,
    add_data,
    add_device,
    check_not_imported,
    given_model,
    limit_memory,
    settings_of,
)
from ars.cli.views import View, duration
from ars.runs.audits import FAMILY_LEVEL, Audit
from ars.theory import NORMS
from ars.workflows.processes import one_process

if TYPE_CHECKING:
    from ars.audit.draws import AuditSettings
    from ars.workflows.audit import Audited

TEACH = """\
Audit a model: does it draw the noise that it states, does its guarantee hold for that noise, and are its votes
independent? ars certify asks the same with few draws. The audit asks with many, and each check is also run on a small
model with a planted defect, which it must find.

  ars audit runs/ars                                          the report goes to runs/ars/audit
  ars audit runs/ars --exact --draws 200000
  ars audit my_package:my_model --data digits --out audit     a model of your own, as in ars certify --model

The exit code is 0 if no defect was found, and 1 if there are defects, or if the audit itself misses a planted one. Of
sound models fewer than one in ten thousand is refused. Passing is not a proof: docs/soundness.md says what cannot be
checked.
"""
NOTICE = "ars: stopping; nothing is saved"
EXAMPLES, DRAWS = 4, 20_000
ANSWERS = {True: "[green]passes[/green]", False: "[bold red]DEFECT[/bold red]", None: "not applicable"}


def add_to(commands: Subparsers) -> None:
    """Add the command."""
    summary = "check noise, guarantee and votes of a model with many draws"
    parser = add_command(commands, "audit", run, summary=summary, teach=TEACH)
    parser.add_argument("model", metavar="MODEL", help="a run folder made by ars train, or PACKAGE:NAME to import")
    parser.add_argument(
        "--draws", type=int, default=DRAWS, metavar="N", help=f"draws of each check of noise (default: {DRAWS})"
    )
    parser.add_argument(
        "--examples", type=int, default=EXAMPLES, metavar="N", help=f"the first N test images (default: {EXAMPLES})"
    )
    parser.add_argument("--norm", choices=NORMS, help="the norm of the certified ball (default: that of the recipe)")
    parser.add_argument("--exact", action="store_true", default=None, help="audit exact mode")
    parser.add_argument("--seed", type=int, default=0, help="seed of the noise (default: 0)")
    parser.add_argument("--precision", choices=("auto", "float32", "bfloat16"), help="precision of the networks")
    parser.add_argument(
        "--out", type=Path, metavar="FOLDER", help="where the report goes (default: MODEL/audit, audit)"
    )
    parser.add_argument("--json", action="store_true", help="print the content of audit.json")
    add_classifier(parser)
    add_data(parser.add_argument_group("a model that was not trained here, or data that was moved"))
    add_device(parser, memory=True)


def run(options: argparse.Namespace) -> int:
    """Audit, showing progress, and print the table."""
    one_process("ars audit")
    audited, given = _what(options)
    limit_memory(options)
    from ars.audit.draws import AuditSettings

    settings = AuditSettings(draws=options.draws, seed=options.seed, **given)
    out = options.out or audited.out
    audit = audit_with_progress(audited, settings, options.device, examples=options.examples, out=out)
    if options.json:
        print(audit.to_json(), end="")
    else:
        print_audit(audit, out)
    return 0 if audit.sound else 1


def audit_with_progress(
    audited: "Audited", settings: "AuditSettings", device_name: str, *, examples: int, out: Path
) -> Audit:
    """Audit, and print a line with a forecast every few seconds."""
    from ars.workflows.audit import audit_and_report
    from ars.workflows.hardware import choose_device

    view, began = View(audited.name), time.monotonic()

    def report(doing: str, done: int, total: int) -> None:
        left = (time.monotonic() - began) / done * (total - done) if done else 0.0
        rest = f", {duration(left)} left" if left else ""
        view.update(done, total, f"{doing}: {done:,} of {total:,} draws{rest}", doing)

    with stoppable(NOTICE) as stop:
        return audit_and_report(
            audited, settings, examples=examples, out=out, device=choose_device(device_name), report=report, stop=stop
        )[0]


def print_audit(audit: Audit, out: Path) -> None:
    """The table of the checks, the controls in one line, and the verdict."""
    from rich.console import Console
    from rich.markup import escape
    from rich.table import Table

    table = Table(title=escape(audit.model), title_justify="left")
    for column in ("check", "answer", "what was measured"):
        table.add_column(column, no_wrap=column != "what was measured")
    for finding in audit.findings:
        table.add_row(finding.name, ANSWERS[finding.passed], escape(finding.said))
    console = Console(highlight=False)
    console.print(table)
    found = len(audit.controls) - len(audit.missed)
    console.print(f"controls: {found} of {len(audit.controls)} planted defects found, as they should be")
    console.print(f"verdict: {audit.verdict} (a false alarm has probability {FAMILY_LEVEL:g} at most)", markup=False)
    console.print(f"report: {out / 'index.html'}", markup=False, soft_wrap=True)


def _what(options: argparse.Namespace) -> "tuple[Audited, dict[str, Any]]":
    """What is audited, and how it will be certified."""
    from ars.workflows.audit import Audited

    given: dict[str, Any] = {
        name: getattr(options, name) for name in ("norm", "exact", "precision") if getattr(options, name) is not None
    }
    if ":" in options.model and not Path(options.model).exists():
        if options.data is None:
            raise ValueError(f"{options.model} needs images: give its benchmark with --data KIND[:ROOT]")
        if options.classifier is not None:
            raise ValueError("--classifier belongs to a run that was trained here; leave it out")
        return Audited(given=given_model(options, options.model)), given
    folder = Path(options.model)
    check_not_imported(options, ("data", "sigma"), "name it as PACKAGE:NAME")
    recipe = settings_of(folder)
    kept = {name: getattr(recipe, name) for name in ("norm", "exact", "precision")}
    audited = Audited(folder=folder, classifier=options.classifier, moved=tuple(options.overrides))
    return audited, kept | given
