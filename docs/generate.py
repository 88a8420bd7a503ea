"""Write the numbers of the documents from the committed records, so that no number is copied by hand.

A document marks the place of a block with ``<!-- generated: NAME -->`` and ``<!-- end -->``; BLOCKS has the names.

    python docs/generate.py            rewrite every block
    python docs/generate.py --check    exit with 1 if a block differs from what the records say
"""

import argparse
import gzip
import json
import re
import statistics
from collections.abc import Callable, Iterable, Iterator
from fractions import Fraction
from functools import cache, partial
from pathlib import Path

from ars.theory.rounding import truncate

ROOT = Path(__file__).resolve().parents[1]
DOCUMENTS = (ROOT / "README.md", ROOT / "EXPERIMENTS.md", *sorted((ROOT / "docs").rglob("*.md")))
MARKED = re.compile(r"(<!-- generated: (\S+) -->\n).*?(<!-- end -->)", flags=re.DOTALL)
MAIN = ("cohen", "static_mask", "adaptive")
METHODS = {"cohen": "Cohen et al.", "static_mask": "static mask", "adaptive": "ARS", "unicr": "UniCR"}
METHODS |= {"sukenik": "Súkeník et al."}
DIGITS = ("24", "0.75")
CIFAR = [("32", "0.5"), ("48", "0.5"), ("64", "0.5"), ("96", "0.25"), ("96", "0.5"), ("96", "1")]
VOTE = "vote on the whole test set"


def markdown(headings: str, rows: Iterable[Iterable[str]], *, left: int = 1) -> str:
    """A Markdown table whose first `left` columns are words and whose others are numbers."""
    rule = ["---"] * left + ["---:"] * (headings.count(" | ") + 1 - left)
    return f"| {headings} |\n" + "".join(f"| {' | '.join(row)} |\n" for row in (rule, *rows))


@cache
def table(name: str) -> list[dict[str, str]]:
    """The rows of results/tables/NAME.md, each by its headings."""
    lines = (ROOT / f"results/tables/{name}.md").read_text(encoding="utf-8").splitlines()
    headings, _, *rows = ([cell.strip() for cell in line.strip("|").split(" | ")] for line in lines if line[:1] == "|")
    return [dict(zip(headings, row, strict=True)) for row in rows]


def find(name: str, k: str, sigma: str, **more: str) -> dict[str, str]:
    """The one row of a table with this k, sigma and whatever else is asked for."""
    [row] = [row for row in table(name) if ({"k": k, "σ": sigma} | more).items() <= row.items()]
    return row


def figures(name: str) -> dict:
    """A measurement in benchmarks/figures."""
    return json.loads((ROOT / f"benchmarks/figures/{name}.json").read_text(encoding="utf-8"))


def records(cell: str) -> list[dict]:
    """The records of all packed cells of this name, of any sweep; the name may have wildcards."""
    files = sorted((ROOT / "results").glob(f"*/{cell}/certify/*/*.jsonl.gz"))
    return [json.loads(line) for file in files for line in gzip.decompress(file.read_bytes()).splitlines()]


def cell_name(method: str, k: str, sigma: str) -> str:
    """How the cells of a setting are called, up to their seed."""
    return f"{method}-s{sigma}-seed" if (k, sigma) == DIGITS else f"{method}-k{k}-s{sigma}-seed"


def cells(settings: Iterable[tuple[str, str]], names: Iterable[str] = METHODS) -> Iterator[tuple[str, str, str]]:
    """Every k, sigma and method that were run, in this order."""
    run = {(row["k"], row["σ"], row["method"]) for row in table("measures")}
    return ((k, sigma, name) for k, sigma in settings for name in names if (k, sigma, METHODS[name]) in run)


def measures(settings: list[tuple[str, str]], *given: str) -> str:
    """What was measured: accuracies in percent, radii in 1/255, the same votes under both bounds."""
    columns = ["standard", *given, "average radius (/255)", "abstained"]
    rows = []
    for k, sigma, name in cells(settings):
        paper = {} if (k, sigma) == DIGITS else find("table-1", k, sigma, method=METHODS[name])
        known = paper | find("measures", k, sigma, method=METHODS[name])
        found = records(cell_name(name, k, sigma) + "*")
        right = 100 * sum(record["candidate"] == record["truth"] for record in found) / len(found)
        bounded = find("measures-class-bounds", k, sigma, method=METHODS[name])["standard"]
        rows.append([k, sigma, METHODS[name], *(known[column] for column in columns), bounded, f"{right:.1f}"])
        rows[-1] += [known[column] for column in (VOTE, "seconds an image", "seeds")]
    more = f"standard, class bounds | vote on the certified images | {VOTE} | seconds per image | seeds"
    return markdown(f"k | σ | method | {' | '.join(columns)} | {more}", rows, left=3)


