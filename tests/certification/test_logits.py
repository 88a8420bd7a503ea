import pytest
import torch

from ars.certification.logits import alike, check_logits, moves


def test_a_leak_is_measured_by_the_spread_within_an_image():
    torch.manual_seed(0)
    noise = 0.1 * torch.randn(8, 2, dtype=torch.float64)
    apart = noise.clone()
    apart[4:, 0] += 100.0  # the second image
    assert alike(apart, apart + 1e-9, images=2)
    assert not alike(apart, apart + torch.tensor([0.1, 0.0]), images=2)


def test_rounding_may_be_that_of_another_type():
    torch.manual_seed(0)
    one = 10 + 0.01 * torch.randn(8, 3)
    other = one.bfloat16().float()
    assert not alike(one, other, images=2)
    assert alike(one, other, images=2, rounded_to=torch.bfloat16)
    assert not alike(one, one + torch.tensor([5.0, 0.0, 0.0]), images=2, rounded_to=torch.bfloat16)


def test_answers_move_where_a_gap_between_classes_does():
    same = torch.tensor([[1.0, 0.0, 0.0]]).repeat(8, 1)
    assert not moves(same, images=2)
    assert not moves(same + torch.arange(8.0).unsqueeze(1), images=2)  # all classes together
    assert not moves(same + torch.arange(8.0).unsqueeze(1) // 4, images=2)  # from image to image
    assert not moves(same * torch.tensor([1, 1 + 2.0**-23] * 4).unsqueeze(1), images=2)  # by rounding
    assert not moves(same.int(), images=1)
    assert moves(same * (1 + 1e-3 * torch.rand(8, 1)), images=2)
    assert moves(torch.cat([same[:4], same[:2], same[:2].flip(1)]), images=2)
    assert moves(torch.cat([same[:4], same[:4].flip(1)]).int(), images=1)


def test_what_is_no_number_in_one_answer_only_is_not_alike():
    one = torch.randn(8, 3)
    for other in (torch.nan, torch.inf, -torch.inf):
        changed = one.clone()
        changed[3, 1] = other
        assert not alike(one, changed, images=2)
        assert not alike(changed, one, images=2)


@pytest.mark.parametrize("dtype", [torch.bool, torch.complex64])
def test_logits_are_real_numbers(dtype):
    with pytest.raises(ValueError, match=f"real numbers, got {dtype}"):
        check_logits(torch.ones(2, 3, dtype=dtype), 2)
    check_logits(torch.ones(2, 3, dtype=torch.int64), 2)
