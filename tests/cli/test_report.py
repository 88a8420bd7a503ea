"""ars report: of which records, and of how many of them."""

import json

from ars.cli.main import main

from .conftest import FEW


def test_a_report_on_the_images_so_far_must_be_asked_for(run, ranks, refused, tmp_path, printed):
    ranks(WORLD_SIZE=2, RANK=1)
    assert main(["certify", str(run), *FEW, "--shard-size=1"]) == 0
    ranks(WORLD_SIZE=1, RANK=0)
    report = ["report", str(run), "--out", str(tmp_path / "report")]
    said = refused(report)
    assert "2 of 4 images" in said
    assert "--partial" in said
    assert not (tmp_path / "report").exists()
    assert json.loads(printed([*report, "--partial", "--json"]).out)[0]["rows"][0]["missing"] == [2]
    assert (tmp_path / "report" / "index.html").is_file()


def test_a_report_is_of_the_records_that_are_named(run, tmp_path, printed):
    assert main(["certify", str(run), *FEW]) == 0
    assert main(["certify", str(run), *FEW, "--examples=3", "--name=few"]) == 0
    report = printed(["report", str(run), "--out", str(tmp_path / "report"), "--name=few", "--json"])
    assert json.loads(report.out)[0]["rows"][0]["images"] == [3]
    assert len((tmp_path / "report" / "images-run.csv").read_text().splitlines()) == 1 + 3


def test_a_report_names_the_file_of_each_image(pets, desk):
    assert main(["report", "runs/pets", "--out", "report"]) == 0
    _, *lines = (desk / "report" / "images-pets.csv").read_text().splitlines()
    shown = [line.split(",")[:3] for line in lines]
    files = json.loads((pets / "certify" / "test" / "files.json").read_text())
    assert shown == [[str(index), file, file.split("/")[-2]] for index, file in enumerate(files)]
    assert len({name for _, _, name in shown}) == 2
