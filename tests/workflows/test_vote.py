"""The plain vote: the selection draws of a certification, on every test image, in pieces."""

import json
import math
import shutil
from contextlib import contextmanager

import numpy as np
import pytest
import torch
from torch import nn

from ars.certification.certifier import Certifier, certify
from ars.data.benchmark import Chosen
from ars.data.digits import DigitsOnPhotographs
from ars.methods.cohen import cohen
from ars.runs.lock import TakenError, locked
from ars.runs.shards import merge
from ars.workflows import vote as voting
from ars.workflows.load import load_run
from ars.workflows.vote import vote_run

from ..conftest import CPU, TINY, contents

SEEN = 12


@pytest.fixture
def run(trained, tmp_path, monkeypatch):
    monkeypatch.setattr(voting, "ON_A_CPU", 500)  # five images of a block each
    monkeypatch.setattr(DigitsOnPhotographs, "size", lambda self, split: SEEN)
    return shutil.copytree(trained, tmp_path / "run")


@pytest.fixture
def model_of(run, monkeypatch):
    """Put another model into the place of the trained one; the benchmark."""
    recipe, benchmark, _ = load_run(run, CPU)

    def put(classifier, sigma=0.5):
        model = cohen(classifier, sigma=sigma).eval()
        monkeypatch.setattr(voting, "load_run", lambda folder, device, **options: (recipe, benchmark, model))
        return model, benchmark

    return put


def vote(folder, **options):
    return vote_run(
        folder, **{"draws": TINY.certify.n_select, "seed": 0, "device": CPU, "precision": "float32", **options}
    )


def stop_after(pieces):
    asked = iter([*(False for _ in range(pieces)), True])
    return lambda: next(asked)


def tally_in(folder, name="vote"):
    """The content of vote.json or vote-begun.json."""
    return json.loads((folder / f"{name}.json").read_text())


def begin(folder):
    """A vote that was stopped after its first piece."""
    with pytest.raises(KeyboardInterrupt):
        vote(folder, stop=stop_after(1))
    return tally_in(folder, "vote-begun")


def test_the_vote_is_the_candidate_of_the_certificate(run, monkeypatch):
    tally = vote(run)
    content = tally_in(run)
    assert (content["images"], content["draws"], content["seed"]) == (SEEN, 20, 0)
    accuracy = content["correct"] / SEEN
    assert content["accuracy"] == tally.accuracy == accuracy
    assert content["standard_error"] == math.sqrt(accuracy * (1 - accuracy) / SEEN)
    assert vote(run, stop=lambda: True).correct == tally.correct  # nothing is left to stop
    records = merge(run / "certify" / "test").records
    monkeypatch.setattr(DigitsOnPhotographs, "size", lambda self, split: len(records))
    (run / "vote.json").unlink()
    assert vote(run).correct == sum(record.certificate.candidate == record.truth for record in records)


def test_the_votes_of_a_classifier_that_noise_decides_are_those_that_choose_the_candidates(run, model_of, monkeypatch):
    """Other draws would have other winners."""
    torch.manual_seed(0)
    undecided, benchmark = model_of(nn.Sequential(nn.Flatten(), nn.Linear(3 * 24 * 24, 10)), sigma=1.0)
    counted, real = [], Certifier.votes

    def votes(certifier, *arguments, **options):
        counted.append(real(certifier, *arguments, **options))
        return counted[-1]

    monkeypatch.setattr(Certifier, "votes", votes)
    images, truth = benchmark.examples("test", range(SEEN))
    made = certify(undecided, images, n_select=20, n_estimate=50, indices=range(SEEN), seed=3)
    tally, votes = vote(run, draws=20, seed=3), np.concatenate(counted)
    assert votes.tolist() == [list(certificate.select_counts) for certificate in made]
    assert votes.argmax(axis=1).tolist() == [certificate.candidate for certificate in made]
    assert tally.correct == sum(one.candidate == label for one, label in zip(made, truth.tolist(), strict=True))
    assert any(np.argmax(certificate.counts) != certificate.candidate for certificate in made)


class Linear(nn.Module):
    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.head = nn.Linear(3 * 24 * 24, 10)

    def forward(self, x):
        return self.head(x.flatten(1))


class InFloat32Alone(Linear):
    def forward(self, x):
        logits = torch.zeros(len(x), 10)
        logits[:, torch.arange(10)] = super().forward(x)
        return logits


class Random(Linear):
    def forward(self, x):
        return super().forward(nn.functional.dropout(x, 0.5))


@pytest.mark.parametrize(("classifier", "words"), [(Random, "random numbers"), (InFloat32Alone, "bfloat16")])
def test_a_model_that_could_not_be_certified_does_not_vote(run, model_of, classifier, words):
    """The checks are those of a certification."""
    model_of(classifier())
    before = contents(run)
    with pytest.raises(ValueError, match=words):
        vote(run, precision="bfloat16" if classifier is InFloat32Alone else "float32")
    assert contents(run) == before


class Later(Linear):
    def __init__(self):
        super().__init__()
        self.seen = 0

    def forward(self, x):
        self.seen += len(x)
        if self.seen > 5_000:
            raise KeyError("later")
        return super().forward(x)


def test_an_error_in_the_users_own_classifier_is_one_sentence(run, model_of):
    model_of(Later())
    with pytest.raises(ValueError, match="own:net failed: KeyError"):
        vote(run, draws=1_000, classifier="own:net")
    with pytest.raises(KeyError):
        vote(run, draws=1_000)