def leads() -> str:
    """How far ARS is ahead of every other method."""
    rows = []
    for k, sigma, name in cells([DIGITS, *CIFAR]):
        if name != "adaptive":
            pair = {"method": "ARS", "less": METHODS[name]}
            row, bounded = find("leads", k, sigma, **pair), find("leads-class-bounds", k, sigma, **pair)
            columns = ("standard accuracy", "of single seeds", VOTE, "its single seeds", "average radius (/255)")
            rows.append([k, sigma, METHODS[name], *(row[column] for column in columns), bounded["standard accuracy"]])
    columns = f"standard | seed by seed | {VOTE} | seed by seed | average radius (/255) | standard, class bounds"
    return markdown(f"k | σ | ARS minus | {columns}", rows, left=3)


def digits_at_a_glance() -> str:
    """The vote, and certified accuracies under either bound, of the main methods on the digits."""
    rows, radii = [], ("≥ 4/255", "≥ 8/255")
    for name in MAIN:
        plain, bounded = (find(file, *DIGITS, method=METHODS[name]) for file in ("measures", "measures-class-bounds"))
        rows.append([METHODS[name], plain[VOTE], plain["standard"], bounded["standard"]])
        rows[-1] += [one[radius] for radius in radii for one in (plain, bounded)]
    both = (f"{radius} | {radius}, class bounds" for radius in radii)
    return markdown(f"method | vote | standard | standard, class bounds | {' | '.join(both)}", rows)


def summary() -> str:
    """Standard accuracy, ours and the paper's, and the smallest lead in the vote over the two other main methods."""
    rows = []
    for k, sigma in CIFAR:
        ours = [find("measures", k, sigma, method=METHODS[name]) for name in MAIN]
        paper = [find("table-1", k, sigma, method=METHODS[name])["paper, main table"] for name in MAIN]
        over = (find("leads", k, sigma, method="ARS", less=METHODS[name])[VOTE] for name in MAIN[:2])
        shown = [text.split()[0] for text in (*(row["standard"] for row in ours), *paper)]
        rows.append([k, sigma, *shown, min(over, key=lambda text: float(text.split()[0])), ours[-1]["seeds"]])
    columns = "Cohen et al. | static mask | ARS | paper: Cohen et al. | paper: static mask | paper: ARS"
    return markdown(f"k | σ | {columns} | ARS' lead in the vote | seeds", rows, left=2)


def excerpt(name: str, columns: str, methods: Iterable[str], *, left: int) -> str:
    """Some columns of a table, for some methods; of the digits alone where k is not shown."""
    names = columns.split(" | ")
    rows = [row for row in table(name) if row["method"] in methods and ("k" in names or row["k"] == DIGITS[0])]
    return markdown(columns, [[row[column] for column in names] for row in rows], left=left)


def times() -> str:
    """What the committed cells took, by setting, and all of them together."""
    rows, total = [], 0.0
    for k, sigma in (DIGITS, *CIFAR):
        files = sorted((ROOT / "results").glob(f"*/{cell_name('*', k, sigma)}*/timing.json"))
        timed = [json.loads(file.read_text(encoding="utf-8")) for file in files]
        parts = ([one[f"{work}_seconds"] / 60 for one in timed] for work in ("train", "certify"))
        minutes = sum(value for one in timed for value in one.values()) / 60
        total += 0 if k == "24" else minutes
        spans = [f"{min(part):.1f} to {max(part):.1f}" for part in parts]
        rows.append([k, sigma, "two CPU cores" if k == "24" else "one H200", str(len(timed)), *spans, f"{minutes:.0f}"])
    columns = "training, minutes per cell | certification, minutes per cell | all cells, minutes"
    return (
        markdown(f"k | σ | machine | cells | {columns}", rows, left=3) + f"\nAll on the H200: {total / 60:.1f} hours.\n"
    )


def rivals() -> str:
    """UniCR and Súkeník et al. minus Cohen et al., seed 0 of each."""
    rows = []
    for k, sigma, name in cells([("64", "0.5"), ("96", "1")], ("unicr", "sukenik")):
        row = find("leads", k, sigma, method=METHODS[name], less="Cohen et al.")
        own, cohens = (records(cell_name(one, k, sigma) + "0") for one in (name, "cohen"))
        largest = [truncate(255 * max(Fraction(record["radius"]) for record in part), 2) for part in (own, cohens)]
        noise = [record["sigmas"][0] for record in own]
        rows.append([k, sigma, METHODS[name], row["standard accuracy"], row[VOTE], row["average radius (/255)"]])
        spread = f"{statistics.mean(noise):.2f} ({statistics.pstdev(noise):.2f})"
        rows[-1] += [*largest, spread, f"{min(noise):.3f} to {max(noise):.3f}"]
    columns = f"standard | {VOTE} | average radius (/255) | largest radius (/255) | Cohen et al.'s largest"
    return markdown(f"k | σ | method | {columns} | noise at the test images | least to most", rows, left=3)


