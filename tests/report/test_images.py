import json

import pytest

from ars.report.errors import ReportError
from ars.report.images import to_csv
from ars.report.results import load_runs


def test_a_line_an_image_with_radii_that_are_cut(make_run, make_record):
    shards = [[make_record(0, 0, 0, 1.99999 / 255), make_record(1, 2, 1, 0.0)]]
    path = make_run("own", shards=shards)
    (path / "certify" / "test" / "files.json").write_text(json.dumps(["a/1, old.png", "b/2\udcff.png"]))
    (run,) = load_runs([path])
    assert to_csv(run).splitlines() == [
        "index,file,truth,label,radius_255,norm,candidate,votes,draws",
        '0,"a/1, old.png",zero,zero,1.9999,linf,zero,98,100',
        "1,b/2\udcff.png,two,,0.0000,linf,one,98,100",
    ]


def test_radii_of_a_grid_are_as_asked_for_and_files_that_are_not_known_are_empty(make_run, make_decided):
    (run,) = load_runs([make_run("own", shards=[[make_decided(0, 0, 0, 2)]])])
    assert to_csv(run).splitlines()[1] == "0,,zero,zero,2.0000,linf,zero,98,100"


def test_l2_radii_have_their_norm_beside_them(make_run, make_record):
    (run,) = load_runs([make_run("own", shards=[[make_record(0, 0, 0, 0.6, norm="l2")]])])
    assert to_csv(run).splitlines() == [
        "index,file,truth,label,radius,norm,candidate,votes,draws",
        "0,,zero,zero,0.6000,l2,zero,98,100",
    ]


@pytest.mark.parametrize(
    ("content", "words"),
    [("[", r"files\.json cannot be read .* remove it"), ('["a"]', r"names 1 files and none for image 3; put a copy")],
)
def test_names_that_cannot_be_theirs_are_refused(make_run, content, words):
    path = make_run("own")
    (path / "certify" / "test" / "files.json").write_text(content)
    with pytest.raises(ReportError, match=words):
        load_runs([path])
