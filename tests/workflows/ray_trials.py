"""Faults on purpose, on this machine: nodes of a simulated Ray cluster come and go, drivers and workers are killed.

    python tests/workflows/ray_trials.py nodes --out DIR --images 10000 --events 20
    python tests/workflows/ray_trials.py kills --out DIR --images 1000 --events 50

The images are digits on photographs in a folder, the model is the packed one of Cohen et al. Each trial compares all
records with those of an undisturbed local run, which it makes first. Everything is kept in DIR, so the same command
resumes a trial that was interrupted.
"""

import argparse
import dataclasses
import json
import os
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from ars.runs.records import Record, read_records
from ars.runs.shards import merge

RUN = Path(__file__).parents[2] / "results" / "digits" / "cohen-s0.75-seed0"
MODEL = f"import ars\n\n\ndef model():\n    return ars.load({str(RUN)!r})\n"


def prepare(out: Path, images: int) -> None:
    """Write the model and a folder of so many digits on photographs, unless they are there."""
    from PIL import Image

    from ars.data.digits import DigitsOnPhotographs

    out.mkdir(parents=True, exist_ok=True)
    (out / "trial_model.py").write_text(MODEL)
    folder = out / f"digits-{images}"
    if (folder / "complete").exists():
        return
    pictures, labels = next(DigitsOnPhotographs().train_batches(0, seed=0, batch_size=images))
    for number, (picture, label) in enumerate(zip(pictures, labels.tolist(), strict=True)):
        path = folder / "test" / str(label) / f"{number:05d}.png"
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray((picture.permute(1, 2, 0) * 255).round().byte().numpy()).save(path)
    (folder / "complete").touch()


def command(run: str, images: int, *more: str) -> list[str]:
    return [
        sys.executable, "-m", "ars.cli", "certify", "--model=trial_model:model", f"--data=folder:digits-{images}",
        "--data.size=24", f"--out={run}", f"--examples={images}", "--n-select=100", "--n-estimate=100",
        "--precision=float32", "--device=cpu", *more,
    ]  # fmt: skip


def alone(out: Path, images: int) -> str:
    """The folder of the undisturbed run."""
    run = f"alone-{images}"
    subprocess.run(command(run, images), cwd=out, check=True, stdout=subprocess.DEVNULL)
    return run


def records(run: Path) -> list[Record]:
    """All records of a complete run without their times; each image must be there once."""
    folder = run / "certify" / "test"
    merged = merge(folder).records
    written = [record.certificate.index for path in folder.glob("*.jsonl") for record in read_records(path)]
    assert Counter(written) == Counter(record.certificate.index for record in merged)
    assert max(Counter(written).values()) == 1
    return [dataclasses.replace(record, seconds=0.0) for record in merged]


