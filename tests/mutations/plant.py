"""Plants soundness bugs in a copy of the tree, one at a time, and runs the tests that should see them.

    python tests/mutations/plant.py                   # all of bugs.yaml, in a copy; writes nothing here
    python tests/mutations/plant.py --only wrong-axis
    python tests/mutations/plant.py --write           # also writes the killers into killers.md

A bug is killed if a test fails with it. A bug that nothing kills ends the command with exit code 1.
"""

import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

import yaml

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
CORE = ("tests/theory", "tests/smoothing", "tests/certification", "tests/statistical")
TIMEOUT = 400  # seconds for one suite; some bugs make a search endless


@dataclass(frozen=True)
class Bug:
    """A change of one place that makes some certificate false."""

    id: str
    file: str
    find: str
    replace: str
    why: str
    blind: bool = False
    tests: tuple[str, ...] = ()
    """The suites that should see it, if they are not those of the core."""

    @property
    def suites(self) -> tuple[str, ...]:
        """The suites to run, that of the bug's own package first."""
        own = f"tests/{self.file.split('/')[2]}"
        return self.tests or tuple(dict.fromkeys((own, *CORE)))

    def plant(self, tree: Path) -> str:
        """Make the change in a tree; returns the file's text without it."""
        path = tree / self.file
        text = path.read_text(encoding="utf-8")
        if text.count(self.find) != 1:
            raise ValueError(f"{self.id}: its text occurs {text.count(self.find)} times in {self.file}, not once")
        path.write_text(text.replace(self.find, self.replace), encoding="utf-8")
        return text


def read_bugs() -> list[Bug]:
    """The bugs of bugs.yaml; blind ones were written by someone who had not read the tests."""
    content = yaml.safe_load((HERE / "bugs.yaml").read_text(encoding="utf-8"))
    return [Bug(**{**raw, "tests": tuple(raw.get("tests", ()))}) for raw in content]


def killer(tree: Path, suites: tuple[str, ...]) -> str:
    """The first test that fails in a tree; empty if all pass."""
    ours = {"PYTHONPATH": str(tree / "src"), "OMP_NUM_THREADS": "1", "PYTHONDONTWRITEBYTECODE": "1"}
    options = ["-x", "-q", "-n", "2", "-m", "not slow and not gpu", "-p", "no:cacheprovider"]
    for suite in suites:
        try:
            ended = subprocess.run(
                [sys.executable, "-m", "pytest", *options, suite],
                cwd=tree, env={**os.environ, **ours}, capture_output=True, text=True, timeout=TIMEOUT, check=False,
            )  # fmt: skip
        except subprocess.TimeoutExpired:
            return f"{suite} does not end"
        failed = re.findall(r"^(?:FAILED|ERROR) (\S+)", ended.stdout, flags=re.MULTILINE)
        if failed:
            return str(failed[0])
        if ended.returncode != 0:
            raise RuntimeError(f"{suite} did not run (exit code {ended.returncode}):\n{ended.stdout[-3000:]}")
    return ""


def main() -> int:
    """Plant every bug, print its killer, and say which ones live."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="+", metavar="ID", help="plant these only")
    parser.add_argument("--write", action="store_true", help="write the killers into killers.md")
    options = parser.parse_args()
    bugs = [bug for bug in read_bugs() if not options.only or bug.id in options.only]
    killers: dict[str, str] = {}
    with tempfile.TemporaryDirectory() as folder:
        tree = Path(folder) / "tree"
        listed = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=True)
        for name in listed.stdout.splitlines():
            (tree / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / name, tree / name)
        for number, bug in enumerate(bugs, start=1):
            began, text = time.monotonic(), bug.plant(tree)
            killers[bug.id] = killer(tree, bug.suites)
            (tree / bug.file).write_text(text, encoding="utf-8")
            said = killers[bug.id] or "LIVES"
            print(f"{number}/{len(bugs)} {bug.id}: {said} ({time.monotonic() - began:.0f} s)", flush=True)
    lives = [name for name, test in killers.items() if not test]
    alive = f"; alive: {', '.join(lives)}" if lives else ""
    print(f"{len(bugs)} bugs planted, {len(bugs) - len(lives)} killed{alive}")
    if options.write:
        rows = [
            f"| {bug.id} | {'yes' if bug.blind else ''} | {bug.why} | `{killers[bug.id].partition('[')[0] or 'none'}` |"
            for bug in bugs
        ]
        head = ["| bug | blind | what becomes false | first test that fails |", "| --- | --- | --- | --- |"]
        (HERE / "killers.md").write_text("\n".join([*head, *rows]) + "\n", encoding="utf-8")
    return int(bool(lives))


if __name__ == "__main__":
    sys.exit(main())
