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
from collections.abc import Callable, Iterable
from fractions import Fraction
from functools import cache, partial
from itertools import product
from pathlib import Path

from ars.theory.rounding import truncate

ROOT = Path(__file__).resolve().parents[1]
DOCUMENTS = (ROOT / "README.md", ROOT / "EXPERIMENTS.md", *sorted((ROOT / "docs").glob("*.md")))
MARKED = re.compile(r"(<!-- generated: (\S+) -->\n).*?(<!-- end -->)", flags=re.DOTALL)

Row = dict[str, str]
MAIN = {"cohen": "Cohen et al.", "static_mask": "static mask", "adaptive": "ARS"}
METHODS = MAIN | {"unicr": "UniCR", "sukenik": "Súkeník et al."}
CROSS = [("32", "0.5"), ("48", "0.5"), ("96", "0.25"), ("96", "0.5")]
SPEED = {"": ("case", ""), "usual protocol, s per image": ("reference_s", ".2f")}
SPEED |= {"this library, s per image": ("engine_s", ".3f"), "ratio": ("ratio", ".1f")}
BOUNDS = {"of bf16 peak": ("of_peak", ".2f"), "of copy bandwidth": ("of_bandwidth", ".2f")}
BOUNDS |= {"first call, s": ("first_call_s", ".1f"), "peak memory, GB": ("peak_gb", ".1f")}
TRAINING = {"k": ("k", ""), "usual loop, images/s": ("reference_images_a_second", ",")}
TRAINING |= {"this library, images/s": ("images_a_second", ","), "ratio": ("ratio", ".1f")}
TRAINING |= {"s per epoch": ("seconds_an_epoch", ".1f"), "start-up, s": ("start_up_seconds", ".0f")}
EVERY = [("32", "0.5"), ("48", "0.5"), ("64", "0.5"), ("96", "0.25"), ("96", "0.5"), ("96", "1")]


def markdown(headings: Iterable[str], rows: Iterable[Iterable[str]], *, left: int = 1) -> str:
    """A Markdown table whose first `left` columns are words and whose others are numbers."""
    headings = list(headings)
    rule = ["---"] * left + ["---:"] * (len(headings) - left)
    return "".join(f"| {' | '.join(row)} |\n" for row in (headings, rule, *rows))


@cache
def table(name: str) -> list[Row]:
    """The rows of results/tables/NAME.md, each by its headings."""
    lines = (ROOT / f"results/tables/{name}.md").read_text(encoding="utf-8").splitlines()
    headings, _, *rows = ([cell.strip() for cell in line.strip("|").split(" | ")] for line in lines if line[:1] == "|")
    return [dict(zip(headings, row, strict=True)) for row in rows]


def find(name: str, k: str, sigma: str, **more: str) -> Row:
    """The one row of a table with this k, sigma and whatever else is asked for."""
    asked = {"k": k, "σ": sigma} | more
    [row] = [row for row in table(name) if asked.items() <= row.items()]
    return row


def figures(name: str) -> dict:
    """A measurement in benchmarks/figures."""
    return json.loads((ROOT / f"benchmarks/figures/{name}.json").read_text(encoding="utf-8"))


def records(cell: str) -> list[dict]:
    """The records of all packed cells of this name, of any sweep; the name may have wildcards."""
    files = sorted((ROOT / "results").glob(f"*/{cell}/certify/*/*.jsonl.gz"))
    return [json.loads(line) for file in files for line in gzip.open(file, "rt", encoding="utf-8")]


def cell_name(method: str, k: str, sigma: str) -> str:
    """How the cells of a setting are called, up to their seed."""
    return f"{method}-s{sigma}-seed" if k == "24" else f"{method}-k{k}-s{sigma}-seed"


def methods_of(k: str, sigma: str) -> list[str]:
    """The methods that were run in a setting, in the order of METHODS."""
    shown = {row["method"] for row in table("measures") if (row["k"], row["σ"]) == (k, sigma)}
    return [method for method, title in METHODS.items() if title in shown]