def test_a_vote_counts_in_the_precision_that_was_asked_for(run, model_of):
    model_of(InFloat32Alone())
    assert vote(run).precision == "float32"


def test_an_interrupted_vote_resumes(run):
    whole = vote(run)
    (run / "vote.json").unlink()
    begun = begin(run)
    assert begun["images"] == 5
    (run / "vote-begun.json").write_text(json.dumps({**begun, "seconds": 1000.0}))
    seen = []
    again = vote(run, report=lambda tally, total: seen.append((tally.images, total)))
    assert seen == [(5, SEEN), (10, SEEN), (SEEN, SEEN)]
    assert (again.correct, again.images) == (whole.correct, whole.images)
    assert again.seconds > 1000 > whole.seconds
    assert not (run / "vote-begun.json").exists()


def test_a_folder_that_was_removed_is_not_made_again(run):
    with pytest.raises(TakenError, match="removed meanwhile"):
        vote(run, report=lambda tally, total: tally.images and shutil.rmtree(run))
    assert not run.exists()


def test_what_a_kill_left_beside_a_whole_vote_is_removed(run):
    vote(run, draws=2)
    whole = (run / "vote.json").read_bytes()
    (run / "vote-begun.json").write_bytes(whole)
    vote(run, draws=2)
    assert not (run / "vote-begun.json").exists()
    assert (run / "vote.json").read_bytes() == whole


def test_a_vote_of_other_draws_is_not_written_over(run):
    begin(run)
    with pytest.raises(ValueError, match=r"vote-begun\.json .* 20 draws .* 5 images .* 7 draws"):
        vote(run, draws=7)
    whole = vote(run)
    with pytest.raises(ValueError, match=r"vote\.json .* 20 draws .* 7 draws"):
        vote(run, draws=7)
    with pytest.raises(ValueError, match=r"float32; .* bfloat16"):
        vote(run, precision="bfloat16")
    assert tally_in(run)["draws"] == whole.draws
    (run / "vote.json").rename(run / "elsewhere.json")
    assert vote(run, draws=7).draws == 7


@pytest.mark.parametrize("draws", [0, 10**21])
def test_a_number_of_draws_that_cannot_be_made_is_refused(run, draws):
    with pytest.raises(ValueError, match=f"draws .*got {draws}"):
        vote(run, draws=draws)


def test_a_vote_on_other_images_is_neither_resumed_nor_returned_for_them(run, monkeypatch):
    real = DigitsOnPhotographs.examples

    def mirrored(benchmark, split, indices):
        images, labels = real(benchmark, split, indices)
        return images.flip(-1), labels

    begin(run)
    for kept in ("vote-begun.json", "vote.json"):
        before = (run / kept).read_text()
        with monkeypatch.context() as changed:
            changed.setattr(DigitsOnPhotographs, "examples", mirrored)
            with pytest.raises(ValueError, match=f"{kept} .* other images"):
                vote(run)
        assert (run / kept).read_text() == before
        vote(run)
    monkeypatch.setattr(DigitsOnPhotographs, "size", lambda self, split: SEEN + 1)
    older = {name: value for name, value in tally_in(run).items() if name != "looks"}
    for content in (before, json.dumps(older)):
        (run / "vote.json").write_text(content)
        with pytest.raises(ValueError, match=f"{SEEN} test images, now there are {SEEN + 1}"):
            vote(run)


def test_a_vote_on_the_images_in_another_order_is_not_resumed(run, monkeypatch):
    begun = begin(run)
    assert "order" not in begun
    with monkeypatch.context() as later:
        later.setattr(DigitsOnPhotographs, "chosen", Chosen("", (), "", "classes in turn"))
        with pytest.raises(ValueError, match=r"vote-begun\.json .* another order"):
            vote(run)
        assert tally_in(run, "vote-begun") == begun
        (run / "vote-begun.json").unlink()
        vote(run)
    assert tally_in(run)["order"] == "classes in turn"
    with pytest.raises(ValueError, match=r"vote\.json .* another order"):
        vote(run)


def test_two_votes_do_not_share_a_folder(run):
    """With different draws they would write over each other's; a finished one is read at any time."""
    with locked(run, "vote"):
        with pytest.raises(TakenError, match="another ars vote"):
            vote(run, draws=7)
        assert not list(run.glob("vote*"))
    whole = vote(run)
    with locked(run, "vote"):
        assert vote(run).same_vote(whole)


def test_a_vote_that_another_process_finished_meanwhile_is_not_made_again(run, monkeypatch):
    whole = vote(run)
    kept = (run / "vote.json").read_text()
    (run / "vote.json").unlink()

    @contextmanager
    def late(*_):
        (run / "vote.json").write_text(kept)
        yield

    monkeypatch.setattr(voting, "locked", late)
    assert vote(run).correct == whole.correct
    assert (run / "vote.json").read_text() == kept


def test_a_vote_of_other_weights_is_made_anew(run):
    whole = vote(run)
    other = {**tally_in(run), "model": "0" * 16, "draws": 7}
    (run / "vote.json").write_text(json.dumps(other))
    assert vote(run).correct == whole.correct
    assert tally_in(run)["model"] == whole.model


def test_pieces_of_any_size_count_the_same_votes(run, monkeypatch):
    whole = vote(run)
    monkeypatch.setattr(voting, "ON_A_CPU", 1)
    (run / "vote.json").unlink()
    seen = []
    assert vote(run, report=lambda tally, total: seen.append(tally.images)).correct == whole.correct
    assert seen == list(range(SEEN + 1))
