"""Killed, restarted, shared among processes, on a full disk: the records are always those of an undisturbed run."""

import dataclasses
import errno
import os
import shutil
import signal

import pytest
import torch
from torch.nn import functional

import ars
from ars.atomic import WriteError
from ars.certification.certifier import Certifier
from ars.certification.settings import CertifySettings
from ars.data.benchmark import open_benchmark
from ars.data.digits import DigitsOnPhotographs
from ars.methods.registry import methods
from ars.report import write_report
from ars.runs.lock import TakenError
from ars.runs.provenance import begun_settings
from ars.runs.records import RecordError
from ars.runs.shards import IncompleteError, merge
from ars.runs.test_images import difference
from ars.theory import ars_radius_linf
from ars.workflows.certify import certify_run, image_statistics, sampled_images
from ars.workflows.imported_model import Given
from ars.workflows.load import load_run
from ars.workflows.processes import World
from ars.workflows.request import Request
from ars.workflows.train import train_run

from ..conftest import CPU, TINY, contents, records_of

SETTINGS = dataclasses.replace(TINY.certify, examples=12, n_estimate=100)
SIZE = 2  # 6 shards
SHARDS = [f"shard-{number:05d}.jsonl" for number in range(6)]
ABOUT = ["environment.json", "settings.json"]


@pytest.fixture(scope="module")
def undisturbed(trained, tmp_path_factory):
    folder = tmp_path_factory.mktemp("undisturbed") / "run"
    shutil.copytree(trained, folder, ignore=shutil.ignore_patterns("certify"))
    certify(folder)
    return records_of(folder)


def certify(folder, settings=SETTINGS, *, name="test", shard_size=SIZE, **options):
    return certify_run(Request(folder, settings, name=name, shard_size=shard_size), device=CPU, **options)


def files(folder, name="test"):
    return sorted(path.name for path in (folder / "certify" / name).iterdir())


LINEAR = """
import torch
from ars import cohen

torch.manual_seed(0)
smoothed = cohen(torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(3 * 24 * 24, 10)), sigma=0.5)
"""


@pytest.mark.parametrize(
    "how",
    [
        {"norm": "linf", "n_select": 100, "n_estimate": 130, "alpha": 0.05},
        {"norm": "l2", "n_select": 7, "n_estimate": 1230, "alpha": 0.01, "bound": "classes", "mode": "radius",
         "tolerance": 0.2, "seed": 5},
        {"norm": "l2", "n_select": 20, "n_estimate": 900, "alpha": 0.02, "mode": "curve", "radii": (0.01, 0.1)},
    ],
    ids=lambda how: how.get("mode", "fixed"),
)  # fmt: skip
def test_all_settings_reach_the_certificates(own_code, tmp_path, how):
    """The records are those that ars.certify gives for the same settings, images and indices."""
    own_code("own", LINEAR)
    given = Given("own:smoothed", ("--data.kind=digits",))
    settings = CertifySettings(examples=5, every=7, precision="float32", **how)
    records = certify_run(Request(tmp_path / "run", settings, shard_size=2, given=given), device=CPU)
    benchmark, model = given.load(CPU)
    images, truths = benchmark.examples("test", range(0, 35, 7))
    made = ars.certify(model, images, indices=range(0, 35, 7), **{"seed": 0, **how})
    assert [record.certificate for record in records] == made
    assert [record.truth for record in records] == truths.tolist()
    assert begun_settings(tmp_path / "run", "test") == settings


@pytest.mark.parametrize("method", methods())
def test_every_method_trains_certifies_and_is_reported(method, tiny, tmp_path):
    folder = tmp_path / "run"
    one_step = dataclasses.replace(TINY.train, max_steps=1)
    assert train_run(tiny(method=method, train=one_step), folder, device=CPU)
    records = certify_run(Request(folder, TINY.certify), device=CPU)
    assert [record.certificate.index for record in records] == list(range(6))
    [row] = write_report([folder], tmp_path / "report").table.blocks[0].rows
    assert row.group.label == methods()[method].title
    levels = {record.certificate.sigmas for record in records}
    assert len(levels) == (len(records) if methods()[method].input_dependent else 1)


