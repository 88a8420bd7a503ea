"""What the playground computes, without gradio; votes and radii are compared with the library's certificates."""

import math

import numpy as np
import pytest
import torch
from PIL import Image

from ars.certification.certifier import Certifier
from ars.data.settings import DataError
from ars.play import session
from ars.play.session import Count, attack, count_votes, one_draw, open_player, read_example, settings_for
from ars.theory import certified_radius


@pytest.fixture(scope="module")
def cohen():
    return open_player("digits-cohen")


@pytest.fixture(scope="module")
def shown():
    return session.examples()


def test_a_player_has_the_trained_weights_and_the_noise_that_was_asked_for():
    plain, noisy = open_player("digits"), open_player("digits", sigma=0.5, share=0.2)
    assert plain.trained == noisy.trained == (0.75, 0.5)
    first, second = noisy.model.mechanism.sigmas
    assert first == pytest.approx(0.5 / math.sqrt(0.2))
    assert 1 / first**2 + 1 / second**2 == pytest.approx(1 / 0.5**2)
    weights = noisy.model.state_dict()
    assert all(torch.equal(tensor, weights[name]) for name, tensor in plain.model.state_dict().items())
    assert open_player("digits-cohen", sigma=0.3, share=0.2).model.mechanism.sigmas == (0.3,)


@pytest.mark.parametrize(("given", "word"), [
    ({"name": "../digits"}, "digits-cohen"), ({"sigma": 0.0}, "sigma"), ({"share": 1.0}, "share"),
])  # fmt: skip
def test_what_no_guarantee_covers_is_refused(given, word):
    with pytest.raises(ValueError, match=word):
        open_player(**{"name": "digits", **given})


def test_there_is_an_example_of_every_class(shown):
    assert [example.truth for example in shown] == list(range(10))
    assert all(example.image.shape == (3, 24, 24) for example in shown)


def test_a_file_is_fitted_and_the_page_says_how(tmp_path):
    for size, words in (((24, 24), "a.png"), ((48, 48), "resized to 24×24"), ((60, 48), "resized and cropped")):
        Image.new("RGB", size, "red").save(tmp_path / "a.png")
        example = read_example(tmp_path / "a.png", 24)
        assert example.image.shape == (3, 24, 24)
        assert words in example.about
        assert example.truth is None


def test_a_file_that_is_no_image_is_named_without_its_folder(tmp_path):
    (tmp_path / "a.png").write_text("no image")
    with pytest.raises(DataError, match=r"^a\.png cannot be read"):
        read_example(tmp_path / "a.png", 24)


def test_a_draw_has_the_stages_of_its_method(shown, cohen):
    image = shown[7].image
    labels = [row.label for row in one_draw(open_player("digits"), image, seed=0)]
    assert labels == ["input X", "m₁", "mask w₂", "w₂ · X", "m₂", "average"]
    assert [row.label for row in one_draw(cohen, image, seed=0)] == ["input X", "m₁"]
    draws = [one_draw(cohen, image, seed=seed)[1].images for seed in (0, 0, 1)]
    assert np.array_equal(draws[0], draws[1])
    assert not np.array_equal(draws[0], draws[2])


def test_the_radii_end_where_unanimous_votes_end(cohen):
    settings = settings_for(cohen, seed=0, draws=500, alpha=0.05)
    p = (0.05 / 2) ** (1 / 500)  # Clopper and Pearson's bound if all votes agree
    most = certified_radius(cohen.model.guarantee, p, 1 - p, norm="linf", dim=3 * 24 * 24)
    assert settings.mode == "curve"
    assert settings.radii == tuple(number / 510 for number in range(1, len(settings.radii) + 1))
    assert settings.radii[-1] <= most < settings.radii[-1] + 1 / 510


def test_too_few_draws_for_any_radius_are_refused(cohen):
    with pytest.raises(ValueError, match="more draws"):
        settings_for(cohen, seed=0, draws=2, alpha=0.05)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["digits", "digits-cohen"])
def test_the_last_count_is_the_certificate_and_no_earlier_one_claims_more(name, shown):
    """Radii only grow while votes come in, so stopping anywhere claims no more than the certificate."""
    player = open_player(name)
    settings = settings_for(player, seed=3, draws=400, alpha=0.05)
    counts = list(count_votes(player, shown[7].image, settings))
    [certificate] = Certifier(player.model, settings)(shown[7].image)
    assert (counts[-1].votes, counts[-1].radius) == (certificate.counts, certificate.radius)
    assert counts[-1].candidate == certificate.candidate
    assert counts[-1].radius > 0
    radii = [count.radius for count in counts]
    assert radii == sorted(radii)
    assert [count.draws for count in counts] == sorted({count.draws for count in counts})
    assert [count.ended for count in counts] == [False] * (len(counts) - 1) + [True]


def test_a_count_without_a_clear_leader_ends_without_a_radius(cohen):
    grey = torch.full((3, 24, 24), 0.5)
    settings = settings_for(cohen, seed=0, draws=200, alpha=0.05)
    *_, last = count_votes(cohen, grey, settings)
    [found] = Certifier(cohen.model, settings)(grey)
    assert (last.votes, last.radius, last.ended) == (found.counts, 0, True)
    assert found.label is None


def test_an_image_of_another_size_is_refused(cohen):
    with pytest.raises(ValueError, match="shape"):
        next(count_votes(cohen, torch.zeros(3, 32, 32), settings_for(cohen, seed=0)))


def test_an_attack_stays_in_its_ball_and_breaks_a_label_far_out(cohen, shown, monkeypatch):
    """At 100/255 the attack must win, or it would say nothing near the radius."""
    monkeypatch.setattr(session, "JUDGED", 200)
    seen = []

    def judge(certifier, images, *rest, **more):
        seen.append(certifier.settings.seed)
        return real(certifier, images, *rest, **more)

    real = session.judge
    monkeypatch.setattr(session, "judge", judge)
    image, radius = shown[7].image, 2 / 255
    count = Count(candidate=7, votes=(0, 1, 0, 0, 0, 0, 0, 90, 9, 0), radius=radius, most=0.05, ended=True)
    near, far = attack(cohen, image, count, seed=2**32 - 1, times=(1, 50))
    for found in (near, far):
        distance = np.abs(found.image - image.numpy()).max()
        assert 0 < distance <= found.times * radius * (1 + 1e-6)
        assert found.image.min() >= 0
        assert found.image.max() <= 1
        assert found.draws == 200
    assert near.label == 7
    assert far.label != 7
    assert seen == [0]  # another seed than the certificate's, the largest there is


def test_the_runner_up_is_never_the_candidate():
    assert Count(candidate=1, votes=(3, 90, 7), radius=0.1, most=0.2, ended=True).runner_up == 2
