"""Gather the pages of the documentation site in build/pages, where zensical.toml expects them.

docs/ comes to the top, beside EXPERIMENTS.md and its like. Notebooks become pages. Links between documents are
rewritten to their new places; linked files of the repository are copied; a link to source code becomes plain text.

    python docs/gather.py && zensical build --strict
"""

import json
import os
import re
import shutil
from pathlib import Path, PurePosixPath

ROOT = Path(__file__).resolve().parents[1]
PAGES = ROOT / "build" / "pages"
BESIDE = ("EXPERIMENTS.md", "CONTRIBUTING.md", "CHANGELOG.md", "SECURITY.md")
COPIED = {".md", ".html", ".png", ".svg", ".csv", ".json", ".yaml"}
LINK = re.compile(r"(?<=\]\()(?![a-z]+:|#)([^)\s#]+)([^)\s]*)(?=\))")
WHOLE = re.compile(r"(?<!!)\[([^\]]*)\]\((?![a-z]+:|#)([^)\s#]+)\)")
CODE = re.compile(r"(^```.*?^```|`[^`\n]+`(?!\]\())", flags=re.DOTALL | re.MULTILINE)


def place(path: Path) -> PurePosixPath:
    """Where a file of the repository is on the site."""
    inside = PurePosixPath(path.relative_to(ROOT).as_posix())
    if inside == PurePosixPath("README.md"):
        return PurePosixPath("index.md")
    if inside.suffix == ".ipynb":
        return inside.with_suffix(".md")
    return inside.relative_to("docs") if inside.parts[0] == "docs" else inside


def rewrite(text: str, source: Path, linked: set[Path]) -> str:
    """The text of a document with links that work on the site; linked collects the files that it leads to."""

    def follow(link: re.Match[str]) -> str:
        target = Path(os.path.normpath(source.parent / link[1]))
        if not target.is_file():  # a mistake, which the strict build reports
            return link[0]
        linked.add(target)
        return os.path.relpath(place(target), place(source).parent) + link[2]

    def leads_to_code(link: re.Match[str]) -> bool:
        target = source.parent / link[2]
        return target.is_dir() or (target.is_file() and target.suffix not in COPIED | {".ipynb"})

    parts = CODE.split(text)
    for number in range(0, len(parts), 2):
        parts[number] = WHOLE.sub(lambda link: link[1] if leads_to_code(link) else link[0], parts[number])
        parts[number] = LINK.sub(follow, parts[number])
    return "".join(parts)


def read_notebook(path: Path) -> str:
    """A notebook as Markdown: its cells in order, pictures inline, with the alternative text of the cell's metadata."""
    written = []
    for cell in json.loads(path.read_text(encoding="utf-8"))["cells"]:
        source = "".join(cell["source"])
        if cell["cell_type"] != "code":
            written.append(source)
            continue
        written.append(f"```python\n{source}\n```")
        if printed := "".join("".join(output.get("text", "")) for output in cell["outputs"]):
            written.append(f"```text\n{printed.rstrip()}\n```")
        for picture in (output["data"]["image/png"] for output in cell["outputs"] if "data" in output):
            written.append(f"![{cell['metadata']['alt']}](data:image/png;base64,{''.join(picture.split())})")
    name = path.relative_to(ROOT)
    written.append(f"*This page is `{name}` of the repository: open it in Jupyter and change it.*")
    return "\n\n".join(written) + "\n"


def gather(pages: Path = PAGES) -> None:
    """Write the pages anew."""
    shutil.rmtree(pages, ignore_errors=True)
    documents = {*(ROOT / "docs").rglob("*.md"), *(ROOT / name for name in BESIDE)}
    waiting = documents | {*(ROOT / "notebooks").glob("*.ipynb"), *(ROOT / "docs").glob("*.[cj]s*")}
    done: set[Path] = set()
    while waiting:
        source = waiting.pop()
        done.add(source)
        target = pages / place(source)
        target.parent.mkdir(parents=True, exist_ok=True)
        if source.suffix in {".md", ".ipynb"}:
            text = read_notebook(source) if source.suffix == ".ipynb" else source.read_text(encoding="utf-8")
            linked: set[Path] = set()
            target.write_text(rewrite(text, source, linked), encoding="utf-8")
            waiting |= linked - done - {ROOT / "README.md"}
        else:
            shutil.copyfile(source, target)


if __name__ == "__main__":
    gather()
