"""The solid-state model: channels, links, IOPS gate, cache, flush, FUA, latencies."""

from __future__ import annotations

import itertools

import pytest
from closed_loop import World, flush, list_io, random_io, read, sequential_io, write

from blktwin.block.bio import REQ_FUA, REQ_OP_DISCARD, REQ_OP_READ, REQ_OP_WRITE
from blktwin.rng import Rng
from blktwin.sim.devices.latency import TABLE_SIZE, Latency, fixed, lognormal, normal, uniform
from blktwin.sim.devices.nvme import NvmeDevice
from blktwin.sim.devices.pipes import Channels, Link

BARE = (
    "/dev/nvme0n1=seed2-nvme,latency=100us,overhead=0,channels=0,read_per_kib=0,read_mib_s=1048576,write_mib_s=1048576"
)
"""A device that is only its latency (the links pass 4 KiB in 4 ns)."""
LINK_NS = 4


def ends_ns(world: World) -> list[int]:
    """Return when the first job's I/Os ended, in the order of their numbers."""
    world.run()
    world.check_conservation()
    return [done.done_ns for done in sorted(world.jobs[0].done, key=lambda done: done.number)]


# -- channels and links


@pytest.mark.parametrize("channels", [1, 3, 8])
def test_channels_serve_in_parallel(channels: int) -> None:
    """24 requests on k channels take 24/k rounds."""
    world = World(BARE.replace("channels=0", f"channels={channels}"))
    world.job(list_io([read(8 * at) for at in range(24)]), 24)
    ends = ends_ns(world)
    for at, end in enumerate(ends):
        assert 0 <= end - 100_000 * (1 + at // channels) <= 24 * LINK_NS


def test_channels_heap_takes_the_earliest_free() -> None:
    """The heap agrees with a sorted list, whatever the times."""
    rng = Rng(5, 1)
    for count in (1, 2, 3, 7, 64, 100):
        channels, model, now = Channels(count), [0] * count, 0
        for _ in range(2000):
            now += int(rng.below(50))
            busy = int(rng.below(40 * count))
            model.sort()
            model[0] = max(model[0], now) + busy
            assert channels.serve(now, busy) == model[0]


def test_no_channels_means_no_wait() -> None:
    """0 channels serve everything at once."""
    channels = Channels(0)
    assert [int(channels.serve(5, 10)) for _ in range(3)] == [15, 15, 15]


def test_link_keeps_its_speed_without_rounding() -> None:
    """A billion ns of back-to-back units carries exactly the units of one second, to one unit."""
    link = Link(1_126_400)
    end, units = 0, 0
    while end < 1_000_000_000:
        units += 8
        end = int(link.pass_through(0, 8))
    assert units - 8 <= 1_126_400 <= units


def test_link_idles_and_starts_again() -> None:
    """A link that was free passes at once; enter() gives the start, not the end."""
    link = Link(1_000_000)
    assert link.pass_through(0, 10) == 10_000
    assert link.enter(100_000, 10) == 100_000
    assert link.enter(100_001, 10) in (110_000, 110_001)
    assert Link(0).pass_through(77, 1000) == 77


def test_read_and_write_have_links_of_their_own() -> None:
    """A full write link does not hold up a read."""
    world = World(BARE.replace("write_mib_s=1048576", "write_mib_s=1"))
    world.job(list_io([write(0, 256), write(256, 256), read(512)]), 3)
    ends = ends_ns(world)
    assert ends[0] == pytest.approx(125e6 + 100e3, abs=10)
    assert ends[1] == pytest.approx(250e6 + 100e3, abs=10)
    assert ends[2] == pytest.approx(100e3, abs=10)


@pytest.mark.parametrize(("op", "limit"), [(REQ_OP_READ, "read_mib_s=200"), (REQ_OP_WRITE, "write_mib_s=200")])
def test_bandwidth_ceiling(op: int, limit: str) -> None:
    """8 jobs reach the ceiling and no more."""
    world = World(f"/dev/nvme0n1=seed2-nvme,{limit}")
    for job in range(8):
        world.job(random_io(job, op, 8, 500))
    world.run()
    last = max(done.done_ns for job in world.jobs for done in job.done)
    assert 8 * 500 * 4096 / last * 1e9 / 2**20 == pytest.approx(200, rel=0.02)


def test_iops_gate_counts_pieces() -> None:
    """1000 IOPS let 4 KiB by every ms; a piece of 64 KiB counts as four of 16 KiB; a discard as one."""
    world = World(BARE + ",iops=1000,iops_bytes=16k,max_sectors_kb=1024")
    world.job(list_io([read(0), read(8), read(16, 128), (REQ_OP_DISCARD, 0, 0, 1 << 20), read(0)]), 5)
    starts = [round((end - 100_000) / 1e6, 2) for end in ends_ns(world)]
    assert starts == [0, 1, 2, 6, 7]


def test_size_beyond_4k_costs_by_the_kib() -> None:
    """Each KiB beyond the first four adds its time; a sector counts half."""
    world = World(BARE.replace("read_per_kib=0", "read_per_kib=2us"))
    world.job(list_io([read(0, 8), read(0, 10), read(0, 1), read(0, 64)]))
    times = [done.ns for done in world.jobs[0].done] if ends_ns(world) else []
    assert [round((ns - 100_000) / 1000, 1) for ns in times] == [0, 2, 0, 56]


def test_completions_overtake() -> None:
    """With a spread of latencies, requests end in another order than they came, each within its bounds."""
    world = World(BARE.replace("latency=100us", "latency=uniform(100us, 50%)"))
    world.job(list_io([read(8 * at) for at in range(64)]), 64)
    ends = ends_ns(world)
    assert ends != sorted(ends)
    assert 50_000 <= min(ends) < 60_000
    assert 140_000 < max(ends) <= 150_000 + 64 * LINK_NS


def test_several_queues() -> None:
    """Each CPU submits through its own hardware queue; tags of two queues do not collide."""
    world = World(BARE + ",queues=4,depth=2", cpus=4)
    for cpu in range(4):
        world.job(random_io(cpu, 0, 8, 100), 4, cpu)
    world.run()
    world.check_conservation()
    assert len(world.q.hctxs) == 4
    assert max(done.done_ns for job in world.jobs for done in job.done) == pytest.approx(50 * 100_000, rel=0.001)


# -- cache, flush, FUA

CACHED = (
    BARE.replace("latency=100us", "read=100us,write=800us,flush=50us")
    + ",cache=1m,cache_write=10us,drain_mib_s=100,write_cache=1,fua=1,max_sectors_kb=256"
)


def device_of(world: World) -> NvmeDevice:
    """Return the model behind a world."""
    device = world.device
    assert isinstance(device, NvmeDevice)
    return device


def test_limits_say_what_the_cache_is() -> None:
    """write_cache and fua reach the queue limits."""
    assert World(CACHED).limits.has_write_cache
    assert World(CACHED).limits.has_fua
    assert not World(BARE).limits.has_write_cache


def test_cached_write_is_fast_until_the_cache_is_full() -> None:
    """The first MiB goes at cache speed, what follows at the drain's."""
    world = World(CACHED)
    world.job(sequential_io(REQ_OP_WRITE, 128, 160))
    ends = ends_ns(world)
    steps = [later - before for before, later in itertools.pairwise(ends)]
    assert all(10_000 <= step < 10_200 for step in steps[:14])
    assert steps[100:] == pytest.approx([625_000] * len(steps[100:]), rel=0.001)
    assert 160 * 65536 / ends[-1] * 1e9 / 2**20 == pytest.approx(100 * 160 / (160 - 16), rel=0.02)


def test_flush_waits_for_what_is_dirty_at_its_arrival() -> None:
    """A flush takes the drain of what was written before, and its own time."""
    world = World(CACHED)
    world.job(list_io([write(0, 512), flush(), flush()]))
    done = world.jobs[0].done if ends_ns(world) else []
    dirty_ns = 256 * 1024 / (100 * 2**20) * 1e9
    assert done[1].done_ns == pytest.approx(dirty_ns + 50_000 + 250, abs=300)
    assert done[2].ns == pytest.approx(50_000, abs=10)


def test_flush_does_not_wait_for_later_writes() -> None:
    """What is written while the flush waits is not its business."""
    world = World(CACHED)
    world.job(list_io([write(0, 512), flush()]))
    world.job(sequential_io(REQ_OP_WRITE, 128, 200, 1 << 20), at_ns=50_000)
    world.run()
    flushed = world.jobs[0].done[1]
    assert flushed.done_ns < 3_000_000
    assert world.jobs[1].done[-1].done_ns > 50_000_000


def test_fua_write_pays_the_media() -> None:
    """A FUA write takes the media's time and leaves the cache alone."""
    world = World(CACHED)
    world.job(list_io([write(0, 8, REQ_FUA), write(0, 8)]))
    done = world.jobs[0].done if ends_ns(world) else []
    assert done[0].ns == pytest.approx(800_000, abs=10)
    assert done[1].ns == pytest.approx(10_000, abs=10)
    assert device_of(world).dirty_ns(done[1].done_ns) == pytest.approx(4096 / (100 * 2**20) * 1e9 - 10_000, abs=10)


def test_latency_is_of_all_operations() -> None:
    """latency= sets reads and writes, the cached ones too."""
    world = World("/dev/nvme0n1=nvme,latency=300us,overhead=0,read_mib_s=1048576,write_mib_s=1048576")
    world.job(list_io([read(0), write(0), (REQ_OP_DISCARD, 0, 0, 8)]))
    assert ends_ns(world) == pytest.approx([300_000, 600_000, 900_000], abs=20)


def test_without_a_cache_flushes_are_not_sent() -> None:
    """The block layer ends a flush at once when the device has no volatile cache."""
    world = World(BARE)
    world.job(list_io([write(0), flush(), write(8)]))
    done = world.jobs[0].done if ends_ns(world) else []
    assert [round(one.ns / 1000) for one in done] == [100, 0, 100]


# -- latencies


@pytest.mark.parametrize(
    ("latency", "mean", "low", "high"),
    [
        (fixed(5000), 5000, 5000, 5000),
        (uniform(80_000, 25), 80_000, 60_000, 100_000),
        (normal(80_000, 5_000), 80_000, 62_000, 98_000),
        (lognormal(80_000, 0.3), 80_000, 28_000, 206_000),
    ],
)
def test_latency_tables(latency: Latency, mean: int, low: int, high: int) -> None:
    """Mean, bounds, and the mean of many draws."""
    assert latency.mean_ns() == pytest.approx(mean, rel=1e-4)
    values = [int(value) for value in latency.table]
    assert values == sorted(values)
    assert low <= values[0] <= values[-1] <= high
    rng = Rng(7, 1)
    draws = [int(latency.draw(rng)) for _ in range(20_000)]
    assert sum(draws) / len(draws) == pytest.approx(mean, rel=0.01)


def test_normal_quantiles_are_right() -> None:
    """The table's quantiles are those of the normal distribution, as far as 1024 slices show them."""
    table = [int(value) for value in normal(10_000_000, 1_000_000).table]
    for share, z in ((0.5, 0.0), (0.8413447, 1.0), (0.9772499, 2.0), (0.0227501, -2.0)):
        value = table[min(TABLE_SIZE - 1, int(share * TABLE_SIZE))]
        assert (value - 10_000_000) / 1e6 == pytest.approx(z, abs=0.02)
    assert sum(value < 9_000_000 for value in table) == pytest.approx(0.1587 * TABLE_SIZE, abs=2)


def test_same_seed_same_times_and_devices_apart() -> None:
    """A seed and a path fix every time; another path draws others."""

    def times(path: str, seed: int) -> list[int]:
        world = World(f"{path}=nvme", seed=seed)
        world.job(random_io(1, 0, 8, 300), 4)
        return ends_ns(world)

    assert times("/dev/nvme0n1", 1) == times("/dev/nvme0n1", 1)
    assert times("/dev/nvme0n1", 1) != times("/dev/nvme0n1", 2)
    assert times("/dev/nvme0n1", 1) != times("/dev/nvme1n1", 1)
