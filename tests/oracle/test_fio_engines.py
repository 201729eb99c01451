"""The engines against real fio 3.33: how much they do, how they batch, how long rates and pauses make them run."""

from __future__ import annotations

from pathlib import Path

import pytest
from fio_pair import counts, fio_json, maps, model_json, pairs
from oracles import against_the_clock

pytestmark = pytest.mark.oracle

COMMON = "--size=256k --bs=4k --direct=1"

EXACT = [
    "--ioengine=psync --rw=write",
    "--ioengine=psync --rw=write --fsync=4",
    "--ioengine=psync --rw=write --fdatasync=4",
    "--ioengine=psync --rw=write --fsync=4 --fdatasync=3",
    "--ioengine=psync --rw=randrw --fsync=5 --end_fsync=1",
    "--ioengine=sync --rw=write --end_fsync=1 --loops=2",
    "--ioengine=libaio --rw=write --end_fsync=1",
    "--ioengine=io_uring --rw=write --end_fsync=1",
    "--ioengine=pvsync2 --rw=randread",
    "--ioengine=libaio --rw=read",
    "--ioengine=libaio --rw=randread --iodepth=4",
    "--ioengine=libaio --rw=read --iodepth=8 --iodepth_batch=4 --iodepth_batch_complete_min=4",
    "--ioengine=libaio --rw=read --iodepth=8 --iodepth_batch_complete_min=0",
    "--ioengine=libaio --rw=read --iodepth=16 --iodepth_batch=8 --iodepth_batch_complete_min=8",
    "--ioengine=libaio --rw=read --iodepth=120 --iodepth_batch=120 --iodepth_batch_complete_min=120",
    "--ioengine=libaio --rw=read --iodepth=8 --iodepth_batch=5 --iodepth_batch_complete_min=8",
    "--ioengine=libaio --rw=write --iodepth=2 --fsync=8",
    "--ioengine=io_uring --rw=read",
    "--ioengine=io_uring --rw=randread --iodepth=4",
    "--ioengine=io_uring --rw=read --iodepth=8 --iodepth_batch=4 --iodepth_batch_complete_min=4",
    "--ioengine=io_uring --rw=read --iodepth=8 --iodepth_batch_complete_min=0",
    "--ioengine=posixaio --rw=read",
    "--ioengine=null --rw=read",
    "--ioengine=null --rw=read --iodepth=4",
    "--ioengine=null --rw=read --iodepth=8 --iodepth_batch=4",
    "--ioengine=null --rw=write --fsync=4",
]
"""Jobs whose depth maps do not depend on how fast the device is."""


def test_counts_and_batches(tmp_path: Path) -> None:
    for job, model, real in pairs(EXACT, COMMON, tmp_path):
        assert (job, counts(model)) == (job, counts(real))
        assert (job, maps(model)) == (job, maps(real))


SUBMITS = ("iodepth_level", "iodepth_submit")
LOOSE = [
    ("--ioengine=libaio --rw=read --iodepth=16 --iodepth_batch=8 --iodepth_low=4", SUBMITS),
    (
        "--ioengine=libaio --rw=read --iodepth=16 --iodepth_batch=4 --iodepth_batch_complete_min=2 --iodepth_low=8",
        SUBMITS,
    ),
    ("--ioengine=libaio --rw=read --iodepth=16 --iodepth_batch_complete_min=4 --iodepth_batch_complete_max=8", SUBMITS),
    ("--ioengine=libaio --rw=read --iodepth=8 --iodepth_batch=5", SUBMITS),
    ("--ioengine=libaio --rw=write --iodepth=8 --fsync=4", SUBMITS),
    ("--ioengine=io_uring --rw=read --iodepth=16 --iodepth_batch=8 --iodepth_low=4", SUBMITS),
    ("--ioengine=posixaio --rw=read --iodepth=8 --iodepth_batch=4", SUBMITS),
]
"""Jobs whose completions arrive in bunches that depend on the device, and the maps that do not depend much on that."""


def test_batches_nearly(tmp_path: Path) -> None:
    names = [names for _, names in LOOSE]
    rows = pairs([job for job, _ in LOOSE], COMMON, tmp_path)
    for (job, model, real), maps_alike in zip(rows, names, strict=True):
        assert {**counts(model), "sync": 0} == {**counts(real), "sync": 0}, job
        assert abs(model["sync"]["total_ios"] - real["sync"]["total_ios"]) <= 1, job
        for name in maps_alike:
            for key, share in real[name].items():
                assert abs(model[name][key] - share) < 15, (job, name, key, model[name], real[name])