def test_a_learned_split_is_certified_at_the_levels_that_training_found(tiny, tmp_path):
    folder = tmp_path / "run"
    train_run(tiny(share="learned"), folder, device=CPU)
    settings = dataclasses.replace(TINY.certify, mode="radius", n_estimate=2000, tolerance=0.3)
    made = [record.certificate for record in certify_run(Request(folder, settings), device=CPU)]
    sigmas = load_run(folder, CPU)[2].mechanism.sigmas
    assert sigmas[0] != sigmas[1]
    assert min(certificate.n_estimate for certificate in made) < 2000
    assert any(certificate.label is not None for certificate in made)
    for certificate in made:
        assert certificate.sigmas == sigmas
        expected = ars_radius_linf([TINY.sigma], certificate.dim, certificate.p_lower, certificate.p_upper)
        assert certificate.label is None or certificate.radius == pytest.approx(expected, rel=1e-9)


def test_a_shard_is_one_file_and_shards_that_are_there_are_skipped(run, undisturbed):
    seen = []
    certify(run, report=lambda at: at.drawn or seen.append((at.done, at.total, at.fresh)))
    assert seen == [(2 * n, 12, 2 * n) for n in range(7)]
    assert files(run) == [*ABOUT, *SHARDS]
    assert records_of(run) == undisturbed
    for number in (2, 4):
        (run / "certify" / "test" / SHARDS[number]).unlink()
    kept = {name: (run / "certify" / "test" / name).stat().st_mtime_ns for name in files(run)}
    seen.clear()
    records = certify(run, report=lambda at: at.drawn or seen.append((at.done, at.total, at.fresh)))
    assert seen == [(8, 12, 0), (10, 12, 2), (12, 12, 4)]
    assert len(records) == 12
    assert records_of(run) == undisturbed
    assert kept.items() <= {name: (run / "certify" / "test" / name).stat().st_mtime_ns for name in files(run)}.items()


@pytest.mark.parametrize("within", [False, True])
def test_a_folder_that_was_removed_is_not_made_again(run, monkeypatch, within):
    monkeypatch.setattr("ars.workflows.certify.REPORT_SECONDS", 0.0)
    seen = []

    def remove(at):
        seen.append(at)
        if at.done == 2 and bool(at.drawn) == within:
            shutil.rmtree(run, ignore_errors=True)

    with pytest.raises(TakenError, match="removed meanwhile"):
        certify(run, report=remove)
    assert not run.exists()
    assert max(at.done for at in seen) == 2


def test_draws_within_a_shard_are_reported_and_no_record_changes(run, undisturbed, monkeypatch):
    monkeypatch.setattr("ars.workflows.certify.REPORT_SECONDS", 0.0)
    seen = []
    certify(run, report=seen.append)
    within, most = [at for at in seen if at.drawn], 2 * (SETTINGS.n_select + SETTINGS.n_estimate)
    assert {at.at_most for at in within} == {most}
    assert [at.done for at in within if at.drawn == most] == [2 * n for n in range(6)]  # each shard to its end
    assert len(within) > 6
    assert [(at.done, at.at_most) for at in seen if not at.drawn] == [(2 * n, 0) for n in range(7)]
    assert records_of(run) == undisturbed


def test_neither_the_shard_size_nor_the_world_changes_a_record(run, undisturbed):
    certify(run, name="by-10", shard_size=10)
    for rank in (2, 0, 1):
        certify(run, name="three", world=World(rank, 3))
    assert records_of(run, "by-10") == records_of(run, "three") == undisturbed


def test_examples_may_be_added_and_the_shard_that_was_cut_is_filled_up(run, undisturbed):
    for examples in (3, 4, 12):
        certify(run, dataclasses.replace(SETTINGS, examples=examples), shard_size=None if examples > 3 else SIZE)
        assert records_of(run) == undisturbed[:examples]
    certify(run, dataclasses.replace(SETTINGS, examples=2))
    assert records_of(run) == undisturbed


