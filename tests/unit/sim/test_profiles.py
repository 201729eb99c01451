"""Device profiles, --device, and every mistake in them; the profiles do what their sources say."""

from __future__ import annotations

import pytest
from closed_loop import World, random_io, sequential_io

from blktwin.block.bio import REQ_OP_READ, REQ_OP_WRITE
from blktwin.errors import ConfigError, UsageError
from blktwin.sim.devices import quantity
from blktwin.sim.devices.build import build_device, default_scheduler
from blktwin.sim.devices.options import OPTION_LIST, parse_value
from blktwin.sim.devices.profiles import builtin_profiles, parse_profiles
from blktwin.sim.devices.spec import default_profile, parse_device
from blktwin.sim.hosts import get_host


def rate(device: str, jobs: int, op: int, sectors: int, depth: int, count: int, *, seq: bool = False) -> float:
    """Return the bytes a second of some jobs on an idle 32-CPU server."""
    world = World(device, cpus=32, costs=get_host("server").cost_table())
    for job in range(jobs):
        ios = sequential_io(op, sectors, count, job << 22) if seq else random_io(job, op, sectors, count)
        world.job(ios, depth, job)
    world.run()
    world.check_conservation()
    return jobs * count * sectors * 512 * 1e9 / max(done.done_ns for job in world.jobs for done in job.done)


# -- the profiles keep the numbers of their sources


def test_seed2_writers() -> None:
    """8 psync writers reach 550 MiB/s; a lone one stays a bit below the 349 of BFQ's partial serialisation."""
    device = "/dev/nvme0n1=seed2-nvme"
    assert rate(device, 8, REQ_OP_WRITE, 8, 1, 2000) / 2**20 == pytest.approx(550, rel=0.005)
    assert 300 < rate(device, 1, REQ_OP_WRITE, 8, 1, 5000) / 2**20 < 330
    assert World(device).q.capacity_sectors * 512 >= 100 * 2**30


def test_sata_ssd_keeps_case_26() -> None:
    """rbps=348757337 rrandiops=60273 wbps=233318819 wrandiops=56147, within 5%."""
    device = "/dev/sda=sata-ssd"
    assert rate(device, 4, REQ_OP_READ, 8, 8, 2000) / 4096 == pytest.approx(60273, rel=0.05)
    assert rate(device, 4, REQ_OP_READ, 256, 8, 300, seq=True) == pytest.approx(348757337, rel=0.05)
    assert rate(device, 4, REQ_OP_WRITE, 8, 8, 10000) / 4096 == pytest.approx(56147, rel=0.05)
    assert rate(device, 4, REQ_OP_WRITE, 256, 8, 500, seq=True) == pytest.approx(233318819, rel=0.05)


@pytest.mark.parametrize(
    ("device", "op", "depth_one", "depth_many"),
    [
        ("/dev/nvme0n1=nvme", REQ_OP_READ, 1e9 / 89e3, 490e3),
        ("/dev/nvme0n1=nvme-consumer", REQ_OP_READ, 15e3, 500e3),
        ("/dev/nvme0n1=nvme-consumer", REQ_OP_WRITE, 50e3, 450e3),
        ("/dev/mmcblk0=emmc", REQ_OP_READ, 7.6e3, 11e3),
        ("/dev/mmcblk0=emmc", REQ_OP_WRITE, 7.6e3, 13e3),
        ("/dev/nvme1n1=ebs", REQ_OP_WRITE, 3.9e3, 169e3),
        ("/dev/vda=virtual", REQ_OP_READ, 19.2e3, 89.2e3),
    ],
)
def test_random_iops(device: str, op: int, depth_one: float, depth_many: float) -> None:
    """4k IOPS at depth 1 and with many in flight: the sources' figures (15%: some are rated, some rounded)."""
    assert rate(device, 1, op, 8, 1, 2000) / 4096 == pytest.approx(depth_one, rel=0.15)
    assert rate(device, 8, op, 8, 32, 1500) / 4096 == pytest.approx(depth_many, rel=0.15)


def test_every_profile_builds_and_names_its_source() -> None:
    """Each one makes a device that reads and writes."""
    for name, profile in builtin_profiles().items():
        assert len(profile.source) > 40, name
        world = World(f"/dev/nvme0n1={name}")
        world.job(random_io(1, REQ_OP_WRITE, 8, 5))
        world.job(random_io(2, REQ_OP_READ, 8, 5))
        world.run()
        world.check_conservation()


# -- --device


