"""The page on performance says what the files in benchmarks/figures say."""

import json
import re
from pathlib import Path

import pytest

from ars.theory.rounding import truncate

ROOT = Path(__file__).parents[2]
PAGE = " ".join((ROOT / "docs" / "performance.md").read_text(encoding="utf-8").split())


def figures(name):
    return json.loads((ROOT / "benchmarks" / "figures" / f"{name}.json").read_text(encoding="utf-8"))


CERTIFY, TRAIN, MODES = figures("h200-certify"), figures("h200-train"), figures("h200-modes")["results"]
MICROSECONDS = {row["name"]: row["us_a_draw"] for row in figures("h200-kernels")["rows"]}
FIRST = {row["name"]: row["first_s"] for row in figures("h200-kernels")["rows"] if "first_s" in row}


@pytest.mark.parametrize("row", CERTIFY["rows"], ids=lambda row: row["case"])
def test_a_row_of_the_certification_table(row):
    texts = (f"{row['reference_s']:.2f}", f"{row['engine_s']:.3f}", f"{row['ratio']:.1f}")
    shares = (f"{row['of_peak']:.2f}", f"{row['of_bandwidth']:.2f}")
    assert f"| {' | '.join((row['case'], *texts, *shares))} |" in PAGE


@pytest.mark.parametrize("row", TRAIN["rows"], ids=lambda row: f"k = {row['k']}")
def test_a_row_of_the_training_table(row):
    speeds = (
        f"k = {row['k']}",
        f"{row['reference_images_a_second']:,}",
        f"{row['images_a_second']:,}",
        f"{row['ratio']:.1f}",
    )
    seconds = (f"{row['seconds_an_epoch']:.1f}", f"{row['start_up_seconds']:.0f}")
    assert f"| {' | '.join((*speeds, *seconds))} |" in PAGE


def test_memory_ceilings_and_first_calls():
    peaks = [row["peak_gb"] for row in CERTIFY["rows"]]
    assert f"Peak memory on the GPU was {min(peaks):.1f} to {max(peaks):.1f} GB." in PAGE
    flops, moved = (CERTIFY["ceilings"][name] / 1e12 for name in ("flops", "bytes"))
    assert f"bf16 matrices at {flops:.0f} TFLOP/s and copies {moved:.1f} TB/s" in PAGE
    assert f"Useful arithmetic runs at {100 * CERTIFY['rows'][0]['of_peak']:.0f}% of the peak." in PAGE
    *ours, last = (row["first_call_s"] for row in CERTIFY["rows"])
    assert f"took {min(ours):.1f} to {max(ours):.1f} s, with ResNet-50 {last:.1f} s" in PAGE
    assert f"took {FIRST['unet32 96']:.0f} s (`h200-kernels.json`, the U-Net at 96)" in PAGE


def test_the_networks_one_by_one():
    small, large = MICROSECONDS["resnet110 32"], MICROSECONDS["resnet110 96"]
    more = f"{100 * (large / (9 * small) - 1):.0f}%"
    assert f"ResNet-110 takes {large:.1f} us a draw, {more} more than 9 times the {small:.2f} us of k = 32." in PAGE
    at = [f"{MICROSECONDS[f'unet32 {k}']:.1f}".lstrip("0") for k in (32, 64, 96)]
    assert f"{', '.join(at)} us a draw at 32, 64, 96, and {MICROSECONDS['unet16 224']:.1f} us at 224" in PAGE
    compiled, first, two, four = (
        MICROSECONDS[f"resnet50 224, {how}"] for how in ("compiled", "1 stages", "2 stages", "4 stages")
    )
    assert f"{compiled:.1f} us a draw compiled by torch, {first:.1f} with its stem and first stage as kernels" in PAGE
    assert f"({two:.1f} with two, {four:.1f} with four)" in PAGE
    ours, theirs = MICROSECONDS["finish 224, kernel"], MICROSECONDS["finish 224, torch"]
    assert f"({f'{ours:.1f}'.lstrip('0')} us a draw at 224, {theirs:.1f} in torch)" in PAGE


@pytest.mark.parametrize(
    ("mode", "told", "shown"),
    [
        ("fixed", "(mode fixed)", "standard 1/255 radius"),
        ("radius, within 1%", "`--mode radius`", "standard 1/255 radius"),
        ("radius, within 5%", "`--mode radius --tolerance 0.05`", "standard 1/255 radius"),
        ("curve, 8 radii to 3/255", "`--mode curve --radii` of 8 radii, 0 to 3/255", "standard 1/255"),
        ("curve, 1/255", "`--mode curve --radii 1/255`", "1/255"),
    ],
)
def test_a_row_of_the_table_of_modes(mode, told, shown):
    row = MODES[mode]
    fewer = MODES["fixed"]["draws"] / row["draws"]
    measures = {
        "standard": f"{100 * row['standard_accuracy']:.1f}",
        "1/255": f"{100 * row['certified_at_1_255']:.1f}",
        "radius": truncate(row["average_radius_255"], 2),  # cut, as every radius is
    }
    cells = [f"{row['seconds']:.1f}", f"{row['draws']:,}", f"{fewer:.1f}" if 2 < fewer < 20 else f"{fewer:.0f}"]
    cells += [text if name in shown.split() else "–" for name, text in measures.items()]
    assert f"| {' | '.join((told, *cells))} |" in PAGE


def test_what_the_modes_save_of_the_reference():
    reference = 200 * CERTIFY["rows"][1]["reference_s"]
    eight, one = (MODES[name]["seconds"] for name in ("curve, 8 radii to 3/255", "curve, 1/255"))
    assert f"= {reference / 60:.0f} minutes for any of these rows" in PAGE
    assert f"{reference / eight:.0f} times the last but one, {reference / one:.0f} times the last" in PAGE
    readme = " ".join((ROOT / "README.md").read_text(encoding="utf-8").split())
    assert f"200 images at one radius in {one:.1f} s, at eight radii in {eight:.1f} s" in readme


def test_the_readme_says_the_same():
    readme = " ".join((ROOT / "README.md").read_text(encoding="utf-8").split())
    told = re.findall(r"([\d.]+) s -> ([\d.]+) s \((\d+) times\)", readme)
    rows = [CERTIFY["rows"][number] for number in (0, 1, 3)]
    assert len(told) == len(rows)
    for (slow, fast, ratio), row in zip(told, rows, strict=True):
        assert float(slow) == pytest.approx(row["reference_s"], abs=0.05)
        assert float(fast) == pytest.approx(row["engine_s"], rel=0.02)
        assert int(ratio) == round(row["ratio"])