def measured(name: str, headings: str, *columns: str) -> str:
    """Rows of a measurement; a column is the key of a number and its format."""
    keys = [column.split(":") for column in columns]
    return markdown(headings, [[format(row[key], spec) for key, spec in keys] for row in figures(name)["rows"]])


def modes() -> str:
    """What the modes of certification draw and find, on the same 200 images."""
    usual, shown = 200 * figures("h200-certify")["rows"][1]["reference_s"], figures("h200-modes")["results"]
    rows = []
    for name in ("fixed", "radius, within 1%", "radius, within 5%", "curve, 8 radii to 3/255", "curve, 1/255"):
        row, seconds = shown[name], shown[name]["seconds"]
        standard = "–" if name == "curve, 1/255" else f"{100 * row['standard_accuracy']:.1f}"
        radius = "–" if name.startswith("curve") else truncate(row["average_radius_255"], 2)
        rows.append([name, f"{seconds:.1f}", f"{usual / seconds:.0f}", f"{row['draws']:,}", standard])
        rows[-1] += [f"{100 * row['certified_at_1_255']:.1f}", radius]
    columns = "draws | standard, % | at 1/255, % | average radius (/255)"
    return markdown(f"mode | seconds | speed-up | {columns}", rows)


def sweeps() -> str:
    """Every sweep file: its cells, how many are packed in results/, and the plan's estimate."""
    from ars.recipes.read import SWEEPS
    from ars.workflows.sweeps.file import read_sweep
    from ars.workflows.sweeps.plan import make_plan

    rows = []
    for path in sorted(SWEEPS.glob("*.yaml")):
        sweep = read_sweep(path)
        minutes = make_plan(sweep, ROOT / "no-runs").seconds / 60
        packed = len(list((ROOT / "results" / path.stem).glob("*/timing.json")))
        rows.append([f"`{path.name}`", str(len(sweep.cells)), str(packed), f"{minutes:.0f}"])
    return markdown("file | cells | of these in `results/` | estimated minutes", rows)