def test_a_queued_sync_is_due_again_until_it_completes(tmp_path: Path) -> None:
    """fio looks at the last completion: until the queued fsync is done it queues more of them."""
    jobs = [f"--ioengine={engine} --iodepth={depth}" for engine in ("io_uring", "posixaio") for depth in (1, 8)]
    for job, model, real in pairs(jobs, f"{COMMON} --rw=write --fsync=4", tmp_path):
        low, high = (15, 15) if job.endswith("=1") else (16, 7 * 16)
        for one in (model, real):
            assert one["write"]["total_ios"] == 64
            assert low <= one["sync"]["total_ios"] <= high, job


AMOUNTS = [
    "--rw=read --number_ios=5 --loops=2",
    "--rw=read --io_size=400k",
    "--rw=rw --io_size=400k",
    "--rw=read --io_size=400k --loops=2",
    "--rw=randrw --io_size=400k --loops=2",
    "--rw=randread --io_size=100k --loops=3",
    "--rw=randread --norandommap --loops=3",
    "--rw=randwrite --norandommap --io_size=400k",
    "--rw=randread --bs=3584",
    "--rw=randrw --bsrange=4k-16k",
    "--rw=randrw --bs=4k,8k --loops=2",
    "--rw=read --filename=a:b --loops=2",
    "--rw=write --fsync=3 --filename=x:y:z",
    "--rw=read --filename=e --filename=f:g",
    "--rw=rw --rwmixread=90 --number_ios=33",
    "--rw=randread:4 --bs=8k --io_size=1m",
    "--rw=read --size=100k --bs=8k --loops=2",
]


@pytest.mark.parametrize("engine", ["null", "psync", "libaio --iodepth=4"])
def test_amounts(engine: str, tmp_path: Path) -> None:
    for job, model, real in pairs(AMOUNTS, f"{COMMON} --ioengine={engine}", tmp_path):
        assert (job, counts(model)) == (job, counts(real))


TRIMS = ["--rw=trimwrite", "--rw=trimwrite --loops=2", "--rw=trimwrite --number_ios=10", "--rw=randtrimwrite",
         "--rw=randtrim", "--rw=trimwrite --iodepth=4"]  # fmt: skip


def test_trims(tmp_path: Path) -> None:
    for job, model, real in pairs(TRIMS, f"{COMMON} --ioengine=null", tmp_path):
        assert (job, counts(model)) == (job, counts(real))


TIMED = [
    ("--rw=read --rate=1m", 4),
    ("--rw=read --rate_iops=200", 5),
    ("--rw=rw --rate_iops=200,100", 6),
    ("--rw=rw --rate=1m,256k --rwmixread=50", 6),
    ("--rw=randread --rate_iops=300 --rate_process=poisson", 8),
    ("--rw=rw --rate_iops=300 --rate_process=poisson", 8),
    ("--rw=read --rate=512k --number_ios=40", 4),
    ("--rw=read --rate_iops=100 --runtime=300ms", 3),
    ("--rw=read --rate_iops=100 --runtime=300ms --time_based", 3),
    ("--rw=read --bs=4k-16k --rate=1m", 16),
    ("--rw=read --thinktime=5ms --thinktime_blocks=4", 12),
    ("--rw=read --thinktime=20ms --thinktime_blocks=16 --thinktime_spin=1ms", 8),
    ("--rw=read --thinktime=20ms --thinktime_blocks=8 --rate=512k", 25),
    ("--rw=read --thinktime=20ms --thinktime_blocks=8 --rate=512k --rate_ignore_thinktime=1", 25),
    ("--rw=read --thinktime=5ms --thinktime_blocks=4 --thinktime_blocks_type=issue", 12),
    ("--rw=write --rate_iops=200 --fsync=4", 5),
    ("--rw=read --rate_iops=500 --thinktime=10ms --thinktime_iotime=20ms", 25),
    ("--rw=randrw --rate_iops=200,200 --rwmixread=20 --number_ios=40", 20),
    ("--rw=trimwrite --rate_iops=,300 --number_ios=20", 10),
]
"""Jobs that their own options slow down, and by how many ms fio may be late."""


