"""What the README shows is what happens."""

import json
import math
import re
from pathlib import Path

import pytest

from ars.report.published import published_rows, recipe_method

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text(encoding="utf-8")


def test_the_library_example_runs_as_printed(capsys):
    [code] = re.findall(r"```python\n(.*?)```", README, flags=re.DOTALL)
    assert len([line for line in code.splitlines() if line.strip()]) <= 10
    exec(compile(code, "README.md", "exec"), {})
    first, second = capsys.readouterr().out.splitlines()
    assert f"print(certificate.label, certificate.radius)  # {first}: an untrained net abstains\n" in code
    assert float(second) >= 0


def test_every_linked_file_is_there():
    links = re.findall(r"\]\((?!http)([^)#\s]+)\)", README)
    assert len(links) > 10
    for link in links:
        assert (ROOT / link).exists(), link


def test_the_commands_that_are_shown_parse():
    from ars.cli import make_parser

    sweeping = (ROOT / "docs" / "sweep.md").read_text(encoding="utf-8")
    for page in (README, sweeping):
        [block] = re.findall(r"```\n(ars .*?)```", page, flags=re.DOTALL)
        for line in block.strip().splitlines():
            make_parser().parse_args(line.split("#")[0].split()[1:])


def test_the_sweep_file_that_is_shown_can_be_read(tmp_path):
    from ars.experiments.sweeps.file import read_sweep

    [text] = re.findall(r"```yaml\n(.*?)```", (ROOT / "docs" / "sweep.md").read_text(encoding="utf-8"), flags=re.DOTALL)
    folder = tmp_path / "sweeps"
    folder.mkdir()
    (tmp_path / "cifar_backgrounds.yaml").write_bytes((ROOT / "recipes" / "cifar_backgrounds.yaml").read_bytes())
    (folder / "shown.yaml").write_text(text)
    cells = read_sweep(folder / "shown.yaml").cells
    assert cells[0].name == "cohen-k64-s0.5-seed0-long"
    assert len(cells) == 12


def test_the_estimates_that_the_page_on_sweeps_shows_are_those_of_the_plans():
    from ars.experiments.sweeps.file import read_sweep
    from ars.experiments.sweeps.plan import make_plan

    page = (ROOT / "docs" / "sweep.md").read_text(encoding="utf-8")
    shown = dict(re.findall(r"^\| `(\w+\.yaml)` \|.*\| (\d+) min.*\|$", page, flags=re.MULTILINE))
    sweeps = sorted((ROOT / "recipes" / "sweeps").glob("*.yaml"))
    assert shown.keys() == {path.name for path in sweeps}
    for path in sweeps:
        seconds = make_plan(read_sweep(path), ROOT / "no-runs").seconds
        assert int(shown[path.name]) == pytest.approx(seconds / 60, abs=1), path


def test_the_time_of_the_digits_sweep_is_that_of_the_records():
    page = (ROOT / "docs" / "sweep.md").read_text(encoding="utf-8")
    [minutes] = re.findall(r"^\| `digits\.yaml` .* (\d+) as timed \|$", page, flags=re.MULTILINE)
    timings = (json.loads(path.read_text()) for path in (ROOT / "results" / "digits").glob("*/timing.json"))
    assert int(minutes) == round(sum(value for timing in timings for value in timing.values()) / 60)


def test_no_accuracy_of_the_demo_has_a_larger_standard_error_than_is_said():
    [images, points] = re.findall(r"(\d+) test images.*?standard errors up to (\d+) points", README, flags=re.DOTALL)[0]
    table = README.split("standard errors up to")[1].split("\n\n")[1]
    *accuracies, _ = zip(*(re.findall(r"\d+\.\d+", line) for line in table.splitlines()[2:]), strict=True)
    shares = [float(text) / 100 for column in accuracies for text in column]
    assert len(shares) == 12
    assert int(points) == math.ceil(max(100 * math.sqrt(p * (1 - p) / int(images)) for p in shares))


def test_the_norm_is_named_above_the_tables_of_accuracies():
    above = re.findall(r"((?:^[^|\n].*\n)+)\n\|.*standard accuracy", README, flags=re.MULTILINE)
    assert len(above) == 2
    assert all("Linf" in paragraph for paragraph in above)


def test_its_accuracies_on_cifar_10_are_those_of_the_generated_table():
    lines = (ROOT / "results" / "tables" / "measures.md").read_text(encoding="utf-8").splitlines()
    headings, _, *rows = ([cell.strip() for cell in line.split("|")] for line in lines if line.startswith("|"))
    cells = {}
    for row in (dict(zip(headings, row, strict=True)) for row in rows):
        standard, vote = (row[name].split()[0] for name in ("standard", "vote on the whole test set"))
        if row["benchmark"] == "CIFAR-10 on backgrounds":
            cells.setdefault((row["k"], float(row["σ"])), {})[row["method"]] = f"{standard} ({vote})"
    shown = re.findall(r"^\| (\d+)x\1, sigma = ([.\d]+) \|(.*)\|$", README, flags=re.MULTILINE)
    settings = [(k, float(sigma)) for k, sigma, _ in shown]
    main = (row for row in published_rows("cifar_backgrounds") if row.table == "main")
    published = {(row.k, row.sigma, recipe_method(row.method)): row.accuracy for row in main}
    assert len(shown) == 4
    for setting, (_, _, line) in zip(settings, shown, strict=True):
        told = [text.strip(" *") for text in line.split("|")]
        assert told == [cells[setting][method] for method in ("Cohen et al.", "static mask", "ARS")]
    beside = re.findall(r"^\| \d+x\d+, sigma = .*\n\| the paper \|(.*)\|$", README, flags=re.MULTILINE)
    assert [[float(text) for text in line.split("|")] for line in beside] == [
        [published[k, sigma, method] for method in ("cohen", "static_mask", "adaptive")]
        for k, sigma in ((int(k), sigma) for k, sigma in settings)
    ]
    first, last = (f"{cells[at]['UniCR']} and {cells[at]['Súkeník et al.']}" for at in (settings[0], settings[-1]))
    told = f"UniCR and Sukenik et al. in the first of these settings: {first}; in the last: {last}."
    assert told in " ".join(README.split())
