"""What `import ars` offers, and that theory and help never wait for torch."""

import subprocess
import sys

import pytest

import ars


@pytest.mark.parametrize(
    "code",
    [
        "import ars.theory",
        "import ars; dir(ars)",
        "import ars; ars.theory.rs_radius_l2, ars.data.Data, ars.training.TrainSettings",
        "from ars.cli.main import main; main(['--help'])",
        "import ars.workflows.processes",
    ],
)
def test_theory_settings_and_help_leave_torch_unloaded(code):
    check = f"import sys\ntry:\n    {code}\nexcept SystemExit:\n    pass\nassert 'torch' not in sys.modules"
    subprocess.run([sys.executable, "-c", check], check=True, capture_output=True)


def test_public_names_are_all_there():
    for name in ars.__all__:
        assert getattr(ars, name) is not None
    with pytest.raises(AttributeError, match="'magic'"):
        _ = ars.magic


def test_public_packages_are_there_after_importing_ars_alone():
    check = (
        "import ars\nfor package in ('theory', 'training', 'data', 'methods', 'models', 'smoothing'):\n"
        "    assert package in dir(ars)\n    there = getattr(ars, package)\n"
        "    for name in getattr(there, '__all__', ()):\n"
        "        assert name in dir(there) and getattr(there, name) is not None\n"
    )
    subprocess.run([sys.executable, "-c", check], check=True, capture_output=True)