@against_the_clock
def test_paced_jobs_run_as_long(tmp_path: Path) -> None:
    late_ms = [late for _, late in TIMED]
    rows = pairs([job for job, _ in TIMED], f"{COMMON} --ioengine=null", tmp_path)
    for (job, model, real), limit in zip(rows, late_ms, strict=True):
        assert model["error"] == real["error"] == 0
        assert model["sync"]["total_ios"] == real["sync"]["total_ios"]
        # Which direction a mix turns to when both are late depends on how late they are.
        slack = 6 if "--rw=rw" in job else 0
        for ddir in ("read", "write"):
            assert abs(model[ddir]["total_ios"] - real[ddir]["total_ios"]) <= slack, job
        late = real["job_runtime"] - model["job_runtime"]
        assert -2 <= late <= limit + 30, (job, late)


@against_the_clock
def test_rate_with_depth(tmp_path: Path) -> None:
    """Before it sleeps for the rate, fio hands over what is queued and reaps all of it."""
    jobs = ["--rw=read", "--rw=read --iodepth_batch=4"]
    for job, model, real in pairs(jobs, f"{COMMON} --ioengine=libaio --iodepth=8 --rate_iops=200", tmp_path):
        assert (job, counts(model)) == (job, counts(real))
        assert model["read"]["clat_ns"]["max"] < 2_000_000
        # A fio that comes late does not sleep, and hands over more.
        for name, shares in maps(model).items():
            assert all(abs(real[name][key] - share) < 20 for key, share in shares.items()), (job, name, real[name])


@pytest.mark.slow
@pytest.mark.parametrize(
    "job",
    ["--ramp_time=300ms --runtime=400ms --time_based --rate_iops=100", "--runtime=500ms --time_based --rate_iops=50"],
)
@against_the_clock
def test_ramp_and_runtime(job: str, tmp_path: Path) -> None:
    words = ["--name=job", "--filename=file", *COMMON.split(), "--ioengine=null", "--rw=read", *job.split()]
    [real] = fio_json(words, tmp_path)["jobs"]
    [model] = model_json(words)["jobs"]
    assert abs(real["read"]["total_ios"] - model["read"]["total_ios"]) <= 1
    assert 0 <= real["job_runtime"] - model["job_runtime"] <= 25


@pytest.mark.slow
@against_the_clock
def test_a_missed_minimum_rate_ends_the_job(tmp_path: Path) -> None:
    words = ["--name=job", "--filename=file", "--size=64k", "--bs=1k", "--ioengine=null", "--rw=read"]
    words += ["--thinktime=60ms", "--rate_iops_min=1000", "--ratecycle=100"]
    [real] = fio_json(words, tmp_path, code=1)["jobs"]
    [model] = model_json(words)["jobs"]
    assert model["error"] == real["error"] == 5
    assert abs(real["read"]["total_ios"] - model["read"]["total_ios"]) <= 2


def test_groups(tmp_path: Path) -> None:
    """stonewall, new_group, wait_for, numjobs and group_reporting: who is reported with whom, after whom."""
    words = ["--name=global", "--filename=file", *COMMON.split(), "--ioengine=null", "--rw=read", "--group_reporting=1"]
    words += ["--name=a", "--numjobs=3", "--name=b", "--new_group", "--name=c", "--stonewall", "--rw=write"]
    words += ["--name=d", "--wait_for=a", "--numjobs=2"]
    real = fio_json(words, tmp_path)["jobs"]
    model = model_json(words)["jobs"]
    assert [(job["jobname"], job["groupid"], counts(job)) for job in model] == [
        (job["jobname"], job["groupid"], counts(job)) for job in real
    ]


@against_the_clock
def test_exitall_stops_its_group(tmp_path: Path) -> None:
    """exitall in one job counts for all: the first that ends stops the others of its group, not other groups."""
    words = ["--name=global", "--filename=file", "--size=1m", "--ioengine=null", "--rw=read", "--exitall"]
    words += ["--name=quick", "--number_ios=3", "--name=long", "--rate_iops=50"]
    words += ["--name=apart", "--new_group", "--number_ios=20", "--rate_iops=100"]
    real = {job["jobname"]: job for job in fio_json(words, tmp_path)["jobs"]}
    model = {job["jobname"]: job for job in model_json(words)["jobs"]}
    assert counts(model["quick"]) == counts(real["quick"])
    for jobs in (real, model):
        assert jobs["long"]["read"]["total_ios"] < 60
    # A busy machine may let fio's main process end the other group as well.
    assert real["apart"]["read"]["total_ios"] <= model["apart"]["read"]["total_ios"] == 20
