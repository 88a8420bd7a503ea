import shutil
import sys
from multiprocessing import get_context
from pathlib import Path

import pytest


@pytest.fixture
def run(trained, tmp_path):
    """A copy of the trained run without records."""
    return shutil.copytree(trained, tmp_path / "run", ignore=shutil.ignore_patterns("certify"))


@pytest.fixture
def own_code(tmp_path, monkeypatch):
    """Write a module of the user's into the current folder; it is imported anew whenever it was written."""
    written = []

    def write(name, text):
        Path(f"{name}.py").write_text(text)
        sys.modules.pop(name, None)
        written.append(name)

    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    monkeypatch.setattr(sys, "dont_write_bytecode", True)  # which a text of the same second and length would get
    yield write
    for name in written:
        sys.modules.pop(name, None)


@pytest.fixture(scope="session")
def processes():
    """Processes that start at once: they are forked from a server that has loaded torch."""
    context = get_context("forkserver")
    context.set_forkserver_preload(["ars.workflows.certify"])
    return context


@pytest.fixture
def killed(processes, monkeypatch):
    """Do work in a process of its own that dies at a moment of a write; its exit code."""
    monkeypatch.syspath_prepend(str(Path(__file__).parent))
    import killed_process

    def start(call, moment, work, *arguments, **options):
        process = processes.Process(
            target=killed_process.work_and_die, args=(call, moment, work, *arguments), kwargs=options
        )
        process.start()
        process.join()
        return process.exitcode

    return start
