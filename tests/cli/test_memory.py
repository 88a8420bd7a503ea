import pytest

from ars.cli import main


@pytest.mark.parametrize("command", ["certify", "predict"])
def test_the_memory_of_a_gpu_can_be_limited(command, capsys):
    with pytest.raises(SystemExit):
        main([command, "--help"])
    assert "--memory GIB" in capsys.readouterr().out
