"""Whether kernels can be compiled here."""

import os
import shutil
from importlib.util import find_spec


def can_compile() -> bool:
    """Whether Triton is here and will find the C compiler that it makes its launchers with; on Windows it brings one.

    Without either, networks run as torch runs them: slower, and their certificates hold as well.
    """
    if not find_spec("triton"):
        return False
    return os.name == "nt" or bool(os.environ.get("CC") or shutil.which("gcc") or shutil.which("clang"))
