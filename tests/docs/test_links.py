"""Links between documents lead somewhere."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGES = [*sorted(ROOT.glob("*.md")), *sorted((ROOT / "docs").rglob("*.md")), *sorted(ROOT.glob("notebooks/*.ipynb"))]
LINKS = [
    (page, link)
    for page in PAGES
    for link in sorted(set(re.findall(r"\]\((?!https?:)([^)\s]+)\)", page.read_text(encoding="utf-8"))))
]


def anchors(page):
    """The anchors of a page's headings, as GitHub makes them."""
    headings = re.findall(r"^#+ (.*)$", page.read_text(encoding="utf-8"), flags=re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize(("page", "link"), LINKS, ids=[f"{page.name}: {link}" for page, link in LINKS])
def test_a_link_leads_to_a_file_and_a_heading(page, link):
    path, _, anchor = link.partition("#")
    target = page.parent / path if path else page
    assert target.exists()
    assert not anchor or anchor in anchors(target)


def test_there_are_links():
    assert len(LINKS) > 60