def measures(settings: list[tuple[str, str]], radii: Iterable[str], *, paper: Iterable[str] = ()) -> str:
    """What was measured: accuracies in percent, radii in 1/255, the same votes under both bounds."""
    given = [*paper, *(f"≥ {radius}/255" for radius in radii), "average radius (/255)", "abstained"]
    vote, seconds = "vote on the whole test set", "seconds an image"
    rows = []
    for k, sigma in settings:
        for method in methods_of(k, sigma):
            title = METHODS[method]
            known = find("measures", k, sigma, method=title)
            if paper:
                known = find("table-1", k, sigma, method=title) | known
            found = records(cell_name(method, k, sigma) + "*")
            right = sum(record["candidate"] == record["truth"] for record in found)
            bounded = find("measures-class-bounds", k, sigma, method=title)["standard"]
            rows.append([k, sigma, title, known["standard"], *(known[name] for name in given), bounded])
            rows[-1] += [f"{100 * right / len(found):.1f}", known[vote], known[seconds], known["seeds"]]
    headings = ["k", "σ", "method", "standard", *given, "standard, class bounds", "vote on the certified images"]
    return markdown([*headings, vote, "seconds per image", "seeds"], rows, left=3)


def leads(settings: list[tuple[str, str]]) -> str:
    """How far ARS is ahead of every other method."""
    standard, radius, vote = "standard accuracy", "average radius (/255)", "vote on the whole test set"
    rows = []
    for k, sigma in settings:
        for method in methods_of(k, sigma):
            if method != "adaptive":
                pair = {"method": "ARS", "less": METHODS[method]}
                row, bounded = find("leads", k, sigma, **pair), find("leads-class-bounds", k, sigma, **pair)
                rows.append([k, sigma, METHODS[method], row[standard], row["of single seeds"], bounded[standard]])
                rows[-1] += [row[radius], row[vote], row["its single seeds"]]
    headings = ["k", "σ", "ARS minus", "standard", "seed by seed", "standard, class bounds", radius]
    return markdown([*headings, vote, "seed by seed"], rows, left=3)


def summary() -> str:
    """Standard accuracy, ours and the paper's, and the smallest lead in the vote over the two other main methods."""
    rows = []
    for k, sigma in EVERY:
        ours = [find("measures", k, sigma, method=title)["standard"].split()[0] for title in MAIN.values()]
        paper = [find("table-1", k, sigma, method=t)["paper, main table"].split()[0] for t in MAIN.values()]
        over = [find("leads", k, sigma, method="ARS", less=MAIN[name]) for name in ("cohen", "static_mask")]
        least = min((row["vote on the whole test set"] for row in over), key=lambda text: float(text.split()[0]))
        rows.append([k, sigma, *ours, *paper, least, find("measures", k, sigma, method="ARS")["seeds"]])
    headings = [*MAIN.values(), *(f"paper: {title}" for title in MAIN.values()), "ARS' lead in the vote", "seeds"]
    return markdown(["k", "σ", *headings], rows, left=2)


def masks() -> str:
    """Where masks lie and how much noise they leave."""
    names = ["k", "σ", "method", "within the outline (%)", "least to most", "the outline's area (%)", "noise left"]
    return markdown(names, [[row[name] for name in names] for row in table("masks")], left=3)


def times() -> str:
    """What the committed cells took, by setting, and all of them together."""
    rows, total = [], 0.0
    for k, sigma in [("24", "0.75"), *EVERY]:
        files = sorted((ROOT / "results").glob(f"*/{cell_name('*', k, sigma)}*/timing.json"))
        timed = [json.loads(file.read_text(encoding="utf-8")) for file in files]
        train, certify = ([one[f"{work}_seconds"] / 60 for one in timed] for work in ("train", "certify"))
        minutes = sum(value for one in timed for value in one.values()) / 60
        total += 0 if k == "24" else minutes
        spans = [f"{min(part):.1f} to {max(part):.1f}" for part in (train, certify)]
        rows.append([k, sigma, "two CPU cores" if k == "24" else "one H200", str(len(timed)), *spans, f"{minutes:.0f}"])
    headings = ["k", "σ", "machine", "cells", "training, minutes per cell", "certification, minutes per cell"]
    shown = markdown([*headings, "all cells, minutes"], rows, left=3)
    return f"{shown}\nTogether on the H200: {total / 60:.1f} hours.\n"


