import json

import pytest
from PIL import Image

from ars.cli.main import main
from ars.data.backgrounds import load_backgrounds


def test_list_says_what_is_there(tmp_path, monkeypatch, capsys, write_cifar):
    write_cifar(tmp_path)
    assert main(["data", "list"]) == 0
    assert "not found as cifar-10-batches-bin in $ARS_DATA" in capsys.readouterr().out
    monkeypatch.setenv("ARS_DATA", str(tmp_path))
    assert main(["data", "list", "--json"]) == 0
    rows = json.loads(capsys.readouterr().out)
    assert {row["benchmark"] for row in rows} == {"digits", "cifar_backgrounds", "celeba", "imagenet", "folder"}
    assert [row["bytes"] for row in rows if row["found"]] == [3 * 5 * 3073]


def test_show_draws_what_a_model_sees(tmp_path, capsys, write_classes):
    root = write_classes(tmp_path / "pets", count=30)
    out = tmp_path / "sheet.png"
    for part, count in (("train", 16), ("test", 3)):
        options = ["--part", part, "--count", str(count), "--root", str(root), "--size", "32", "--workers", "0"]
        assert main(["data", "show", "folder", "--out", str(out), *options]) == 0
        assert f"pets: {count} {part} images in" in capsys.readouterr().out
        with Image.open(out) as sheet:
            assert sheet.size == (8 * (3 * 32 + 4) + 4, -(-count // 8) * (3 * 32 + 12 + 4) + 4)


def test_what_was_not_got_is_not_found(tmp_path, monkeypatch, capsys):
    assert main(["data", "get", "cifar10", "--root", str(tmp_path / "nn"), "--from", str(tmp_path / "nope.tgz")]) == 2
    assert not (tmp_path / "nn").exists()
    (tmp_path / "cifar-10-batches-bin").mkdir()  # as earlier versions left it
    monkeypatch.setenv("ARS_DATA", str(tmp_path))
    capsys.readouterr()
    assert main(["data", "list"]) == 0
    assert "not found as cifar-10-batches-bin" in capsys.readouterr().out


def test_check_reads_everything(tmp_path, capsys, write_classes):
    root = write_classes(tmp_path / "pets", count=30)
    arguments = ["data", "check", "folder", "--root", str(root), "--workers", "0"]
    assert main(arguments) == 0
    assert "60 images read" in capsys.readouterr().out
    (root / "cat" / "bad.jpg").write_text("no image")
    assert main(arguments) == 2
    assert "bad.jpg cannot be read as an image" in capsys.readouterr().err


def test_check_covers_what_is_there_and_the_packs(tmp_path, capsys, write_backgrounds):
    load_backgrounds(str(write_backgrounds(tmp_path / "scenes")), 48)
    assert main(["data", "check"]) == 0
    out = capsys.readouterr().out
    assert "digits on photographs: 10,376 training" in out
    assert "celeba: not found, not checked" in out
    assert ": 4 test, 8 train images, SHA-256" in out


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        (["check", "celeba"], "celeba"),
        (["check", "folder"], "data.root"),
        (["show", "digits", "--size", "3", "--out", "x.png"], "size"),
        (["show", "cifar_backgrounds", "--root", "/nowhere", "--out", "x.png"], "/nowhere"),
        (["show", "cifar_backgrounds", "--padding", "-1", "--out", "x.png"], "data.padding"),
        (["get", "cifar10", "--root", "ROOT", "--from", "/nowhere"], "/nowhere"),
        (["show", "digits", "--count", "0", "--out", "x.png"], "--count"),
        (["show", "digits", "--out", "sheet"], "sheet.png"),
    ],
)
def test_bad_input_is_one_sentence_and_exit_code_2(tmp_path, capsys, arguments, named):
    assert main(["data", *(str(tmp_path) if argument == "ROOT" else argument for argument in arguments)]) == 2
    error = capsys.readouterr().err
    assert named in error
    assert error.count("\n") == 1