class Log:
    """The faults so far, kept in a file."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.events: list[str] = json.loads(path.read_text()) if path.exists() else []

    def add(self, event: str) -> None:
        self.events.append(event)
        self.path.write_text(json.dumps(self.events))
        print(f"{len(self.events)}: {event}", flush=True)


def nodes_come_and_go(out: Path, *, images: int, events: int, seconds: float, seed: int) -> dict[str, object]:
    """Certify on a head and two nodes, of one core each; every few seconds a node is killed or another one joins."""
    import ray  # before the cluster sets its handlers
    from ray.cluster_utils import Cluster

    prepare(out, images)
    expected = records(out / alone(out, images))
    log, chance = Log(out / f"nodes-{images}.json"), random.Random(seed)
    cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 1})
    extra = [cluster.add_node(num_cpus=1) for _ in range(2)]
    run = f"nodes-{images}"
    process = subprocess.Popen(
        command(run, images, "--engine=ray"), cwd=out, env={**os.environ, "RAY_ADDRESS": cluster.address}
    )
    try:
        while len(log.events) < events and process.poll() is None:
            with suppress(subprocess.TimeoutExpired):
                process.wait(chance.uniform(0.5, 1.5) * seconds)
                break
            if extra and (len(extra) > 2 or chance.random() < 0.5):
                cluster.remove_node(extra.pop(chance.randrange(len(extra))), allow_graceful=False)
                log.add(f"removed a node, {1 + len(extra)} left")
            else:
                extra.append(cluster.add_node(num_cpus=1))
                log.add(f"added a node, {1 + len(extra)} there")
        code = process.wait()
    finally:
        process.kill()
        ray.shutdown()
        cluster.shutdown()
    assert code == 0
    return {"images": images, "events": dict(Counter(event.split(",")[0] for event in log.events)),
            "equal": records(out / run) == expected}  # fmt: skip


def drivers_and_workers_are_killed(
    out: Path, *, images: int, events: int, seconds: float, seed: int
) -> dict[str, object]:
    """SIGKILL the driver or a worker at random moments, start again, and compare every run that was completed."""
    prepare(out, images)
    expected = records(out / alone(out, images))
    log, chance, equal, round_ = Log(out / f"kills-{images}.json"), random.Random(seed), [], 0
    while len(log.events) < events or not equal or (out / f"kills-{images}-{round_}").exists():
        run = f"kills-{images}-{round_}"
        line, alone_here = command(run, images, "--engine=ray"), {**os.environ, "RAY_ADDRESS": "local"}
        process = subprocess.Popen(line, cwd=out, env=alone_here, stdout=subprocess.DEVNULL)
        while process.poll() is None:
            if len(log.events) < events:
                if chance.random() < 0.75:  # else at any moment of the start
                    wait_for_a_shard(process, out / run)
                with suppress(subprocess.TimeoutExpired):
                    process.wait(chance.uniform(0, 2) * seconds)
            else:
                process.wait()
            if process.poll() is not None:
                break
            workers = [pid for pid, name in descendants(process.pid) if name.startswith("ray::Worker")]
            if workers and chance.random() < 0.6:
                with suppress(ProcessLookupError):  # it has just ended
                    os.kill(chance.choice(workers), signal.SIGKILL)
                    log.add(f"killed a worker of {run}")
            else:
                process.kill()
                log.add(f"killed the driver of {run}")
        if process.wait() == 0:
            equal.append(records(out / run) == expected)
            round_ += 1
        else:
            assert process.returncode == -signal.SIGKILL, process.returncode
    kinds = Counter(" ".join(event.split()[:3]) for event in log.events)
    return {"images": images, "events": dict(kinds), "complete_runs": len(equal), "equal": all(equal)}


def wait_for_a_shard(process: subprocess.Popen[bytes], run: Path) -> None:
    """Wait until another shard is there, or the process has ended."""
    before = len(list(run.glob("certify/test/*.jsonl")))
    while process.poll() is None and len(list(run.glob("certify/test/*.jsonl"))) <= before:
        time.sleep(0.2)


def descendants(pid: int) -> Iterator[tuple[int, str]]:
    """The processes below this one, and their names."""
    children: dict[int, list[int]] = {}
    for path in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):
            parent = int(path.read_text().rpartition(")")[2].split()[1])
            children.setdefault(parent, []).append(int(path.parent.name))
    left = children.get(pid, [])
    while left:
        child = left.pop()
        left += children.get(child, [])
        with suppress(OSError):
            yield child, (Path("/proc") / str(child) / "cmdline").read_bytes().decode(errors="replace")


TRIALS = {"nodes": nodes_come_and_go, "kills": drivers_and_workers_are_killed}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("trial", choices=TRIALS)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--images", type=int, default=10_000)
    parser.add_argument("--events", type=int, default=20)
    parser.add_argument("--seconds", type=float, default=12.0, help="between two faults, on average")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    began = time.monotonic()
    result = TRIALS[options.trial](
        options.out.resolve(), images=options.images, events=options.events, seconds=options.seconds, seed=options.seed
    )
    print(json.dumps({"trial": options.trial, **result, "minutes": round((time.monotonic() - began) / 60, 1)}))
    sys.exit(not result["equal"])


if __name__ == "__main__":
    main()
