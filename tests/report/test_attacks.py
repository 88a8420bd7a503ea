"""Runs under attack in a report: the two curves, the table, and which images they are of."""

from dataclasses import replace

import numpy as np
import pytest

from ars.report import ReportError, write_report
from ars.report.attacks import AttackedRun, attack_columns, attacked_groups, draw_attacks, load_attacks
from ars.report.grouping import make_sections
from ars.runs.attacks import Attacked, targets_of, write_attacks
from ars.runs.run import load_runs

from ..runs.test_attacks import build_attacked, build_attacks


@pytest.fixture
def attack():
    """Attack the first images of a run: 0 falls at four times its radius of 4.5/255, 1 and the wrong 2 nowhere."""

    def write(path, images=3, **changes):
        [run] = load_runs([path])
        p_values = [(0.9, 1e-6), (0.9, 0.9), (0.9, 0.9)]
        made = [Attacked(target, build_attacked(target.index, *p, label=target.label).attempts)
                for target, p in zip(targets_of(run.records), p_values, strict=True)]  # fmt: skip
        attacks = build_attacks(*made[:images], **changes)
        write_attacks(path, "test", attacks)
        return AttackedRun(run, attacks)

    return write


RADII = np.array([0.0, 2.5, 2.6, 4.5, 4.6, 17.9, 18.1, 40.0]) / 255


def test_accuracy_under_attack_falls_where_a_label_was_lost(make_run, attack):
    one = attack(make_run("a"))
    assert (4 * one.certified_accuracy(RADII)).tolist() == [2, 2, 1, 1, 0, 0, 0, 0]
    assert (4 * one.attacked_accuracy(RADII)).tolist() == [2, 2, 2, 2, 2, 2, 1, 1]


def test_both_curves_are_of_the_images_before_the_first_that_was_not_attacked(make_run, attack):
    one = attack(make_run("a"), images=1)
    assert [record.certificate.index for record in one.records] == [0]
    assert one.certified_accuracy(RADII).tolist() == [1, 1, 1, 1, 0, 0, 0, 0]
    assert one.attacked_accuracy(RADII).tolist() == [1, 1, 1, 1, 1, 1, 0, 0]
    assert len(attack(make_run("b"), images=2).records) == 2
    assert len(attack(make_run("c"), images=3).records) == 4  # the last one abstains


def test_drawn_bounds_never_promise_more_between_two_points(make_run, attack):
    paths = [make_run("a"), make_run("b", seed=1), make_run("c", method="adaptive")]
    for path, images in ((paths[0], 3), (paths[2], 2)):
        attack(path, images=images)
    runs = load_runs(paths)
    [section] = make_sections(runs)
    members = attacked_groups(section, load_attacks(runs, "test"))
    lines = draw_attacks([members], headings=["digits"]).figure.axes[0].get_lines()
    assert [line.get_label() for line in lines] == [
        "Cohen et al., certified", "Cohen et al., under attack", "ARS, first 2 images, certified",
        "ARS, first 2 images, under attack",
    ]  # fmt: skip
    for certified, kept in (lines[:2], lines[2:]):
        assert (certified.get_ydata() <= kept.get_ydata()).all()
        assert (certified.get_drawstyle(), kept.get_drawstyle()) == ("steps-pre", "steps-post")
    assert lines[0].get_xdata()[-1] > 18
    texts = {column.name: column.texts for column in attack_columns(members)}
    assert texts["run"] == ("a", "a", "c", "c")
    assert texts["certified images"] == ("3", "3", "2", "2")
    assert texts["lost"] == ("0 (0%)", "1 (33%)", "0 (0%)", "1 (50%)")
    assert texts["gradient"] == ("0", "1", "0", "1")


def test_a_report_shows_attacks_where_there_are_some(make_run, attack, tmp_path):
    path = make_run("a")
    attack(path)
    report = write_report([path], tmp_path / "out")
    names = {"attacks.svg", "attacks.png", "attacks.md"}
    assert names <= {file.name for file in report.files}
    page = (tmp_path / "out" / "index.html").read_text()
    assert "Under attack" in page
    assert "| a | 4 | 3 | 1 (33%) | 1 | 1 | 0 |" in (tmp_path / "out" / "attacks.md").read_text()
    (path / "attack" / "test.json").unlink()
    report = write_report([path], tmp_path / "out")
    assert not names & {file.name for file in (tmp_path / "out").iterdir()}
    assert "Under attack" not in (tmp_path / "out" / "index.html").read_text()


def test_attacks_on_other_certificates_are_refused(make_run, make_records, attack, tmp_path):
    path = make_run("a")
    attack(path, model="other")
    with pytest.raises(ReportError, match="other certificates"):
        write_report([path], tmp_path / "out")
    one = attack(path)
    [first, *others] = one.attacks.images
    moved = replace(first, target=replace(first.target, radius=0.01))
    write_attacks(path, "test", replace(one.attacks, images=(moved, *others)))
    with pytest.raises(ReportError, match="move it away"):
        write_report([path], tmp_path / "out")
    assert not (tmp_path / "out").exists()
