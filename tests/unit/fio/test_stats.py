"""ThreadStat: depth and batch maps, latency ranges, 500 ms windows, ramp time, disabled measurements."""

from __future__ import annotations

from typing import Any

import pytest

from blktwin.fio.ddir import READ, SYNC, TRIM, WRITE
from blktwin.fio.spec import JobSpec
from blktwin.fio.stats import LATENCY_EDGES, ThreadStat

MSEC = 1_000_000


def thread(**fields: Any) -> ThreadStat:
    """Return a started thread."""
    stat = ThreadStat(JobSpec("job", **fields))
    stat.start(0)
    return stat


def done(stat: ThreadStat, now_ns: int, ddir: int = READ, nbytes: int = 4096) -> None:
    """One I/O that took 100 ns."""
    stat.issued_alone(ddir)
    stat.completed(ddir, nbytes, 100, 120, now_ns)


@pytest.mark.parametrize(
    ("depth", "column"),
    [(0, 0), (1, 0), (2, 1), (3, 1), (4, 2), (7, 2), (8, 3), (16, 4), (32, 5), (63, 5), (64, 6), (999, 6)],
)
def test_depth_columns(depth: int, column: int) -> None:
    """fio's depth levels 1, 2, 4, 8, 16, 32, >=64 are lower bounds."""
    stat = thread()
    stat.committed(5, depth)
    assert [column if n == 5 else n for n in stat.depth_map if n] == [column]
    assert stat.depth_map[column] == 5


@pytest.mark.parametrize(
    ("count", "column"),
    [(0, 0), (1, 1), (4, 1), (5, 2), (8, 2), (9, 3), (16, 3), (17, 4), (32, 4), (33, 5), (64, 5), (65, 6)],
)
def test_batch_columns(count: int, column: int) -> None:
    """fio's batch sizes 0, 4, 8, 16, 32, 64, >=64 are upper bounds."""
    stat = thread()
    stat.submitted(count)
    stat.reaped(count)
    assert stat.submit_map[column] == stat.complete_map[column] == 1


@pytest.mark.parametrize("unit", [1, 1000, 1_000_000])
@pytest.mark.parametrize("edge", LATENCY_EDGES)
def test_latency_ranges(unit: int, edge: int) -> None:
    """Each range ends below its edge: 1 ns less is in it, the edge itself in the next one."""
    place = LATENCY_EDGES.index(edge) + 10 * (1, 1000, 1_000_000).index(unit)
    stat = thread()
    stat.completed(READ, 1, edge * unit - 1, 0, 0)
    stat.completed(READ, 1, edge * unit, 0, 0)
    assert [stat.latency_map[place], stat.latency_map[place + 1]] == [1, 1]


def test_latency_range_of_two_seconds() -> None:
    """2000 ms and more share the last range."""
    stat = thread()
    for clat_ns in (1_999_999_999, 2_000_000_000, 10**12):
        stat.completed(READ, 1, clat_ns, 0, 0)
    assert list(stat.latency_map[30:]) == [1, 2]


def test_alone_is_depth_one() -> None:
    """What a synchronous engine does shows as depth 1, submitted and reaped one by one; fsyncs too, as in fio."""
    stat = thread()
    done(stat, 1, WRITE)
    stat.issued_alone(SYNC)
    stat.finish(2)
    assert (stat.depth_map[0], stat.submit_map[1], stat.complete_map[1]) == (2, 2, 2)
    assert (stat.directions[WRITE].total_ios, stat.sync_ios) == (1, 1)
    stat.finish(2)
    assert stat.depth_map[0] == 2


def test_windows_skip_empty_ones() -> None:
    """A window without I/O gives no sample, and the next one begins on its own boundary."""
    stat = thread()
    for now in (100, 200, 499):
        done(stat, now * MSEC)
    done(stat, 2600 * MSEC)
    done(stat, 2999 * MSEC, nbytes=8192)
    stat.finish(3001 * MSEC)
    lane = stat.directions[READ]
    assert (lane.bw.count, lane.bw.low, lane.bw.high) == (2, 24, 24)
    assert (lane.iops.count, lane.iops.low, lane.iops.high) == (2, 4, 6)


def test_a_window_belongs_to_the_directions_that_moved() -> None:
    """No writes in a window: no write sample, not a zero."""
    stat = thread()
    done(stat, 1 * MSEC, READ)
    done(stat, 501 * MSEC, TRIM)
    stat.finish(1001 * MSEC)
    assert [lane.bw.count for lane in stat.directions] == [1, 0, 1]


def test_no_window_ends_with_the_runtime() -> None:
    """The sample at the job's runtime limit is never taken (fio: the job is stopping)."""
    stat = thread(runtime_ns=1000 * MSEC)
    for now in range(1, 1101):
        done(stat, now * MSEC)
    stat.finish(1101 * MSEC)
    assert stat.directions[READ].bw.count == 1


def test_reset_forgets_the_ramp() -> None:
    """ramp_time: counts, windows and clocks start again."""
    stat = thread()
    done(stat, 400 * MSEC)
    stat.reset(450 * MSEC)
    done(stat, 940 * MSEC)
    done(stat, 960 * MSEC)
    stat.finish(960 * MSEC)
    lane = stat.directions[READ]
    assert (lane.total_ios, lane.io_bytes, lane.clat.count, lane.bw.count, stat.sync_ios) == (2, 8192, 2, 1, 0)
    assert (stat.runtime_ms(READ), stat.job_runtime_ms(), stat.runtime_ms(WRITE)) == (510, 510, 0)


def test_runtime_rounds_as_fio() -> None:
    """A direction's runtime rounds up from us, the job's rounds down."""
    stat = thread()
    done(stat, 1)
    stat.finish(1_001_999)
    assert (stat.runtime_ms(READ), stat.job_runtime_ms()) == (2, 1)


@pytest.mark.parametrize("kind", ["slat", "clat", "lat"])
def test_disabled_measurements(kind: str) -> None:
    """disable_slat, disable_clat and disable_lat each switch off one, and clat the ranges and fsyncs with it."""
    stat = thread(**{f"disable_{kind}": True})
    stat.add_slat(READ, 10)
    done(stat, 1)
    stat.synced(5)
    lane = stat.directions[READ]
    counts = {"slat": lane.slat.count, "clat": lane.clat.count, "lat": lane.lat.count}
    assert counts == {name: int(name != kind) for name in counts}
    assert sum(stat.latency_map) == stat.sync.count == int(kind != "clat")


@pytest.mark.parametrize(
    ("fields", "bins"), [({}, "clat"), ({"lat_percentiles": True, "clat_percentiles": False}, "lat")]
)
def test_bins_only_where_percentiles_are(fields: dict[str, bool], bins: str) -> None:
    """clat has a histogram by default; lat and slat when asked for."""
    lane = thread(**fields).directions[WRITE]
    assert {name for name in ("slat", "clat", "lat") if getattr(lane, name).has_bins} == {bins}
