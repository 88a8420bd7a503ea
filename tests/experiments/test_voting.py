"""The plain vote: the selection draws of a certification, on every test image, in pieces."""

import json
import math
import shutil
from contextlib import contextmanager

import numpy as np
import pytest
import torch
from torch import nn

from ars.certification.procedure import certify
from ars.certification.sampling import local_votes
from ars.certification.shards import merge
from ars.data.benchmark import Chosen
from ars.data.digits import DigitsOnPhotographs
from ars.experiments import voting
from ars.experiments.alone import TakenError, alone_in
from ars.experiments.run import load_run
from ars.experiments.voting import vote_run
from ars.methods import cohen

from .conftest import CPU, TINY

SEEN = 12


@pytest.fixture
def run(trained, tmp_path, monkeypatch):
    monkeypatch.setattr(voting, "ON_A_CPU", 500)  # five images of a block each
    monkeypatch.setattr(DigitsOnPhotographs, "size", lambda self, split: SEEN)
    return shutil.copytree(trained, tmp_path / "run")


def vote(folder, **options):
    return vote_run(
        folder, **{"draws": TINY.certify.n_select, "seed": 0, "device": CPU, "precision": "float32", **options}
    )


def test_the_vote_is_the_candidate_of_the_certificate(run):
    tally = vote(run)
    content = json.loads((run / "vote.json").read_text())
    assert (content["images"], content["draws"], content["seed"]) == (SEEN, 20, 0)
    accuracy = content["correct"] / SEEN
    assert content["accuracy"] == tally.accuracy == accuracy
    assert content["standard_error"] == math.sqrt(accuracy * (1 - accuracy) / SEEN)
    records = merge(run / "certify" / "test").records
    right = sum(record.certificate.candidate == record.truth for record in records)
    assert vote(run, stop=lambda: True).correct == tally.correct  # nothing is left to stop
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(DigitsOnPhotographs, "size", lambda self, split: len(records))
        (run / "vote.json").unlink()
        assert vote(run).correct == right


def test_the_votes_of_a_classifier_that_noise_decides_are_those_that_choose_the_candidates(run, monkeypatch):
    """Other draws would have other winners."""
    recipe, benchmark, _ = load_run(run, CPU)
    torch.manual_seed(0)
    undecided = cohen(nn.Sequential(nn.Flatten(), nn.Linear(3 * 24 * 24, 10)), sigma=1.0).eval()
    counted = []

    def watched(*given, **how):
        counted.append(local_votes(*given, **how))
        return counted[-1]

    monkeypatch.setattr(voting, "load_run", lambda folder, device, **options: (recipe, benchmark, undecided))
    monkeypatch.setattr(voting, "local_votes", watched)
    images, truth = benchmark.examples("test", range(SEEN))
    how = {"n_estimate": 50, "indices": range(SEEN), "seed": 3, "precision": "float32"}
    made = certify(undecided, images, n_select=20, **how)
    tally, votes = vote(run, draws=20, seed=3), np.concatenate(counted)
    assert votes.tolist() == [list(it.select_counts) for it in made]
    assert votes.argmax(axis=1).tolist() == [it.candidate for it in made]
    assert tally.correct == sum(it.candidate == label for it, label in zip(made, truth.tolist(), strict=True))
    assert any(np.argmax(it.counts) != it.candidate for it in made)


class InFloat32Alone(nn.Module):
    def __init__(self):
        super().__init__()
        self.head = nn.Linear(3 * 24 * 24, 10)

    def forward(self, x):
        logits = torch.zeros(len(x), 10)
        logits[:, torch.arange(10)] = self.head(x.flatten(1))
        return logits


def test_a_model_that_cannot_be_asked_in_the_precision_is_told_so_before_it_votes(run, monkeypatch):
    recipe, benchmark, _ = load_run(run, CPU)
    model = cohen(InFloat32Alone(), sigma=0.5).eval()
    monkeypatch.setattr(voting, "load_run", lambda folder, device, **options: (recipe, benchmark, model))
    before = sorted(run.iterdir())
    with pytest.raises(ValueError, match=r"answers in float32 but not in bfloat16 .*; ask for float32 \(--precision"):
        vote(run, precision="bfloat16")
    assert sorted(run.iterdir()) == before
    assert vote(run).images == SEEN


def test_an_interrupted_vote_goes_on(run):
    whole = vote(run)
    (run / "vote.json").unlink()
    asked = []

    def stop():
        asked.append(1)
        return len(asked) == 3

    with pytest.raises(KeyboardInterrupt):
        vote(run, stop=stop)
    begun = json.loads((run / "vote-begun.json").read_text())
    assert begun["images"] == 10
    (run / "vote-begun.json").write_text(json.dumps({**begun, "seconds": 1000.0}))
    seen = []
    again = vote(run, report=lambda tally, total: seen.append((tally.images, total)))
    assert seen == [(10, SEEN), (SEEN, SEEN)]
    assert (again.correct, again.images) == (whole.correct, whole.images)
    assert again.seconds > 1000 > whole.seconds
    assert not (run / "vote-begun.json").exists()


def test_what_a_kill_left_beside_a_whole_vote_is_removed(run):
    vote_run(run, draws=2, seed=0, precision="float32", device=CPU)
    whole = (run / "vote.json").read_bytes()
    (run / "vote-begun.json").write_bytes(whole)
    vote_run(run, draws=2, seed=0, precision="float32", device=CPU)
    assert not (run / "vote-begun.json").exists()
    assert (run / "vote.json").read_bytes() == whole