def rivals() -> str:
    """UniCR and Súkeník et al. minus Cohen et al., seed 0 of each."""
    given = ["standard accuracy", "average radius (/255)", "vote on the whole test set"]
    rows = []
    for (k, sigma), method in product((("64", "0.5"), ("96", "1")), ("unicr", "sukenik")):
        row = find("leads", k, sigma, method=METHODS[method], less="Cohen et al.")
        own, cohens = (records(cell_name(name, k, sigma) + "0") for name in (method, "cohen"))
        largest = [truncate(255 * max(Fraction(record["radius"]) for record in part), 2) for part in (own, cohens)]
        noise = [record["sigmas"][0] for record in own]
        spread = [
            f"{statistics.mean(noise):.2f} ({statistics.pstdev(noise):.2f})",
            f"{min(noise):.3f} to {max(noise):.3f}",
        ]
        rows.append([k, sigma, METHODS[method], *(row[name] for name in given), *largest, *spread])
    more = ["largest radius (/255)", "Cohen et al.'s largest", "noise at the test images", "least to most"]
    return markdown(["k", "σ", "method", *given, *more], rows, left=3)


def readme_digits() -> str:
    """The embedded benchmark, for readers who have just met it."""
    names = ["standard", "≥ 2/255", "≥ 4/255", "≥ 8/255", "average radius (/255)"]
    found = {title: find("measures", "24", "0.75", method=title) for title in MAIN.values()}
    rows = [[title, *(row[name] for name in names)] for title, row in found.items()]
    return markdown(["method", "standard accuracy", *(f"certified {name}" for name in names[1:4]), names[4]], rows)


def readme_cifar() -> str:
    """Standard accuracy on CIFAR-10 on backgrounds: ours, the vote, the paper's."""
    rows = []
    for k, sigma in (("64", "0.5"), ("96", "0.25"), ("96", "0.5"), ("96", "1")):
        for what, name, vote in (("ours", "measures", "vote on the whole test set"), ("paper", "table-1", "")):
            column = "standard" if vote else "paper, main table"
            cells = [find(name, k, sigma, method=title) for title in MAIN.values()]
            shown = [row[column].split()[0] + (f" / {row[vote].split()[0]}" if vote else "") for row in cells]
            rows.append([f"{k}×{k}", sigma, what, *shown, cells[-1]["seeds"] if vote else "–"])
    return markdown(["image", "σ", "", *MAIN.values(), "seeds"], rows, left=3)


def measured(name: str, columns: dict[str, tuple[str, str]]) -> str:
    """Rows of a measurement; a column is its heading with the key of the number and its format."""
    rows = [[format(row[key], spec) for key, spec in columns.values()] for row in figures(name)["rows"]]
    return markdown(columns, rows)


def ceilings() -> str:
    """What the card can do at most, as measured in the same run."""
    flops, moved = (figures("h200-certify")["ceilings"][name] / 1e12 for name in ("flops", "bytes"))
    return f"Measured peak: {flops:.0f} TFLOP/s for 8192×8192 bf16 matrices, {moved:.1f} TB/s for copies.\n"


def modes() -> str:
    """What the modes of certification draw and find, on the same 200 images."""
    usual, shown = 200 * figures("h200-certify")["rows"][1]["reference_s"], figures("h200-modes")["results"]
    rows = []
    for name in ("fixed", "radius, within 1%", "radius, within 5%", "curve, 8 radii to 3/255", "curve, 1/255"):
        row, curve = shown[name], name.startswith("curve")
        speed = [f"{row['seconds']:.1f}", f"{usual / row['seconds']:.0f}", f"{row['draws']:,}"]
        standard = "–" if name == "curve, 1/255" else f"{100 * row['standard_accuracy']:.1f}"
        radius = "–" if curve else truncate(row["average_radius_255"], 2)
        fewer = f"{shown['fixed']['draws'] / row['draws']:.1f}"
        rows.append([name, *speed, fewer, standard, f"{100 * row['certified_at_1_255']:.1f}", radius])
    headings = [
        "mode",
        "seconds",
        "speed-up",
        "draws",
        "fewer by",
        "standard, %",
        "at 1/255, %",
        "average radius (/255)",
    ]
    return markdown(headings, rows)