@pytest.mark.parametrize(
    ("path", "profile"),
    [
        ("/dev/nvme0n1", "nvme"),
        ("/dev/nvme10n2", "nvme"),
        ("/dev/nvme0c1n1", "nvme"),
        ("/dev/nullb0", "null"),
        ("/dev/sda", "sata-ssd"),
        ("/dev/sdaa", "sata-ssd"),
        ("/dev/mmcblk0", "emmc"),
        ("/dev/vdb", "virtual"),
        ("/dev/xvdf", "virtual"),
        ("/dev/nvme0", ""),
        ("/dev/loop0", ""),
        ("/dev/sd", ""),
        ("/dev/mapper/x", ""),
    ],
)
def test_defaults_by_name(path: str, profile: str) -> None:
    """The kernel's names choose a profile."""
    assert default_profile(path) == profile
    if profile:
        assert parse_device(path).profile.name == profile


def test_spec_sets_everything() -> None:
    """Each key reaches the device, the limits or the spec."""
    world = World("/dev/nullb0")
    spec = parse_device(
        "/dev/nvme0n1=seed2-nvme,size=300g,latency=100us,depth=64,queues=4,lbs=4096,rotational=1,write_cache=1,fua=1,"
        "max_sectors_kb=512,max_segments=64,scheduler=mq-deadline,nr_requests=32,nomerges=2,rq_affinity=0"
    )
    device, limits, queues, depth, capacity = build_device(world.machine, spec, 1)
    assert (queues, depth, capacity) == (1, 64, 300 * 2**21)
    assert (limits.logical_block_bytes, limits.max_sectors, limits.max_segments) == (4096, 1024, 64)
    assert (limits.is_rotational, limits.has_write_cache, limits.has_fua) == (True, True, True)
    assert (spec.scheduler, spec.name, spec.path) == ("mq-deadline", "nvme0n1", "/dev/nvme0n1")
    assert [spec.number(key, -1) for key in ("nr_requests", "nomerges", "rq_affinity")] == [32, 2, 0]
    assert parse_device("/dev/nvme0n1").number("nr_requests", -1) == -1
    assert len(device.slots) == 64


def test_forms_of_a_spec() -> None:
    """A profile may be left out; a latency may hold commas; spaces do not matter."""
    assert parse_device("/dev/nvme0n1,size=10g").number("size") == 10 * 2**30
    spec = parse_device("/dev/nvme0n1 = nvme , read = lognormal(50us, 0.3) , channels = 4")
    assert spec.number("channels") == 4
    assert sorted(spec.given) == ["channels", "read"]
    assert parse_device("/dev/weird=null").profile.name == "null"
    assert parse_device("/dev/sda=hdd").profile.model == "hdd"


def test_scheduler_the_kernel_attaches() -> None:
    """One queue gets mq-deadline, several get none."""
    assert default_scheduler(1) == "mq-deadline"
    assert default_scheduler(2) == "none"


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "is not a path"),
        ("nvme0n1", "is not a path"),
        ("/dev/", "is not a path"),
        ("/dev/loop7", "--device /dev/loop7=PROFILE"),
        ("/dev/dm-0,size=1g", "seed2-nvme"),
        ("/dev/nvme0n1=seed2", "did you mean seed2-nvme?"),
        ("/dev/nvme0n1=", "there are null"),
        ("/dev/nvme0n1=zzz", "there are null"),
        ("/dev/nvme0n1=nvme,dept=3", "dept: no such key of a device; did you mean depth?"),
        ("/dev/nvme0n1=nvme,depth", "depth: no value"),
        ("/dev/nvme0n1=nvme,,size=1g", "no value"),
        ("/dev/nvme0n1=nvme,depth=0", "depth: 0 is out of range: 1 to 10240"),
        ("/dev/nvme0n1=nvme,depth=-1", "depth: '-1' is not a whole number"),
        ("/dev/nvme0n1=nvme,depth=64k", "not a whole number"),
        ("/dev/nvme0n1=nvme,depth=3,depth=4", "given twice"),
        ("/dev/nvme0n1=nvme,size=10x", "size: '10x' is not a size"),
        ("/dev/nvme0n1=nvme,size=1k", "1k is out of range: 1m to 4096p"),
        ("/dev/nvme0n1=nvme,size=" + "9" * 5000, "is not a size"),
        ("/dev/nvme0n1=nvme,latency=100", "100us"),
        ("/dev/nvme0n1=nvme,latency=9999s", "out of range: 0 to 100s"),
        ("/dev/nvme0n1=nvme,read=lognormal(80us)", "is not a latency"),
        ("/dev/nvme0n1=nvme,read=lognormal(80us, 9)", "sigma"),
        ("/dev/nvme0n1=nvme,read=uniform(80us, 200%)", "spread"),
        ("/dev/nvme0n1=nvme,read=uniform(80us, nan)", "spread"),
        ("/dev/nvme0n1=nvme,read=normal(80us, x)", "is not a time"),
        ("/dev/nvme0n1=nvme,lbs=1000", "power of two"),
        ("/dev/nvme0n1=nvme,lbs=256", "512 to 64k"),
        ("/dev/nvme0n1=nvme,lbs=64k,max_sectors_kb=4", "less than one logical block"),
        ("/dev/nvme0n1=nvme,rotational=maybe", "neither 0 nor 1"),
        ("/dev/nvme0n1=nvme,scheduler=bqf", "did you mean bfq?"),
        ("/dev/nvme0n1=nvme,fua=1", "fua without write_cache"),
        ("/dev/nvme0n1=nvme,read_mib_s=0", "out of range: 1 to"),
        ("/dev/nvme0n1=nvme,read_mib_s=fast", "not a number of MiB/s"),
        ("/dev/nvme0n1=nvme,rpm=7200", "rpm: a nvme device has no such key, only hdd"),
        ("/dev/nvme0n1=seed2-nvme,cache=1m", "needs cache_write and drain_mib_s"),
        ("/dev/nvme0n1=seed2-nvme,drain_mib_s=5", "need a cache"),
        ("/dev/sda=hdd,seek_min=20ms", "seek_min is above seek_max"),
    ],
)
def test_bad_specs_give_one_line(text: str, says: str) -> None:
    """Each mistake names itself and the near match, in one line."""
    with pytest.raises(UsageError) as caught:
        parse_device(text)
    assert says in str(caught.value)
    assert "\n" not in str(caught.value)


