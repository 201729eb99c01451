"""The loop driver of a real 6.12 comes out of the model: ratios of policies to the device, the latency of one job."""

from __future__ import annotations

from pathlib import Path

import pytest

import blktwin.fio.job
from blktwin.fio import jobfile
from blktwin.fio.ddir import READ
from blktwin.fio.hist import LatencyStat
from blktwin.lab.loop_fit import fit
from blktwin.lab.loop_report import again, table
from blktwin.lab.loop_truth import (
    AGAIN,
    FITTED_LOOP_ROW,
    HOST,
    JOBS,
    LOOP,
    NULLB,
    POLICIES,
    QD1_JOBS,
    QD1_LIMIT,
    RATIO_LIMIT,
    RAW,
    LoopRow,
    compare,
    measure,
    read_rows,
    row_jobs,
    run_row,
    stack_of,
)
from blktwin.lab.run import collect, drive, prepare
from blktwin.lab.truth import Point
from blktwin.sim.fair import entity_of
from blktwin.sim.hosts import get_host

TRUTH = Path(__file__).parents[1] / "data" / "truth"
COMPILED = not blktwin.fio.job.__file__.endswith(".py")
needs_speed = pytest.mark.skipif(not COMPILED, reason="minutes when interpreted: make test compiles")


@pytest.fixture(scope="module")
def rows() -> list[LoopRow]:
    """Run every row as the accuracy page does."""
    return compare(TRUTH)


def test_the_rows_are_those_of_the_file() -> None:
    names = list(read_rows(TRUTH))
    assert len(names) == 16
    assert {name.partition(".")[0] for name in names} == {RAW, *POLICIES}
    assert {name.partition(".")[2] for name in names} == set(JOBS)
    assert (RATIO_LIMIT, QD1_LIMIT) == (0.10, 0.05)


def test_a_ratio_or_the_latency_of_one_job_can_miss() -> None:
    raw = Point(100_000, 20)
    assert LoopRow("x.aio1x32rr", Point(50_000, 1), Point(54_900, 9), raw, raw).is_within
    assert not LoopRow("x.aio1x32rr", Point(50_000, 1), Point(55_100, 9), raw, raw).is_within
    assert LoopRow(f"x.{QD1_JOBS}", Point(50_000, 100), Point(50_000, 104), raw, raw).is_within
    missed = LoopRow(f"x.{QD1_JOBS}", Point(50_000, 100), Point(50_000, 106), raw, raw)
    assert not missed.is_within
    assert "**missed**" in table([missed])[-1]


@needs_speed
def test_every_row_holds_its_limits(rows: list[LoopRow]) -> None:
    """Ratios to raw within 10%, one job's latency within 5%; one loop row was fitted, no other."""
    assert [row.name for row in rows if row.is_fitted and row.policy != RAW] == [FITTED_LOOP_ROW]
    assert sum(row.is_fitted for row in rows) == 5
    assert {row.name: (row.ratio_error, row.lat_error) for row in rows if not row.is_within} == {}
    alone = [row for row in rows if row.jobs == QD1_JOBS]
    assert len(alone) == 4


@needs_speed
def test_raw_rows_are_near_themselves(rows: list[LoopRow]) -> None:
    """All of them but the one in which the guest was still booting, which the second measurement has."""
    truth = read_rows(TRUTH, AGAIN)
    near = {row.name: row.model.iops / truth[row.name].iops - 1 for row in rows if row.policy == RAW}
    assert len(near) == 5
    assert {name: error for name, error in near.items() if abs(error) > 0.03} == {}


@needs_speed
def test_the_second_measurement_is_within_the_limits_too(rows: list[LoopRow], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(TRUTH.parents[2])
    truth = read_rows(TRUTH, AGAIN)
    for row in rows:
        if row.policy == "workqueue":
            kernel = truth[row.name].iops / truth[f"{RAW}.{row.jobs}"].iops
            assert row.ratio_model == pytest.approx(kernel, rel=RATIO_LIMIT), row.name
    assert "Measured again" in again(rows)[0]


@needs_speed
@pytest.mark.parametrize(("policy", "half_ns", "limit"), [(RAW, 162_800, 0.1), ("nowait_first", 216_000, 0.2)])
def test_jobs_that_never_sleep_keep_the_cpu_for_a_tick(policy: str, half_ns: int, limit: float) -> None:
    """Twelve of them: most I/Os end within 16 others, and the last hundredth waits for 11 ticks of 4 ms."""
    result = run_row(f"{policy}.aio12x16rw", get_host(HOST))
    clat = LatencyStat()
    for job in result.jobs:
        clat.merge(job.stat.directions[READ].clat)
    half, last = clat.percentiles([50.0, 99.0])
    assert half == pytest.approx(half_ns, rel=0.1)
    assert last == pytest.approx(44_300_000, rel=limit)


def switches(jobs: str, policy: str) -> tuple[float, float]:
    """Return how often jobs slept and how often they lost the CPU, per I/O."""
    device = NULLB if policy == RAW else LOOP
    world, schedule = prepare(jobfile.load([], row_jobs(jobs, device), env={}), stack_of(policy, get_host(HOST)))
    drive(world, schedule)
    collect(world, schedule, False)
    nr_ios = sum(int(thread.nr_completed) for thread in world.threads)
    slept = sum(int(thread.nr_switches) for thread in world.threads)
    lost = sum(int(entity_of(thread).nr_preempted) for thread in world.threads)
    return slept / nr_ios, lost / nr_ios


def test_the_worker_takes_the_cpu_at_every_request_it_is_given() -> None:
    """Kernel: 17,200 context switches of 19,034 I/Os with depth 32; one a batch of 16."""
    slept, lost = switches("aio1x32rr", "workqueue")
    assert slept < 0.02
    assert lost == pytest.approx(0.9, abs=0.08)
    slept, lost = switches("aio1x32b16", "workqueue")
    assert slept < 0.02
    assert lost == pytest.approx(1 / 16, rel=0.35)
    assert switches("aio1x32rr", RAW)[1] < 0.01


def test_jobs_sleep_for_tags_that_are_gone_when_they_run() -> None:
    """Kernel: 0.99 sleeps an I/O with 192 requests for 128 tags, none on the device itself."""
    slept, _ = switches("aio12x16rw", "workqueue")
    assert 0.6 < slept < 1.1
    assert switches("aio12x16rw", RAW)[0] < 0.01


@needs_speed
@pytest.mark.slow
def test_a_fresh_fit_gives_the_host(monkeypatch: pytest.MonkeyPatch) -> None:
    """To a few per cent of the rows: they jump a little with the costs."""
    monkeypatch.chdir(TRUTH.parents[2])
    costs = get_host(HOST).costs
    found = fit()
    assert set(found) == {"user_io", "idle_exit", "aio_prep", "irq_shared", "sleep", "loop_lock"}
    for name, value in found.items():
        assert abs(value - costs[name]) <= 150, name
    host = get_host(HOST)
    assert measure("raw.psync1rr", host).lat_us == pytest.approx(29.18, rel=0.01)
