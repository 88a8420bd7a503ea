import json
from fractions import Fraction

import pytest
from mpmath import mp

from ars.theory import ars_radius_l2, ars_radius_linf


def test_it_prints_what_the_theory_says(printed):
    answer = printed(["radius", "--sigma", "0.7", "0.7", "--masked", "--dim=3072", "--p-plus=0.99", "--json"]).out
    typed = Fraction(99, 100)
    assert json.loads(answer)["radius"] == ars_radius_linf([0.7, 0.7], 3072, typed, 1 - typed)
    assert "abstain" in printed(["radius", "--sigma=0.5", "--dim=3072", "--p-plus=0.4"]).out
    norm = ["radius", "--sigma=0.5", "--dim=3072", "--p-plus=0.99", "--norm=l2"]
    assert printed(norm).out == "radius 1.163173 in l2\n"


def test_a_bound_on_the_runner_up_counts_in_both_norms(printed):
    question = ["radius", "--sigma=0.5", "--dim=3072", "--p-plus=0.6", "--p-minus=0.1", "--json"]
    typed = Fraction(6, 10), Fraction(1, 10)
    assert json.loads(printed(question).out)["radius"] == ars_radius_linf([0.5], 3072, *typed)
    assert json.loads(printed([*question, "--norm=l2"]).out)["radius"] == ars_radius_l2([0.5], *typed)


def test_a_probability_that_was_typed_is_not_rounded_up(printed):
    for typed in ("0.99999999999999985", "0.500000000000000056"):
        answer = printed(["radius", "--sigma=1", "--dim=1", "--norm=l2", f"--p-plus={typed}", "--json"]).out
        with mp.workdps(60):
            exact = mp.sqrt(2) * mp.erfinv(2 * mp.mpf(typed) - 1)
            assert json.loads(answer)["radius"] < exact


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--sigma", "0", "--dim", "3072", "--p-plus", "0.9"], "positive"),
        (["--sigma", "0.5", "--dim", "0", "--p-plus", "0.9"], "dim"),
        (["--sigma", "0.5", "--dim", "3", "--p-plus", "1.0"], "p_plus"),
        (["--sigma", "0.5", "--dim", "3", "--p-plus", "0.9", "--norm", "l2", "--masked"], "'linf'"),
        (["--p-plus=nan"], "must be a probability"),
        (["--p-plus=1/0"], "must be a probability"),
        (["--p-minus=-0.1"], "must be a probability"),
        (["--p-plus=1e-99999999"], "must be a probability"),
    ],
)
def test_a_bad_question_gets_one_sentence(arguments, words, refused):
    assert words in refused(["radius", *arguments])