def imagenet() -> str:
    """ImageNet's test images at N = 100,000 on several numbers of GPUs, from the time of one draw on one GPU."""
    from ars.runs.shards import SHARD_SIZE
    from ars.workflows.forecast import Forecast

    [row] = [row for row in figures("h200-certify")["rows"] if row["case"] == "ARS, ResNet-50, 224"]
    image = row["engine_s"] / figures("h200-certify")["n"] * (100 + 100_000)
    forecast = Forecast((SHARD_SIZE * image,) * (50_000 // SHARD_SIZE), row["first_call_s"])
    alone, rows = forecast.wall_seconds(1), []
    for gpus in (1, 8, 64, 512):
        wall, hours = forecast.wall_seconds(gpus), forecast.gpu_hours(gpus)
        rows.append([str(gpus), f"{wall / 3600:.2f}", f"{hours:.1f}", f"{alone / wall / gpus:.1%}"])
    return markdown("GPUs | wall time, hours | GPU-hours | of ideal speed-up", rows, left=0)


def tables() -> str:
    """Every table of results/ with its title."""
    titles = {path: path.read_text("utf-8").split("\n", 1)[0] for path in (ROOT / "results/tables").glob("*.md")}
    rows = [[f"[`{p.stem}`](../results/tables/{p.name})", titles[p].lstrip("# ")] for p in sorted(titles)]
    return markdown("table | what it shows", rows, left=2)


def by_draws() -> str:
    """The largest certified Linf radius at sigma = .5 on 3 x 32 x 32 inputs, by the number of draws."""
    from ars.certification.bounds import lower_bound
    from ars.theory import rs_radius_linf

    rows = []
    for n in (100, 1_000, 10_000, 100_000):
        bounds = [lower_bound(n * share // 100, n, 0.001) for share in (100, 99, 90)]
        rows.append([f"{n:,}", *(truncate(255 * rs_radius_linf(0.5, 3072, p, 1 - p), 2) for p in bounds)])
    return markdown("N | all votes agree | 99% agree | 90% agree", rows)


def by_noise() -> str:
    """What the noise level costs and buys at k = 96."""
    columns, rows = ("standard", "≥ 1/255", "≥ 2/255", "average radius (/255)"), []
    for sigma in ("0.25", "0.5", "1"):
        for name in ("cohen", "adaptive"):
            row = find("measures", "96", sigma, method=METHODS[name])
            rows.append([sigma, METHODS[name], *(row[column] for column in columns)])
    return markdown(f"σ | method | {' | '.join(columns)}", rows, left=2)


def cells_of_sweeps() -> str:
    """Which sweep makes which cell: one row for the settings of a sweep with the same methods and seeds."""
    from ars.recipes.read import SWEEPS
    from ars.recipes.recipe import Recipe
    from ars.workflows.sweeps.file import read_sweep

    rows: dict[tuple[str, ...], list[str]] = {}
    for path in sorted(SWEEPS.glob("*.yaml")):
        found: dict[tuple[str, str], list[Recipe]] = {}
        for cell in read_sweep(path).cells:
            at = f"{cell.k}, " if cell.k else ""
            found.setdefault((f"{at}{cell.recipe.sigma:g}", f"{cell.recipe.certify.n_estimate:,}"), []).append(
                cell.recipe
            )
        for (setting, n), recipes in found.items():
            names = dict.fromkeys(METHODS[recipe.method] for recipe in recipes)
            seeds = dict.fromkeys(str(recipe.seed) for recipe in recipes)
            rows.setdefault((f"`{path.stem}`", recipes[0].data.kind, ", ".join(names), ", ".join(seeds), n), []).append(
                setting
            )
    shown = [[sweep, kind, "; ".join(settings), *others] for (sweep, kind, *others), settings in rows.items()]
    return markdown("sweep | benchmark | k, σ | methods | seeds | N", shown, left=6)


SPEED = " | usual protocol, s per image | this library, s per image | ratio"
BOUNDS = "of bf16 peak | of copy bandwidth | first call, s | peak memory, GB"
LIMITS = ("of_peak:.2f", "of_bandwidth:.2f", "first_call_s:.1f", "peak_gb:.1f")
TRAINING = "k | usual loop, images/s | this library, images/s | ratio | s per epoch | start-up, s"
SECONDS = ("case:", "reference_s:.2f", "engine_s:.3f", "ratio:.1f")
IMAGES = ("k:", "reference_images_a_second:,", "images_a_second:,", "ratio:.1f", "seconds_an_epoch:.1f")
MASKS = "k | σ | method | within the outline (%) | least to most | the outline's area (%) | noise left"
RADII = ("≥ 1/255", "≥ 2/255", "≥ 4/255")
BLOCKS: dict[str, Callable[[], str]] = {
    "readme-digits": digits_at_a_glance,
    "readme-speed": partial(measured, "h200-certify", SPEED, *SECONDS),
    "summary": summary,
    "leads": leads,
    "digits": partial(measures, [DIGITS], "≥ 2/255", "≥ 4/255", "≥ 8/255"),
    "k64": partial(measures, CIFAR[2:3], "paper, main table", "paper, appendix", *RADII),
    "k96": partial(measures, CIFAR[5:], "paper, main table", *RADII),
    "cross": partial(measures, [*CIFAR[:2], *CIFAR[3:5]], "paper, main table", *RADII),
    "rivals": rivals,
    "masks": partial(excerpt, "masks", MASKS, METHODS.values(), left=3),
    "times": times,
    "by-draws": by_draws,
    "by-noise": by_noise,
    "masks-digits": partial(excerpt, "masks", MASKS.removeprefix("k | σ | "), METHODS.values(), left=1),
    "cells-of-sweeps": cells_of_sweeps,
    "sweeps": sweeps,
    "imagenet-scale": imagenet,
    "tables": tables,
    "certify-speed": partial(measured, "h200-certify", f"{SPEED} | {BOUNDS}", *SECONDS, *LIMITS),
    "train-speed": partial(measured, "h200-train", TRAINING, *IMAGES, "start_up_seconds:.0f"),
    "modes": modes,
    "kernels": partial(measured, "h200-kernels", "network | µs per draw", "name:", "us_a_draw:.2f"),
}


def regenerate(text: str) -> str:
    """The text of a document with every marked block as the records have it."""
    return MARKED.sub(lambda block: f"{block[1]}{BLOCKS[block[2]]()}{block[3]}", text)


def stale(documents: Iterable[Path] = DOCUMENTS) -> list[Path]:
    """The documents whose blocks differ from the records."""
    return [path for path in documents if (text := path.read_text(encoding="utf-8")) != regenerate(text)]


def main() -> int:
    """Rewrite or check the blocks."""
    parser = argparse.ArgumentParser(description="Write the numbers of the documents from the committed records.")
    parser.add_argument("--check", action="store_true", help="change nothing; exit with 1 if a block is out of date")
    check, outdated = parser.parse_args().check, stale()
    for path in outdated:
        print(f"{path.relative_to(ROOT)}: {'out of date; run python docs/generate.py' if check else 'rewritten'}")
        if not check:
            path.write_text(regenerate(path.read_text(encoding="utf-8")), encoding="utf-8")
    return int(check and bool(outdated))


if __name__ == "__main__":
    raise SystemExit(main())