def compose() -> str:
    """Composing a batch of CIFAR-10 on backgrounds on the GPU."""
    row, step = figures("h200-compose")["results"], 256 / figures("h200-train")["rows"][1]["images_a_second"]
    shares = [f"{1000 * row['seconds_a_batch']:.2f}", f"{100 * row['share_of_a_step']:.2f}%"]
    headings = ["", "composing, ms per batch", "of a step of a plain eager loop", "of a step of `ars train`"]
    name = f"k = {row['k']}, batch {row['batch']}"
    return markdown(headings, [[name, *shares, f"{100 * row['seconds_a_batch'] / step:.1f}%"]])


def sweeps() -> str:
    """Every sweep file: its cells, how many are packed in results/, and the plan's estimate."""
    from ars.experiments.sweeps.file import read_sweep
    from ars.experiments.sweeps.plan import make_plan

    rows = []
    for path in sorted((ROOT / "recipes/sweeps").glob("*.yaml")):
        sweep = read_sweep(path)
        minutes = make_plan(sweep, ROOT / "no-runs").seconds / 60
        packed = len(list((ROOT / "results" / path.stem).glob("*/timing.json")))
        rows.append([f"`{path.name}`", str(len(sweep.cells)), str(packed), f"{minutes:.0f}"])
    return markdown(["file", "cells", "of these in `results/`", "estimated minutes"], rows)


def tables() -> str:
    """Every table of results/ with its title."""
    paths = sorted((ROOT / "results/tables").glob("*.md"))
    titles = [path.read_text(encoding="utf-8").split("\n", 1)[0].lstrip("# ") for path in paths]
    rows = [[f"[`{p.stem}`](../results/tables/{p.name})", title] for p, title in zip(paths, titles, strict=True)]
    return markdown(["table", "what it shows"], rows, left=2)


BLOCKS: dict[str, Callable[[], str]] = {
    "readme-digits": readme_digits,
    "readme-cifar": readme_cifar,
    "readme-speed": partial(measured, "h200-certify", SPEED),
    "summary": summary,
    "digits": partial(measures, [("24", "0.75")], ("2", "4", "8")),
    "digits-leads": partial(leads, [("24", "0.75")]),
    "k64": partial(measures, [("64", "0.5")], ("1", "2", "4"), paper=("paper, main table", "paper, appendix")),
    "k64-leads": partial(leads, [("64", "0.5")]),
    "k96": partial(measures, [("96", "1")], ("1", "2", "4"), paper=("paper, main table",)),
    "k96-leads": partial(leads, [("96", "1")]),
    "cross": partial(measures, CROSS, ("1", "2", "4"), paper=("paper, main table",)),
    "cross-leads": partial(leads, CROSS),
    "rivals": rivals,
    "masks": masks,
    "times": times,
    "sweeps": sweeps,
    "tables": tables,
    "certify-speed": partial(measured, "h200-certify", SPEED | BOUNDS),
    "ceilings": ceilings,
    "train-speed": partial(measured, "h200-train", TRAINING),
    "modes": modes,
    "kernels": partial(measured, "h200-kernels", {"network": ("name", ""), "µs per draw": ("us_a_draw", ".2f")}),
    "compose": compose,
}


def regenerate(text: str) -> str:
    """The text of a document with every marked block as the records have it."""
    return MARKED.sub(lambda block: f"{block[1]}{BLOCKS[block[2]]()}{block[3]}", text)


def stale(documents: Iterable[Path] = DOCUMENTS) -> list[Path]:
    """The documents whose blocks differ from the records."""
    return [path for path in documents if (text := path.read_text(encoding="utf-8")) != regenerate(text)]


def main() -> int:
    """Rewrite or check the blocks."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true", help="change nothing; exit with 1 if a block is out of date")
    check = parser.parse_args().check
    outdated = stale()
    for path in outdated:
        print(f"{path.relative_to(ROOT)}: {'out of date; run python docs/generate.py' if check else 'rewritten'}")
        if not check:
            path.write_text(regenerate(path.read_text(encoding="utf-8")), encoding="utf-8")
    return int(check and bool(outdated))


if __name__ == "__main__":
    raise SystemExit(main())
