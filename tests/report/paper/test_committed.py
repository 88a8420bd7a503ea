"""results/ as it is committed: its tables, figures and page are those of its records."""

import re
from importlib.metadata import version

import pytest

from .conftest import COMMITTED, build_without_torch, check_traceable, files_of

PINNED = dict(re.findall(r"^([\w-]+)==(\S+)$", (COMMITTED.parent / "constraints.txt").read_text(), flags=re.MULTILINE))


def check_equal(rebuilt, *kinds):
    """Every committed file of these kinds is there anew, byte by byte, and no other is."""
    committed, fresh = ({name: path for name, path in files_of(folder).items() if name.startswith(kinds)}
                        for folder in (COMMITTED, rebuilt))  # fmt: skip
    assert fresh.keys() == committed.keys(), "run make results: other files are committed"
    for name in fresh:
        assert committed[name].read_bytes() == fresh[name].read_bytes(), f"run make results: {name} differs"


def test_committed_tables_figures_and_page_are_those_of_the_committed_records(tmp_path):
    check_traceable(COMMITTED, COMMITTED)
    build_without_torch(COMMITTED, tmp_path)  # once for all: it takes seconds
    check_equal(tmp_path, "tables/", "manifest.json")
    other = {name: version(name) for name in ("matplotlib", "pillow") if version(name) != PINNED[name]}
    if other:
        pytest.skip(f"tables are equal; figures and page have the bytes of pinned versions, here are {other}")
    check_equal(tmp_path, "figures/", "index.html")


@pytest.mark.parametrize("path", sorted((COMMITTED / "figures").glob("*.svg")), ids=lambda path: path.name)
def test_a_committed_figure_has_a_name_for_those_who_do_not_see_it(path):
    [title] = re.findall(r"<svg [^>]*>\s*<title>([^<]+)</title>", path.read_text("utf-8"))
    [sigma] = re.findall(r"-s(\d[\d.]*)", path.stem)
    assert f"σ = {sigma}" in title


def test_committed_results_are_small_and_name_no_machine():
    committed = files_of(COMMITTED)
    sizes = {name: path.stat().st_size for name, path in committed.items()}
    weights = {name: size for name, size in sizes.items() if name.endswith("model.safetensors")}
    assert max(weights.values()) < 12e6
    assert sum(sizes.values()) - sum(weights.values()) < 6e6
    for name, path in committed.items():
        if path.suffix in {".json", ".yaml", ".jsonl", ".md", ".csv"}:
            assert not re.search(r"""["'\s]/\w|[A-Z]:\\""", path.read_text("utf-8")), name
