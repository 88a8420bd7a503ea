"""The results as HTML: what is claimed, how it is named for those who do not see it, and that nothing is injected."""

import re
from dataclasses import replace

import numpy as np
import pytest

from ars.methods.registry import methods
from ars.play import page
from ars.play.page import Panel
from ars.play.session import Attacked, Count, examples, one_draw, open_player


@pytest.fixture(scope="module")
def panel():
    player = open_player("digits")
    return Panel(player, one_draw(player, examples()[7].image, seed=0), truth=7)


def count(**changes):
    votes = (0, 0, 0, 0, 0, 0, 0, 900, 100, 0)
    return replace(Count(candidate=7, votes=votes, radius=11 / 510, most=27 / 510, ended=True), **changes)


def words(html):
    return " ".join(re.sub(r"<[^>]+>", " ", html).split())


def test_a_certified_label_is_shown_with_its_radius(panel):
    shown = page.votes([replace(panel, count=count())])
    assert "7 certified within 5.5/255" in words(shown)
    assert "so far" not in words(shown)
    assert 'aria-label="certified radius: 5.5/255"' in shown
    assert 'aria-label="votes: 7 90%, 8 10%"' in shown
    assert "1,000 noisy draws" in words(shown)


def test_a_count_that_goes_on_says_so_and_claims_nothing_before_a_radius_is_certified(panel):
    assert "certified within 5.5/255 so far" in words(page.votes([replace(panel, count=count(ended=False))]))
    assert "nothing certified yet" in words(page.votes([replace(panel, count=count(radius=0.0, ended=False))]))


def test_an_abstention_names_no_label(panel):
    shown = page.votes([replace(panel, count=count(radius=0.0))])
    assert "? abstains" in words(shown)
    assert "certified within" not in words(shown)


def test_a_wrong_label_is_called_wrong(panel):
    assert "but it is a 3" in words(page.votes([replace(panel, truth=3, count=count())]))
    assert "but it is" not in words(page.votes([replace(panel, truth=None, count=count())]))


def test_nothing_is_claimed_before_the_votes(panel):
    shown = words(page.votes([panel]) + page.attacks([panel]))
    assert "no votes yet" in shown
    assert "/255" not in shown
    assert 'aria-label="votes: none yet"' in page.votes([panel])


def test_attacks_say_whether_the_label_held(panel):
    image = np.zeros((3, 24, 24))
    found = [Attacked(1, image, 7, 80, 100), Attacked(3, image, 2, 60, 100)]
    shown = words(page.attacks([replace(panel, count=count(), attacked=found)]))
    assert "5.5/255 still 7 80%" in shown
    assert "16.5/255 (3×) 2 wins 60%" in shown


def test_every_picture_has_a_text_and_every_stage_a_name(panel):
    found = [Attacked(1, np.zeros((3, 24, 24)), 7, 80, 100)]
    shown = page.stages([panel]) + page.attacks([replace(panel, count=count(), attacked=found)])
    pictures = re.findall("<img .*?>", shown)
    assert len(pictures) == 6 + 2
    assert all(re.search('alt="[^"]+"', picture) for picture in pictures)
    names = [words(name) for name in re.findall("<figcaption>.*?</figcaption>", page.stages([panel]), flags=re.DOTALL)]
    assert names == ["input", "first look", "mask", "masked input", "second look", "average"]


@pytest.mark.parametrize(("name", "names"), [
    ("digits-cohen", ["input", "noisy look"]),
    ("digits-static_mask", ["input", "mask", "masked input", "noisy look"]),
])  # fmt: skip
def test_the_stages_of_one_look_have_names(name, names):
    player = open_player(name)
    shown = page.stages([Panel(player, one_draw(player, examples()[0].image, seed=0))])
    assert [words(name) for name in re.findall("<figcaption>.*?</figcaption>", shown, flags=re.DOTALL)] == names


def test_class_names_are_escaped(panel):
    player = replace(panel.player, class_names=("<script>",) * 10)
    assert "<script>" not in page.votes([replace(panel, player=player, count=count())])


def test_methods_have_the_colours_of_the_report():
    for name, method in methods().items():
        assert f".play .m-{name} {{ --c: {method.colour}; }}" in page.style()
