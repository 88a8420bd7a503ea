"""Errors in the user's code become one sentence with their line; errors in ours are not hidden."""

import sys

import pytest
import torch

from ars.cli.main import main
from ars.recipes.user_code import explain_errors

CODE = """
import torch
import ars

torch.manual_seed(0)
net = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(3 * 24 * 24, 10))
ONE = torch.ones(1, 1, 1, 1)


class Step(ars.Step):
    sigma = 0.5

    def release(self, x, past, generator):
        return ars.Release(x + 0.5 * ars.normal_like(x, generator), weight=ONE, std=0.5 * ONE)

    def guarantee(self, ball):
        return ars.theory.Gaussian(ball.l2_radius / 0.5)


class Number(Step):
    def guarantee(self, ball):
        return 0.5


class Misspelt(Step):
    def guarantee(self, ball):
        return ars.theory.Gaussian(ball.radios)


class Bare(Step):
    def release(self, x, past, generator):
        return x + ars.normal_like(x, generator)


class Floats(Step):
    def release(self, x, past, generator):
        return ars.Release(x + 0.5 * ars.normal_like(x, generator), 1.0, 0.5)


class Torchs(Step):
    def release(self, x, past, generator):
        return ars.Release(x + 0.5 * torch.randn(x.shape, generator=generator), weight=ONE, std=0.5 * ONE)


class Text(Step):
    sigma = "x"


class Later(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.net, self.seen = net, 0

    def forward(self, x):
        self.seen += len(x)
        if self.seen > 5000:
            raise KeyError("later")
        return self.net(x)


number, misspelt, bare, floats, torchs, text = (
    ars.SmoothedClassifier(ars.compose(step()), ars.last, net)
    for step in (Number, Misspelt, Bare, Floats, Torchs, Text)
)
later = ars.cohen(Later(), sigma=0.5)
"""


def line_of(text):
    return CODE.splitlines().index(text) + 1


@pytest.mark.parametrize(
    ("name", "words", "line"),
    [
        ("number", "ars.theory.Gaussian(mu), got float", ""),
        ("misspelt", "has no attribute", "        return ars.theory.Gaussian(ball.radios)"),
        ("bare", "Bare.release must return ars.Release", ""),
        ("floats", "Floats.release must return ars.Release", ""),
        ("torchs", "ars.normal_like or ars.draw_like", ""),
        ("text", "TypeError", ""),
        ("later", "KeyError: 'later'", '            raise KeyError("later")'),
    ],
)
def test_a_mistake_in_the_users_own_model_is_one_sentence(name, words, line, tmp_path, capsys, monkeypatch):
    (tmp_path / "own_code.py").write_text(CODE)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.delitem(sys.modules, "own_code", raising=False)
    few = ["--examples=2", "--n-select=100", "--n-estimate=20000", "--precision=float32", "--device=cpu"]
    assert main(["certify", f"--model=own_code:{name}", "--data=digits", "--out=run", *few]) == 2
    [said] = [line for line in capsys.readouterr().err.splitlines() if line.startswith("ars: ")]
    assert words in said
    assert said.startswith(f"ars: own_code:{name} ")
    if line:
        assert f"(own_code.py, line {line_of(line)})" in said.replace(f"{tmp_path}/", "")


def test_errors_of_ours_sentences_and_lack_of_memory_pass_unchanged():
    with pytest.raises(KeyError), explain_errors(None):
        raise KeyError("ours")
    with pytest.raises(ValueError, match=r"^a sentence$"), explain_errors("own:net"):
        raise ValueError("a sentence")
    with pytest.raises(torch.OutOfMemoryError), explain_errors("own:net"):
        raise torch.OutOfMemoryError("full")
    with pytest.raises(KeyboardInterrupt), explain_errors("own:net"):
        raise KeyboardInterrupt
