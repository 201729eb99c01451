"""From a plan and a stack to devices, files and regions: names, sizes, offsets, schedulers, tunables, cgroups."""

from __future__ import annotations

import re

import pytest

from blktwin.block.deadline import Deadline
from blktwin.errors import ConfigError, UsageError
from blktwin.fio import jobfile
from blktwin.fio.job import ThreadWatcher
from blktwin.lab.stack import Stack
from blktwin.lab.world import World
from blktwin.sim.devices.spec import parse_device

MIB = 1 << 20


def world(words: str, *devices: str, **stack: object) -> World:
    """Build a world with its threads."""
    plan = jobfile.load([], ["--name=job", "--rw=randread", "--direct=1", *words.split()], env={})
    made = World(plan, Stack(devices=[parse_device(text) for text in devices], **stack))  # type: ignore[arg-type]
    made.build_threads(ThreadWatcher())
    return made


def regions(made: World) -> list[tuple[str, int, int]]:
    """Return (file, offset, bytes) of every file of every thread."""
    return [
        (file.name, int(file.offset_bytes), int(file.io_bytes))
        for thread in made.threads
        for file in thread.pattern.files
    ]


def test_a_device_is_made_from_its_name() -> None:
    disk = world("--filename=/dev/sda --size=1m").disks["/dev/sda"]
    assert (disk.scheduler, disk.kind()) == ("mq-deadline", "sata-ssd")
    assert world("--filename=/dev/nvme0n1 --size=1m").disks["/dev/nvme0n1"].scheduler == "none"


def test_who_names_the_scheduler() -> None:
    """--scheduler beats the device's own, that beats the job's, that beats the kernel's default."""
    given = "/dev/sda=nvme,scheduler=mq-deadline"
    job = "--filename=/dev/sda --size=1m --ioscheduler=none"
    assert world(job, given, scheduler="none").disks["/dev/sda"].scheduler == "none"
    assert world(job, given).disks["/dev/sda"].scheduler == "mq-deadline"
    assert world(job, "/dev/sda=hdd").disks["/dev/sda"].scheduler == "none"
    assert world("--filename=/dev/sda --size=1m", "/dev/sda=hdd").disks["/dev/sda"].scheduler == "mq-deadline"


def test_an_unknown_scheduler_of_a_job_names_its_place() -> None:
    with pytest.raises(UsageError, match=r"ioscheduler: no scheduler 'deadline'.*mq-deadline"):
        world("--filename=/dev/sda --size=1m --ioscheduler=deadline")


def test_tunables_reach_all_devices_or_one() -> None:
    job = "--filename=/dev/sda:/dev/sdb:/dev/nvme0n1 --size=3m"
    made = world(job, tunables=[("iosched.fifo_batch", "5"), ("sdb.iosched.fifo_batch", "9")])
    batches = {}
    for path, disk in made.disks.items():
        elevator = disk.q.elevator
        batches[path] = int(elevator.fifo_batch) if isinstance(elevator, Deadline) else None
    assert batches == {"/dev/sda": 5, "/dev/sdb": 9, "/dev/nvme0n1": None}


def test_regions_of_clones() -> None:
    made = world("--filename=/dev/sda --size=1m --numjobs=3 --offset=8k --offset_increment=2m", "/dev/sda=hdd,size=64m")
    assert sorted(regions(made)) == [("/dev/sda", 8192 + 2 * MIB * at, MIB) for at in range(3)]


def test_size_and_offset_in_percent() -> None:
    made = world("--filename=/dev/sda --size=25% --offset=50%", "/dev/sda=hdd,size=64m")
    assert regions(made) == [("/dev/sda", 32 * MIB, 16 * MIB)]


def test_a_region_ends_with_the_device() -> None:
    made = world("--filename=/dev/sda --size=1g --offset=60m", "/dev/sda=hdd,size=64m")
    assert regions(made) == [("/dev/sda", 60 * MIB, 4 * MIB)]


def test_files_share_the_size_and_the_first_get_the_rest() -> None:
    made = world("--filename=/dev/sda:/dev/sdb:/dev/sdc --size=40k --bs=4k")
    assert [size for _, _, size in regions(made)] == [13653, 13653, 13653]
    made = world("--filename=/dev/sda:/dev/sdb:/dev/sdc --size=41k --bs=512")
    assert [size for _, _, size in regions(made)] == [13994, 13994, 13994]


def test_regular_files_lie_side_by_side_on_the_first_device() -> None:
    made = world("--filename=x --size=1m --name=two --rw=read --direct=1 --filename=y --size=10k", "/dev/sdb=hdd")
    assert {name: (disk.path, base, size) for name, (disk, base, size) in made.files.items()} == {
        "x": ("/dev/sdb", 0, MIB),
        "y": ("/dev/sdb", MIB, 12288),
    }
    assert made.notes == ["files such as x are laid out on /dev/sdb; no file system is modelled"]
    assert made.describe() == ["/dev/sdb: hdd, mq-deadline, rules 6.12"]


def test_a_device_that_no_job_uses_is_named() -> None:
    made = world("--filename=/dev/sda", "/dev/sda", "/dev/sdb=hdd")
    assert made.describe()[1] == "/dev/sdb: given with --device, used by no job"


def test_a_shared_file_is_as_long_as_its_longest_user_asks() -> None:
    made = world("--filename=x --size=1m --name=two --rw=read --direct=1 --filename=x --size=3m")
    assert [size for _, _, size in made.files.values()] == [3 * MIB]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("--filename=/dev/sda --offset=65m", "beyond the end of /dev/sda"),
        ("--filename=/dev/sda --size=8k --bs=8k --offset=67104768", "less than one block"),
        ("--filename=x", "is not a device, so the job needs size="),
        ("--filename=x --size=65m", "does not fit on /dev/sda"),
        ("--filename=/dev/sda --bs=1000", "job: bs: 1000 bytes are no multiple of the device's blocks of 512"),
        ("--filename=/dev/sda --bsrange=4k-9000", "job: bs: 9000 bytes are no multiple"),
        ("--filename=/dev/sda --bssplit=4k/50:5000/50", "job: bs: 5000 bytes are no multiple"),
        ("--filename=/dev/sda --offset=100", "job: offset: 100 bytes are no multiple"),
        ("--filename=/dev/sda --rw=read:5", "job: rw: 5 bytes are no multiple"),
        ("--filename=/dev/sda --bsrange=4k-8k --bs_unaligned", "job: bs_unaligned: lengths at random"),
    ],
)
def test_what_does_not_fit(words: str, message: str) -> None:
    with pytest.raises(ConfigError, match=re.escape(message)):
        world(words, "/dev/sda=hdd,size=64m")


def test_cgroups_nest_below_the_run() -> None:
    made = world("--filename=/dev/sda --size=1m --cgroup=b --cgroup_weight=300", cgroup="/a")
    group = made.threads[0].cgroup
    assert (group.path, group.weight) == ("/a/b", 300)


def test_threads_spread_over_the_cpus() -> None:
    made = world("--filename=/dev/sda --size=1m --numjobs=5", cpus=2)
    assert [thread.cpu for thread in made.threads] == [0, 1, 0, 1, 0]


@pytest.mark.parametrize(
    ("words", "ioprio"),
    [("", 2 << 13 | 4), ("--prio=7", 2 << 13 | 7), ("--prio=0", 2 << 13), ("--prioclass=1 --prio=3", 1 << 13 | 3)],
)
def test_a_level_without_a_class_is_best_effort(words: str, ioprio: int) -> None:
    assert world(f"--filename=/dev/sda --size=1m {words}").threads[0].ioprio == ioprio
