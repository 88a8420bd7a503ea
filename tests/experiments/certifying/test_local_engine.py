"""Killed, restarted, shared among processes, on a full disk: the records are always those of an undisturbed run."""

import dataclasses
import errno
import json
import multiprocessing
import os
import random
import shutil
import signal
import time
from pathlib import Path

import pytest
import torch

from ars.certification.records import RecordError
from ars.certification.run_folder import records_folder
from ars.certification.shards import IncompleteError, merge
from ars.certification.writing import WriteError
from ars.experiments.certifying import job, local_engine
from ars.experiments.certifying.beginning import begun_settings
from ars.experiments.certifying.local_engine import certify_run
from ars.experiments.certifying.request import Request
from ars.experiments.recipe import CertifySettings
from ars.experiments.world import World

from ..conftest import CPU, TINY

SETTINGS = dataclasses.replace(TINY.certify, examples=24, n_estimate=100)
SIZE = 3  # 8 shards


def content(folder, name="test"):
    """All records without what they took."""
    return [dataclasses.replace(record, seconds=0.0) for record in merge(folder / "certify" / name).records]


@pytest.fixture
def run(trained, tmp_path):
    """A copy of the trained run without records."""
    copy = tmp_path / "run"
    shutil.copytree(trained, copy, ignore=shutil.ignore_patterns("certify"))
    return copy


@pytest.fixture(scope="module")
def undisturbed(trained, tmp_path_factory):
    folder = tmp_path_factory.mktemp("undisturbed") / "run"
    shutil.copytree(trained, folder, ignore=shutil.ignore_patterns("certify"))
    certify(folder)
    return content(folder)