def test_a_stop_keeps_whole_shards_and_the_next_session_continues(run, undisturbed):
    done = []
    with pytest.raises(KeyboardInterrupt):
        certify(run, report=lambda at: done.append(at.done), stop=lambda: done[-1:] == [4])
    assert files(run) == [*ABOUT, *SHARDS[:2]]
    with pytest.raises(IncompleteError, match="4 of 12 images"):
        merge(run / "certify" / "test")
    certify(run)
    assert records_of(run) == undisturbed


def test_a_shard_is_given_up_when_time_is_over_within_it(run, undisturbed, monkeypatch):
    monkeypatch.setattr("ars.workflows.certify.REPORT_SECONDS", 0.0)
    with pytest.raises(KeyboardInterrupt):
        certify(run, over=lambda: True)
    assert files(run) == ABOUT
    certify(run)
    assert records_of(run) == undisturbed


def test_records_of_other_settings_or_weights_are_not_mixed(run):
    certify(run, dataclasses.replace(SETTINGS, examples=3))
    with pytest.raises(RecordError, match=r"alpha=0\.05"):
        certify(run, dataclasses.replace(SETTINGS, alpha=0.1))
    with pytest.raises(RecordError, match="shard_size=2"):
        certify(run, shard_size=4)
    assert begun_settings(run, "test") == dataclasses.replace(SETTINGS, examples=3)
    assert begun_settings(run, "other") is None

    from safetensors.torch import load_file, save_file

    weights = load_file(run / "model.safetensors")
    name = sorted(weights)[0]
    save_file({**weights, name: weights[name] + 1}, run / "model.safetensors", metadata={"about": "{}"})
    with pytest.raises(RecordError, match="weights"):
        certify(run)


@pytest.mark.parametrize(
    ("changes", "words"),
    [({"examples": 1000}, "1000 are too many"), ({"n_estimate": 3}, "n_estimate=3"), ({"norm": "l2"}, "linf")],
)
def test_what_cannot_be_certified_is_refused_and_leaves_nothing(trained, changes, words):
    with pytest.raises(ValueError, match=words):
        certify(trained, dataclasses.replace(TINY.certify, **changes), name="x")
    assert not (trained / "certify" / "x").exists()


@pytest.mark.parametrize(
    ("call", "moment", "shards"),
    [
        pytest.param(("link", False), 1, 0, marks=pytest.mark.slow),  # the manifest is not there yet
        (("link", True), 1, 0),
        pytest.param(("replace", False), 1, 0, marks=pytest.mark.slow),  # nor what it is certified with
        (("replace", False), 3, 1),  # the second shard is written, but not under its name
        pytest.param(("replace", True), 3, 2, marks=pytest.mark.slow),
        (("fsync", False), 7, 1),  # every write pushes its file and its folder
    ],
)
def test_a_kill_at_the_worst_moment_of_a_write_loses_at_most_that_shard(run, killed, undisturbed, call, moment, shards):
    request = Request(run, SETTINGS, shard_size=SIZE)
    assert killed(call, moment, certify_run, request, device=CPU) == -signal.SIGKILL
    if shards:
        there = merge(run / "certify" / "test", partial=True).records
        assert undisturbed[: SIZE * shards] == [dataclasses.replace(record, seconds=0.0) for record in there]
    certify(run)
    assert records_of(run) == undisturbed


def test_ranks_that_begin_at_the_same_time_do_not_disturb_each_other(run, processes, undisturbed):
    request = Request(run, SETTINGS, shard_size=SIZE)
    ranks = [
        processes.Process(target=certify_run, args=(request,), kwargs={"device": CPU, "world": World(rank, 3)})
        for rank in range(3)
    ]
    for rank in ranks:
        rank.start()
    for rank in ranks:
        rank.join()
        assert rank.exitcode == 0
    assert records_of(run) == undisturbed


