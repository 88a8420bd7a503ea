import pytest

from ars.cli import main


@pytest.mark.parametrize("command", [["certify", "RUN"], ["predict", "RUN", "x.png"], ["vote", "RUN"]])
def test_the_memory_that_a_command_may_take_is_set_before_anything_is_loaded(command, tmp_path, monkeypatch, capsys):
    seen = []
    (tmp_path / "recipe.yaml").write_text("sigma: 0.5")
    arguments = [str(tmp_path) if word == "RUN" else word for word in command]
    assert main([*arguments, "--memory", "1.5", "--device", "cpu"]) == 2
    assert "a memory limit needs a CUDA device, got cpu" in capsys.readouterr().err
    monkeypatch.setattr("ars.certification.memory.limit_memory", lambda device, gib: seen.append((str(device), gib)))
    assert main([*arguments, "--memory", "1.5", "--device", "cpu"]) == 2  # there is no model
    assert "model.safetensors" in capsys.readouterr().err
    assert seen == [("cpu", 1.5)]
