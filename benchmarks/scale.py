"""What many workers cost: two Ray actors against one, the overhead per shard, and 100,000 records in a report.

    python benchmarks/scale.py speed --out speed.json        two actors on two cores against one, a job of minutes
    python benchmarks/scale.py overhead --out overhead.json  seconds per shard that are not certification, both engines
    python benchmarks/scale.py records --out records.json    merging and reporting 100,000 records

speed and overhead certify the packed digits of Cohen et al. on CPU cores, one thread each, on a cluster of their own,
and need Ray and an otherwise idle machine. Both sides of a ratio alternate in one run. This file must not be called
ray.py, which would hide the package.
"""

import argparse
import gzip
import json
import os
import platform
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
RUN = ROOT / "results" / "digits" / "cohen-s0.75-seed0"
Row = dict[str, Any]


def copy_of_run(folder: str) -> Path:
    return Path(shutil.copytree(RUN, Path(folder) / "run", ignore=shutil.ignore_patterns("certify")))


def certify(run: Path, name: str, draws: int, examples: int, actors: int) -> Row:
    """Certify with so many actors, or without Ray (0); at.seconds begins when the first actor has its model."""
    import torch

    from ars.certification.settings import CertifySettings
    from ars.runs.shards import merge
    from ars.workflows.certify import certify_run
    from ars.workflows.ray import certify_with_ray
    from ars.workflows.request import Progress, Request

    settings = CertifySettings(examples=examples, n_select=100, n_estimate=draws, precision="float32")
    request, seen = Request(run, settings, name=name), list[Progress]()
    began = time.perf_counter()
    if actors:
        from ray.cluster_utils import Cluster

        cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": actors})
        os.environ["RAY_ADDRESS"] = cluster.address
        began = time.perf_counter()
        certify_with_ray(request, device_name="cpu", report=seen.append)
        wall = time.perf_counter() - began
        cluster.shutdown()
    else:
        certify_run(request, device=torch.device("cpu"), report=seen.append)
        wall = time.perf_counter() - began
    records = merge(run / "certify" / name).records
    busy = sum(record.seconds for record in records)
    shards = -(-examples // 10)
    return {"actors": actors, "wall_s": wall, "steady_s": seen[-1].seconds, "certifier_s": busy, "shards": shards}


def speed(options: argparse.Namespace) -> Row:
    """One, two, one, two actors on the same job."""
    with tempfile.TemporaryDirectory() as folder:
        run = copy_of_run(folder)
        rows = [
            certify(run, f"{number}-{actors}", options.draws, 300, actors)
            for number in range(options.repeats)
            for actors in (1, 2)
        ]
    wall = {actors: [row["wall_s"] for row in rows if row["actors"] == actors] for actors in (1, 2)}
    ratio = statistics.median(wall[1]) / statistics.median(wall[2])
    return {"rows": rows, "shortest_job_s": min(wall[1]), "two_actors_are_faster_by": ratio}


def overhead(options: argparse.Namespace) -> Row:
    """What a shard takes beyond the certifier, by engine, from short shards; and Ray's share of a usual shard."""
    from ars.recipes.read import read_recipe

    with tempfile.TemporaryDirectory() as folder:
        run = copy_of_run(folder)
        rows = [
            certify(run, f"{number}-{actors}", 100, 300, actors)
            for number in range(options.repeats)
            for actors in (0, 1)
        ]
    beyond = {
        actors: statistics.median(
            (row["steady_s"] - row["certifier_s"]) / row["shards"] for row in rows if row["actors"] == actors
        )
        for actors in (0, 1)
    }
    usual = read_recipe(RUN / "recipe.yaml").certify
    draws = 300 * 200 * options.repeats  # of one side
    draw = sum(row["certifier_s"] for row in rows if row["actors"] == 1) / draws
    shard = 10 * (usual.n_select + usual.n_estimate) * draw
    return {
        "rows": rows, "local_s_per_shard": beyond[0], "ray_s_per_shard": beyond[1], "default_shard_s": shard,
        "scheduling_share_of_a_default_shard": (beyond[1] - beyond[0]) / shard,
    }  # fmt: skip


def records(options: argparse.Namespace) -> Row:
    """Write the packed records again and again under other indices, then merge and report in a process of their own."""
    from ars.runs.records import Record
    from ars.runs.shards import SETTINGS, Layout, read_manifest, shard_path

    with tempfile.TemporaryDirectory() as folder:
        run = copy_of_run(folder)
        there = run / "certify" / "test"
        there.mkdir(parents=True)
        manifest = read_manifest(RUN / "certify" / "test")
        assert manifest is not None
        layout = Layout(options.records)
        images = (float(options.records), *manifest.images[1:])
        manifest = replace(manifest, layout=layout, images=images, judged=None)
        (there / SETTINGS).write_text(manifest.to_json())
        packed = gzip.decompress((RUN / "certify" / "test" / "records.jsonl.gz").read_bytes()).decode().splitlines()
        made = [replace(Record.from_json(line), subset=layout.name) for line in packed]
        for number in range(layout.shards):
            lines = []
            for index in layout.images(number):
                record = made[index % len(made)]
                lines.append(replace(record, certificate=replace(record.certificate, index=index)).to_json() + "\n")
            shard_path(there, number).write_text("".join(lines))
        line = [sys.executable, __file__, "report", "--run", str(run), "--out", str(Path(folder) / "report")]
        answer = subprocess.run(line, check=True, capture_output=True, text=True).stdout
    return dict(json.loads(answer))


def report(options: argparse.Namespace) -> Row:
    """The measured part of records."""
    from ars.report import write_report
    from ars.runs.shards import merge

    began, cpu = time.perf_counter(), time.process_time()
    count = len(merge(options.run / "certify" / "test").records)
    merged, merged_cpu = time.perf_counter() - began, time.process_time() - cpu
    began, cpu = time.perf_counter(), time.process_time()
    write_report([options.run], options.out)
    return {
        "records": count, "merge_s": merged, "merge_cpu_s": merged_cpu, "report_s": time.perf_counter() - began,
        "report_cpu_s": time.process_time() - cpu,
        "peak_gib": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20,
    }  # fmt: skip


PARTS: dict[str, Callable[[argparse.Namespace], Row]] = {
    "speed": speed, "overhead": overhead, "records": records, "report": report,
}  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("part", choices=PARTS)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--draws", type=int, default=5_000, help="N of speed: one actor must take 2 minutes or more")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--records", type=int, default=100_000)
    parser.add_argument("--run", type=Path)
    options = parser.parse_args()
    os.environ["OMP_NUM_THREADS"] = "1"  # of this process and of every worker: before torch is imported
    result = PARTS[options.part](options)
    if options.part == "report":
        print(json.dumps(result))
        return
    from importlib.metadata import version

    about = {"machine": f"{os.cpu_count()} cores, {platform.machine()}", "torch": version("torch")}
    text = json.dumps({"command": f"scale.py {options.part}", **about, **result}, indent=1)
    options.out.write_text(text + "\n", encoding="utf-8")
    print(text)


if __name__ == "__main__":
    main()