def test_a_rank_that_died_takes_up_its_own_shards(run, killed, undisturbed):
    for rank in (0, 2):
        certify(run, world=World(rank, 3))
    request = Request(run, SETTINGS, shard_size=SIZE)
    options = {"device": CPU, "world": World(1, 3)}
    assert killed(("replace", False), 2, certify_run, request, **options) == -signal.SIGKILL
    there = [SHARDS[number] for number in (0, 1, 2, 3, 5)]
    assert [name for name in files(run) if name[0] != "."] == [*ABOUT, *there]
    with pytest.raises(IncompleteError, match="10 of 12 images, missing 8 to 9"):
        merge(run / "certify" / "test")
    before = {name: (run / "certify" / "test" / name).stat().st_mtime_ns for name in there}
    certify(run, world=World(1, 3))
    assert records_of(run) == undisturbed
    assert {name: (run / "certify" / "test" / name).stat().st_mtime_ns for name in there} == before


@pytest.mark.parametrize(("call", "code"), [("fsync", errno.ENOSPC), ("replace", errno.EROFS)])
def test_a_full_or_read_only_disk_keeps_what_was_written(run, undisturbed, monkeypatch, call, code):
    real, allowed = getattr(os, call), iter(range(3 if call == "replace" else 8))  # the manifest is linked

    def failing(*arguments):
        if next(allowed, None) is None:
            raise OSError(code, os.strerror(code))
        return real(*arguments)

    with monkeypatch.context() as patch:
        patch.setattr(os, call, failing)
        with pytest.raises(WriteError, match=rf"shard-00002\.jsonl: {os.strerror(code)}"):
            certify(run)
    assert files(run) == [*ABOUT, *SHARDS[:2]]
    certify(run)
    assert records_of(run) == undisturbed


def test_what_another_process_wrote_meanwhile_stays(run, undisturbed, monkeypatch):
    """One asked for one image of the first shard, another for all images while the first was drawing."""
    real, calls = Certifier.__call__, []

    def slowly(certifier, *arguments, **options):
        certificates = real(certifier, *arguments, **options)
        if not calls:
            calls.append(None)
            certify(run)
        return certificates

    monkeypatch.setattr(Certifier, "__call__", slowly)
    certify(run, dataclasses.replace(SETTINGS, examples=1))
    assert records_of(run) == undisturbed


def test_other_test_images_are_refused(run, monkeypatch):
    certify(run, dataclasses.replace(SETTINGS, examples=2))
    before = contents(run)
    real = DigitsOnPhotographs.examples

    def lighter(benchmark, split, indices):
        images, labels = real(benchmark, split, indices)
        return (images + 0.1).clamp(0, 1), labels

    monkeypatch.setattr(DigitsOnPhotographs, "examples", lighter)
    with pytest.raises(RecordError, match="other images"):
        certify(run)
    assert contents(run) == before


def flattened(images):
    """Each quarter in its mean colour: all halves are as bright as before."""
    return functional.interpolate(functional.avg_pool2d(images, 12), scale_factor=12)


CHANGES = {
    "mirrored": lambda images: images.flip(-1),
    "upside down": lambda images: images.flip(-2),
    "in another order": lambda images: images.roll(1, 0),
    "brighter": lambda images: (images + 0.02).clamp(0, 1),
    "flattened": flattened,
    "noisy": lambda images: (images + 0.2 * torch.randn(images.shape, generator=torch.Generator())).clamp(0, 1),
}


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
def test_images_that_were_changed_have_other_statistics(change):
    digits = open_benchmark(TINY.data)
    images = sampled_images(digits)
    assert difference(image_statistics(digits, images), image_statistics(digits, change(images)))


def test_the_roundings_of_another_decoder_make_no_difference():
    digits = open_benchmark(TINY.data)
    images = sampled_images(digits)
    other = (images + torch.randint(-1, 2, images.shape, generator=torch.Generator()) / 255).clamp(0, 1)
    assert difference(image_statistics(digits, images), image_statistics(digits, other)) is None
    pixel = image_statistics(digits, torch.rand(3, 3, 1, 1))
    assert difference(pixel, pixel) is None