# -- profiles.toml

GOOD = '[mine]\nsource = "measured"\nmodel = "nvme"\nsize = "1g"\nread = "80us"\nwrite = "20us"\n'


def test_a_users_file() -> None:
    """A file of the same form gives profiles for --device."""
    profiles = parse_profiles(GOOD + "read_mib_s = 332.6\nwrite_cache = true\n", "mine.toml")
    spec = parse_device("/dev/sda=mine", profiles)
    assert spec.number("read_mib_s") == 332.6 * 2**20 // 1
    assert spec.number("write_cache") == 1


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("[mine\n", "mine.toml: not TOML"),
        ("x = 1\n", "mine.toml:1: x: only tables"),
        (GOOD + "chanels = 3\n", "mine.toml:7: mine.chanels: no such key of a device; did you mean channels?"),
        (
            GOOD.replace('"nvme"', '"nvmee"'),
            "mine.toml:1: mine.model: must be one of null, nvme, hdd; did you mean nvme?",
        ),
        (GOOD.replace('model = "nvme"\n', ""), "mine.model: must be one of"),
        (GOOD.replace('source = "measured"\n', ""), "mine.source: must say where"),
        (GOOD.replace('"measured"', '" "'), "mine.source: must say where"),
        (GOOD.replace('"80us"', "80"), "mine.toml:5: mine.read: '80' is not a time"),
        (GOOD.replace('"80us"', "true"), "mine.read: media time of a read up to 4 KiB: true is not a latency"),
        (GOOD.replace('"80us"', "[1]"), "a list is not a latency"),
        (GOOD + "channels = 1.5\n", "mine.toml:7: mine.channels: '1.5' is not a whole number"),
        (GOOD + "channels = 5000\n", "out of range: 0 to 4096"),
        (GOOD + "iops = 3\n", "out of range: 10 to"),
        (GOOD + 'cache = "1m"\n', "mine.toml:1: mine: a cache needs"),
        (GOOD.replace('read = "80us"\n', ""), "mine.toml:1: mine: a nvme device needs read"),
        (
            GOOD + '[other]\nsource = "s"\nmodel = "null"\nsize = "1g"\nchannels = 2\n',
            "mine.toml:11: other.channels: a null",
        ),
        (GOOD + "[mine.more]\nx = 1\n", "mine.more: no such key"),
    ],
)
def test_bad_profiles_name_file_line_and_key(text: str, says: str) -> None:
    """Each mistake in a table is found, with its place."""
    with pytest.raises(ConfigError) as caught:
        parse_profiles(text, "mine.toml")
    assert says in str(caught.value)
    assert "\n" not in str(caught.value)


def test_option_table() -> None:
    """Names are unique, and both ends of each range are accepted as they are shown."""
    assert len({option.name for option in OPTION_LIST}) == len(OPTION_LIST)
    for option in OPTION_LIST:
        if option.kind in ("whole number", "flag"):
            assert parse_value(option, option.low) == option.low
            assert parse_value(option, str(option.high)) == option.high
            with pytest.raises(ConfigError):
                parse_value(option, option.high + 1)


@pytest.mark.parametrize(
    ("text", "value"), [("1", 1), ("4k", 4096), ("4KiB", 4096), ("4kb", 4096), ("1.5g", 3 << 29), ("2T", 1 << 41)]
)
def test_sizes(text: str, value: int) -> None:
    """Sizes are powers of 1024."""
    assert quantity.size_bytes(text) == value


@pytest.mark.parametrize(("text", "value"), [("0", 0), ("7ns", 7), ("1.5us", 1500), ("2 ms", 2_000_000), ("1s", 10**9)])
def test_times(text: str, value: int) -> None:
    """Times are ns."""
    assert quantity.time_ns(text) == value
