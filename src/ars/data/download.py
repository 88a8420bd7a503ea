"""Downloads that go on where they stopped."""

import shutil
from collections.abc import Callable
from http import HTTPStatus
from pathlib import Path
from urllib.error import HTTPError
from urllib.request import Request, urlopen

BLOCK = 1 << 20
PATIENCE = 30  # seconds without an answer


def fetch(url: str, part: Path, report: Callable[[str], None] = lambda line: None) -> None:
    """Download to part, going on where an earlier try stopped; an OSError leaves what came for the next try."""
    have = part.stat().st_size if part.exists() else 0
    request = Request(url, headers={"Range": f"bytes={have}-"} if have else {})
    try:
        response = urlopen(request, timeout=PATIENCE)
    except HTTPError as error:
        if error.code == HTTPStatus.REQUESTED_RANGE_NOT_SATISFIABLE:
            return  # nothing is left to come; whether it is right, its checksums say
        raise
    with response:
        goes_on = response.status == HTTPStatus.PARTIAL_CONTENT
        start = have if goes_on else 0
        total = start + int(response.headers.get("Content-Length", 0))
        report(f"{url}: {total:,} bytes, {'going on' if goes_on else 'starting'} at {start:,}")
        with part.open("ab" if goes_on else "wb") as file:
            shutil.copyfileobj(response, file, BLOCK)
    if (size := part.stat().st_size) < total:
        raise OSError(f"the connection ended at {size:,} of {total:,} bytes")