def test_a_finished_vote_of_other_draws_is_not_written_over(run):
    whole = vote(run)
    with pytest.raises(ValueError, match=r"vote\.json is a vote of .* draws .*; move it away to vote with 7 draws"):
        vote(run, draws=7)
    with pytest.raises(ValueError, match=r"seed 0 in float32; move it away to vote with 20 draws .* in bfloat16"):
        vote(run, precision="bfloat16")
    assert json.loads((run / "vote.json").read_text())["draws"] == whole.draws
    (run / "vote.json").rename(run / "elsewhere.json")
    assert vote(run, draws=7).draws == 7
    with pytest.raises(ValueError, match="draws must be a whole number of at least 1, got 0"):
        vote(run, draws=0)
    with pytest.raises(ValueError, match="draws must be at most 214748364800, got 1000000000000000000000"):
        vote(run, draws=10**21)


def test_a_vote_on_other_images_is_neither_gone_on_with_nor_given_for_theirs(run, monkeypatch):
    real = DigitsOnPhotographs.examples
    stops = iter([False, True])
    with pytest.raises(KeyboardInterrupt):
        vote(run, stop=lambda: next(stops))

    def mirrored(benchmark, split, indices):
        images, labels = real(benchmark, split, indices)
        return images.flip(-1), labels

    for kept in ("vote-begun.json", "vote.json"):
        before = (run / kept).read_text()
        with monkeypatch.context() as changed:
            changed.setattr(DigitsOnPhotographs, "examples", mirrored)
            with pytest.raises(
                ValueError, match=rf"{kept} is a vote on other images: of {SEEN} some have changed; move"
            ):
                vote(run)
        assert (run / kept).read_text() == before
        vote(run)
    monkeypatch.setattr(DigitsOnPhotographs, "size", lambda self, split: SEEN + 1)
    older = {name: value for name, value in json.loads((run / "vote.json").read_text()).items() if name != "looks"}
    for content in (before, json.dumps(older)):
        (run / "vote.json").write_text(content)
        with pytest.raises(ValueError, match=f"there were {SEEN} test images, now there are {SEEN + 1}"):
            vote(run)


def test_a_vote_on_the_images_in_another_order_is_not_gone_on_with(run, monkeypatch):
    stops = iter([False, True])
    with pytest.raises(KeyboardInterrupt):
        vote(run, stop=lambda: next(stops))
    begun = (run / "vote-begun.json").read_text()
    assert "order" not in json.loads(begun)
    with monkeypatch.context() as later:
        later.setattr(DigitsOnPhotographs, "chosen", Chosen("", (), "", "classes in turn"))
        with pytest.raises(
            ValueError, match=r"vote-begun\.json is a vote on the test images in another order, .* move it"
        ):
            vote(run)
        assert (run / "vote-begun.json").read_text() == begun
        (run / "vote-begun.json").unlink()
        vote(run)
    assert json.loads((run / "vote.json").read_text())["order"] == "classes in turn"
    with pytest.raises(ValueError, match=r"vote\.json is a vote on the test images in another order, .* move it"):
        vote(run)


def test_two_votes_do_not_share_a_folder(run):
    """Of different draws, they would write over each other's; a finished one is read at any time."""
    with alone_in(run, "vote"):
        with pytest.raises(TakenError, match=r"another ars vote works in .*run; wait until it ends$"):
            vote(run, draws=7)
        assert not list(run.glob("vote*"))
    whole = vote(run)
    with alone_in(run, "vote"):
        assert vote(run).same_vote(whole)


def test_a_vote_that_another_process_finished_meanwhile_is_not_made_again(run, monkeypatch):
    whole = vote(run)
    kept = (run / "vote.json").read_text()
    (run / "vote.json").unlink()

    @contextmanager
    def late(*_):
        (run / "vote.json").write_text(kept)
        yield

    monkeypatch.setattr(voting, "alone_in", late)
    assert vote(run).correct == whole.correct
    assert (run / "vote.json").read_text() == kept


def test_a_vote_of_other_weights_is_made_anew(run):
    whole = vote(run)
    other = {**json.loads((run / "vote.json").read_text()), "model": "0" * 16, "draws": 7}
    (run / "vote.json").write_text(json.dumps(other))
    assert vote(run).correct == whole.correct
    assert json.loads((run / "vote.json").read_text())["model"] == whole.model


@pytest.mark.parametrize("draws", [1, 100, 101, 1000, 100_000])
def test_a_piece_is_bounded_by_its_draws_and_a_gpu_gets_a_larger_one(draws):
    made = -(-draws // 100) * 100
    for device, most in (("cpu", 1_000), ("cuda", 20_000)):
        images = voting.images_at_once(draws, torch.device(device))
        assert images == 1 or images * made <= most < (images + 1) * made


def test_pieces_of_any_size_count_the_same_votes(run, monkeypatch):
    whole = vote(run)
    monkeypatch.setattr(voting, "ON_A_CPU", 1)
    (run / "vote.json").unlink()
    seen = []
    assert vote(run, report=lambda tally, total: seen.append(tally.images)).correct == whole.correct
    assert seen == list(range(SEEN + 1))
