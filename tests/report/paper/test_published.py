import pytest

from ars.report.paper.published import in_order, lacking, settings, text


@pytest.mark.parametrize(
    ("kind", "setting", "expected"),
    [
        ("cifar_backgrounds", (32, 0.25, "adaptive"), "72.6 (0.9)"),  # of the main table
        ("cifar_backgrounds", (64, 0.5, "adaptive"), "69.9 (1.2) † or 65.4 (1.8) †"),  # the tables differ
        ("cifar_backgrounds", (32, 0.12, "cohen"), "79.0 (0.7)"),  # in the appendix only
        ("digits", (24, 0.5, "cohen"), None),
    ],
)
def test_the_main_table_goes_before_the_appendix(kind, setting, expected):
    assert text(kind, setting) == expected


def test_uncertified_models_are_no_certified_ones():
    certified, voted = (settings("imagenet", *tables) for tables in (["main", "appendix"], ["uncertified"]))
    assert {method for _, _, method in certified} == {"cohen", "adaptive", "ars_pretrain"}
    assert voted
    assert settings("imagenet", "main", "appendix", "uncertified") == certified | voted


def test_settings_are_in_the_order_of_the_registry():
    methods = [setting[2] for setting in in_order(settings("cifar_backgrounds", "main"))][:5]
    assert methods == ["cohen", "static_mask", "unicr", "sukenik", "adaptive"]


def test_what_was_not_run_is_told_with_its_number():
    have = {"cohen", "static_mask", "adaptive"}
    assert lacking("cifar_backgrounds", (96, 1.0), have) == "UniCR 41.3 (2.4); Súkeník et al. 10.4 (0.3)"
    assert lacking("digits", (24, 0.75), have) == ""
