"""ars report: of which records, and of how many of them."""

import json

from ars.cli.main import main

from .conftest import FEW, QUICK, fill


def test_a_report_on_the_images_so_far_must_be_asked_for(run, ranks, capsys, sentence, tmp_path):
    ranks(WORLD_SIZE=2, RANK=1)
    assert main(["certify", str(run), *FEW, "--shard-size=1"]) == 0
    ranks(WORLD_SIZE=1, RANK=0)
    report = ["report", str(run), "--out", str(tmp_path / "report")]
    assert main(report) == 2
    said = sentence()
    assert "2 of 4 images" in said
    assert "--partial" in said
    assert not (tmp_path / "report").exists()
    capsys.readouterr()
    assert main([*report, "--partial", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)[0]["rows"][0]["missing"] == [2]
    assert (tmp_path / "report" / "index.html").is_file()


def test_a_report_is_of_the_records_that_are_named(run, capsys, tmp_path):
    assert main(["certify", str(run), *FEW]) == 0
    assert main(["certify", str(run), *FEW, "--examples=3", "--name=few"]) == 0
    capsys.readouterr()
    assert main(["report", str(run), "--out", str(tmp_path / "report"), "--name=few", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)[0]["rows"][0]["images"] == [3]
    assert len((tmp_path / "report" / "images-run.csv").read_text().splitlines()) == 1 + 3


def test_a_report_names_the_file_of_each_image(desk):
    fill(desk / "photos" / "test", images=2, side=8)
    (desk / "pets_model.py").write_text(
        "from torch import nn\nnet = nn.Sequential(nn.Flatten(), nn.Linear(3 * 8 * 8, 2))\n"
    )
    own = ["--model=pets_model:net", "--sigma=0.5", "--data=folder:photos", "--data.size=8", "--out=runs/pets"]
    assert main(["certify", *own, *QUICK]) == 0
    assert main(["report", "runs/pets", "--out", "report"]) == 0
    _, *lines = (desk / "report" / "images-pets.csv").read_text().splitlines()
    shown = [line.split(",")[:3] for line in lines]
    files = json.loads((desk / "runs" / "pets" / "certify" / "test" / "files.json").read_text())
    assert shown == [[str(index), file, file.split("/")[-2]] for index, file in enumerate(files)]
    assert len(shown) == 4