@pytest.fixture(scope="module")
def processes():
    """Processes that start at once: torch is loaded in the server that they are forked from."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["ars.experiments.certifying.local_engine"])
    return context


def certify(folder, settings=SETTINGS, *, name="test", shard_size=SIZE, **options):
    return certify_run(Request(folder, settings, name=name, shard_size=shard_size), device=CPU, **options)


def files(folder, name="test"):
    return sorted(path.name for path in (folder / "certify" / name).iterdir())


def shard_names(numbers):
    return [f"shard-{number:05d}.jsonl" for number in numbers]


@pytest.mark.parametrize("mode", [{"mode": "radius", "tolerance": 0.2}, {"mode": "curve", "radii": (0.1, 0.2)}])
def test_all_that_was_asked_for_reaches_the_certificates(monkeypatch, mode):
    bound = "classes" if mode["mode"] == "radius" else "cohen"
    asked = {"norm": "l2", "n_select": 7, "n_estimate": 123, "alpha": 0.01, "bound": bound, "seed": 5, **mode}
    settings = CertifySettings(**asked, precision="bfloat16")
    handed = {}
    monkeypatch.setattr(job, "certify", lambda model, images, **how: handed.update(how))
    job.certify_images(None, None, settings, [3, 9])
    own = {name: value for name, value in dataclasses.asdict(settings).items() if name not in ("examples", "every")}
    assert handed == {**own, "indices": [3, 9]}


def test_a_shard_is_one_file_and_done_shards_are_skipped(run, undisturbed):
    seen = []
    certify(run, report=lambda at: at.drawn or seen.append((at.done, at.total, at.fresh)))
    assert seen == [(3 * n, 24, 3 * n) for n in range(9)]
    assert files(run) == ["environment.json", "settings.json", *shard_names(range(8))]
    assert content(run) == undisturbed
    for number in (2, 5):
        (run / "certify" / "test" / f"shard-{number:05d}.jsonl").unlink()
    kept = {name: (run / "certify" / "test" / name).stat().st_mtime_ns for name in files(run)}
    seen.clear()
    records = certify(run, report=lambda at: at.drawn or seen.append((at.done, at.total, at.fresh)))
    assert seen == [(18, 24, 0), (21, 24, 3), (24, 24, 6)]
    assert len(records) == 24
    assert content(run) == undisturbed
    assert kept.items() <= {name: (run / "certify" / "test" / name).stat().st_mtime_ns for name in files(run)}.items()


def test_draws_within_a_shard_are_told_of_and_no_record_changes(run, undisturbed, monkeypatch):
    monkeypatch.setattr(local_engine, "TOLD_SECONDS", 0.0)
    seen = []
    certify(run, report=seen.append)
    within, most = [at for at in seen if at.drawn], 3 * (SETTINGS.n_select + SETTINGS.n_estimate)
    assert {at.at_most for at in within} == {most}
    assert [at.done for at in within if at.drawn == most] == [3 * n for n in range(8)]  # each shard to its end
    assert len(within) > 8
    assert [(at.done, at.at_most) for at in seen if not at.drawn] == [(3 * n, 0) for n in range(9)]
    assert content(run) == undisturbed


def test_the_shard_size_changes_no_record(run, undisturbed):
    for size in (1, 10):
        certify(run, name=f"by-{size}", shard_size=size)
        assert content(run, f"by-{size}") == undisturbed


def test_examples_may_be_added_and_the_cut_shard_is_filled_up(run, undisturbed):
    for examples in (1, 4, 5, 24):
        certify(run, dataclasses.replace(SETTINGS, examples=examples), shard_size=None if examples > 1 else SIZE)
        assert content(run) == undisturbed[:examples]
    certify(run, dataclasses.replace(SETTINGS, examples=2))
    assert content(run) == undisturbed


def test_a_stop_keeps_whole_shards_and_the_next_run_goes_on(run, undisturbed):
    done = []
    with pytest.raises(KeyboardInterrupt):
        certify(run, report=lambda at: done.append(at.done), stop=lambda: done[-1:] == [6])
    assert files(run) == ["environment.json", "settings.json", *shard_names(range(2))]
    with pytest.raises(IncompleteError, match="6 of 24 images, missing are 6 to 23"):
        merge(run / "certify" / "test")
    certify(run)
    assert content(run) == undisturbed


@pytest.mark.parametrize(("name", "value"), [("alpha", "x"), ("n_select", None), ("radii", None), ("mode", "often")])
def test_wrong_values_of_what_was_begun_are_told(run, name, value):
    certify(run, dataclasses.replace(SETTINGS, examples=3))
    path = records_folder(run, "test") / "settings.json"
    manifest = json.loads(path.read_text())
    path.write_text(json.dumps({**manifest, "settings": {**manifest["settings"], name: value}}))
    with pytest.raises(
        RecordError, match=r"settings\.json cannot be read .*; put a copy of it in its place, or certify"
    ):
        begun_settings(run, "test")


def test_records_of_other_settings_or_weights_are_not_mixed(run):
    certify(run, dataclasses.replace(SETTINGS, examples=3))
    with pytest.raises(RecordError, match=r"records with alpha=0.05, asked for is 0.1; certify under another --name"):
        certify(run, dataclasses.replace(SETTINGS, alpha=0.1))
    with pytest.raises(RecordError, match="shard_size=3, asked for is 4"):
        certify(run, shard_size=4)
    assert begun_settings(run, "test") == dataclasses.replace(SETTINGS, examples=3)
    assert begun_settings(run, "other") is None

    from safetensors.torch import load_file, save_file

    weights = load_file(run / "model.safetensors")
    name = sorted(weights)[0]
    save_file({**weights, name: weights[name] + 1}, run / "model.safetensors", metadata={"about": "{}"})
    with pytest.raises(RecordError, match="a model with other weights"):
        certify(run)


@pytest.mark.parametrize("name", ["", ".", "..", "a/b", "/tmp/x"])
def test_a_name_that_is_no_plain_folder_is_refused(run, name):
    with pytest.raises(ValueError, match="plain folder name"):
        records_folder(run, name)


def kill_at_random_moments(run, processes, *, times, settings, seconds):
    """Start and SIGKILL, times over; how many shards were there after each."""
    generator, counts = random.Random(0), []
    for _ in range(times):
        process = processes.Process(
            target=certify_run, args=(Request(run, settings, shard_size=SIZE),), kwargs={"device": CPU}
        )
        process.start()
        process.join(generator.uniform(0, seconds))
        process.kill()
        process.join()
        counts.append(len(list(run.glob("certify/test/shard-*.jsonl"))))
    return counts


@pytest.mark.parametrize("times", [2, pytest.param(10, marks=pytest.mark.slow)])
def test_kills_at_random_moments_change_no_record(run, processes, tmp_path, times):
    settings = dataclasses.replace(SETTINGS, n_estimate=100 * times)
    whole = tmp_path / "whole"
    shutil.copytree(run, whole)
    began = time.perf_counter()
    request = Request(whole, settings, shard_size=SIZE)
    warm = processes.Process(target=certify_run, args=(request,), kwargs={"device": CPU})
    warm.start()
    warm.join()
    assert warm.exitcode == 0
    counts = kill_at_random_moments(run, processes, times=times, settings=settings, seconds=time.perf_counter() - began)
    certify(run, settings)
    assert counts == sorted(counts)
    assert content(run) == content(whole)
    assert [name for name in files(run) if not name.startswith(".")] == files(whole)


@pytest.mark.parametrize(
    ("call", "moment", "shards"),
    [
        pytest.param(("link", False), 1, 0, marks=pytest.mark.slow),  # the manifest is not there yet
        (("link", True), 1, 0),
        pytest.param(("replace", False), 1, 0, marks=pytest.mark.slow),  # nor what it is certified with
        (("replace", False), 3, 1),  # the second shard is written, but not under its name
        (("replace", True), 3, 2),
        (("fsync", False), 7, 1),  # every write pushes its file and its folder
    ],
)
def test_a_kill_at_the_worst_moment_of_a_write_loses_at_most_that_shard(
    run, processes, undisturbed, monkeypatch, call, moment, shards
):
    monkeypatch.syspath_prepend(str(Path(__file__).parents[1]))
    import dying

    process = processes.Process(
        target=dying.certify_and_die,
        args=(call, moment, Request(run, SETTINGS, shard_size=SIZE)),
        kwargs={"device": CPU},
    )
    process.start()
    process.join()
    assert process.exitcode == -signal.SIGKILL
    if shards:
        there = merge(run / "certify" / "test", partial=True).records
        assert undisturbed[: SIZE * shards] == [dataclasses.replace(record, seconds=0.0) for record in there]
    certify(run)
    assert content(run) == undisturbed


def test_any_world_gives_the_same_records_in_any_order(run, undisturbed):
    for size in (2, 5):
        ranks = list(range(size))
        random.Random(size).shuffle(ranks)
        for rank in ranks:
            certify(run, name=f"world-{size}", world=World(rank, size))
        assert content(run, f"world-{size}") == undisturbed


def test_ranks_that_begin_at_the_same_time_do_not_meet(run, processes, undisturbed):
    ranks = [
        processes.Process(
            target=certify_run,
            args=(Request(run, SETTINGS, shard_size=SIZE),),
            kwargs={"device": CPU, "world": World(rank, 3)},
        )
        for rank in range(3)
    ]
    for rank in ranks:
        rank.start()
    for rank in ranks:
        rank.join()
        assert rank.exitcode == 0
    assert content(run) == undisturbed


def test_a_rank_that_died_takes_up_its_own_shards(run, processes, undisturbed, monkeypatch):
    monkeypatch.syspath_prepend(str(Path(__file__).parents[1]))
    import dying

    def start(rank, target=certify_run, arguments=()):
        request, options = Request(run, SETTINGS, shard_size=SIZE), {"device": CPU, "world": World(rank, 3)}
        process = processes.Process(target=target, args=(*arguments, request), kwargs=options)
        process.start()
        return process

    certify(run, world=World(0, 3))  # so that the third os.replace of the others is that of a shard
    ranks = [start(1, dying.certify_and_die, (("replace", False), 2)), start(2)]
    for rank in ranks:
        rank.join()
    assert [rank.exitcode for rank in ranks] == [-signal.SIGKILL, 0]
    there = [name for name in files(run) if name[0] != "."]
    assert there == ["environment.json", "settings.json", *shard_names([0, 1, 2, 3, 5, 6])]
    with pytest.raises(IncompleteError, match="18 of 24 images, missing are 12 to 14, 21 to 23;"):
        merge(run / "certify" / "test")
    before = {name: (run / "certify" / "test" / name).stat().st_mtime_ns for name in shard_names([0, 1, 2, 3, 5, 6])}
    again = start(1)
    again.join()
    assert again.exitcode == 0
    assert content(run) == undisturbed
    assert all((run / "certify" / "test" / name).stat().st_mtime_ns == when for name, when in before.items())


@pytest.mark.parametrize("call", ["fsync", "replace"])
@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EROFS])
def test_a_full_or_read_only_disk_keeps_what_was_written(run, undisturbed, monkeypatch, call, code):
    real, allowed = getattr(os, call), iter(range(3 if call == "replace" else 8))  # the manifest is linked

    def failing(*arguments):
        if next(allowed, None) is None:
            raise OSError(code, os.strerror(code))
        return real(*arguments)

    with monkeypatch.context() as patch:
        patch.setattr(os, call, failing)
        with pytest.raises(WriteError, match=rf"shard-00002\.jsonl: {os.strerror(code)}; all that was written before"):
            certify(run)
    assert files(run) == ["environment.json", "settings.json", *shard_names(range(2))]
    certify(run)
    assert content(run) == undisturbed


def test_a_folder_that_is_read_only_from_the_start_writes_nothing(run, monkeypatch):
    real = Path.open

    def failing(path, mode="r", *arguments, **options):
        if mode != "r" and "certify" in path.parts:
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))
        return real(path, mode, *arguments, **options)

    with monkeypatch.context() as patch:
        patch.setattr(Path, "open", failing)
        with pytest.raises(WriteError, match=r"settings\.json: Permission denied"):
            certify(run)
    assert files(run) == []


def test_the_gpu_is_that_of_the_local_rank(monkeypatch):
    from ars.experiments.device import choose_device

    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    monkeypatch.setattr(torch.cuda, "set_device", lambda device: None)
    assert [choose_device("auto", local).index for local in (0, 1, 2, None)] == [0, 1, 0, None]
    assert choose_device("cpu", 1) == CPU


def test_what_another_process_wrote_meanwhile_stays(run, undisturbed, monkeypatch):
    """One asked for two images of the first shard, another for all while the first was drawing."""
    from ars.experiments.certifying import job

    real, calls = job.certify_images, []

    def slowly(*arguments):
        certificates = real(*arguments)
        if not calls:
            calls.append(None)
            certify(run)
        return certificates

    monkeypatch.setattr(job, "certify_images", slowly)
    certify(run, dataclasses.replace(SETTINGS, examples=2))
    assert content(run) == undisturbed


def test_other_test_images_are_refused(run, monkeypatch):
    from ars.data.digits import DigitsOnPhotographs

    certify(run, dataclasses.replace(SETTINGS, examples=2))
    real = DigitsOnPhotographs.examples

    def lighter(benchmark, split, indices):
        images, labels = real(benchmark, split, indices)
        return (images + 0.1).clamp(0, 1), labels

    monkeypatch.setattr(DigitsOnPhotographs, "examples", lighter)
    with pytest.raises(RecordError, match="holds records of other images: of 300 some have changed"):
        certify(run)
    certify(run, name="other")
