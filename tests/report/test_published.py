from ars.report.published import published_standard_accuracy


def test_the_main_table_goes_before_the_appendix():
    rows = published_standard_accuracy("cifar_backgrounds", k=32, sigma=0.25)
    assert {row.table for row in rows} == {"main"}
    assert {row.label: row.accuracy for row in rows}["ARS"] == 72.6


def test_the_appendix_fills_what_the_main_table_leaves_out():
    rows = published_standard_accuracy("cifar_backgrounds", k=32, sigma=0.12)
    assert {row.table for row in rows} == {"appendix"}


def test_uncertified_models_are_left_out():
    assert len(published_standard_accuracy("imagenet", k=224, sigma=0.5)) == 3


def test_an_unpublished_benchmark_has_no_rows():
    assert published_standard_accuracy("digits", k=24, sigma=0.5) == []
