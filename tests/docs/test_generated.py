"""The numbers in the documents are those of the committed records."""

import re
import runpy
from pathlib import Path

ROOT = Path(__file__).parents[2]


def test_every_generated_block_is_what_the_records_give(tmp_path):
    script = runpy.run_path(str(ROOT / "docs" / "generate.py"))
    marked = [name for path in script["DOCUMENTS"] for _, name, _ in script["MARKED"].findall(path.read_text("utf-8"))]
    assert set(marked) == set(script["BLOCKS"])
    assert script["stale"]() == []
    changed = tmp_path / "changed.md"  # and a digit that differs is noticed
    text = (ROOT / "EXPERIMENTS.md").read_text("utf-8")
    changed.write_text(re.sub(r"(<!-- generated: summary -->.*?)\d\.\d", r"\g<1>x", text, flags=re.DOTALL), "utf-8")
    assert script["stale"]([changed]) == [changed]
