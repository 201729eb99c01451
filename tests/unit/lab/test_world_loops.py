"""From a stack file to files, loop devices and mounts in a world."""

from __future__ import annotations

import pytest

from blktwin.errors import ConfigError, UsageError
from blktwin.fio import jobfile
from blktwin.fio.job import ThreadWatcher
from blktwin.lab.stack_build import assemble
from blktwin.lab.stack_file import parse_stack
from blktwin.lab.world import World
from blktwin.lab.world_disks import LoopDisk
from blktwin.sim.devices.spec import parse_device

GIB = 1 << 30
BASE = """
[device."/dev/sda"]
[device."/dev/sdb"]
profile = "hdd"
[file."/data/disk.img"]
size = "1g"
on = "/dev/sdb"
[loop.loop0]
backing-file = "/data/disk.img"
"""


def world(text: str, words: str = "--filename=/dev/loop0 --size=1m", **options: object) -> World:
    """Build a world with its threads."""
    plan = jobfile.load([], ["--name=job", "--rw=randread", "--direct=1", *words.split()], env={})
    made = World(plan, assemble(parse_stack(text, "s.toml").read(), **options))  # type: ignore[arg-type]
    made.build_threads(ThreadWatcher())
    return made


def loop(made: World, path: str = "/dev/loop0") -> LoopDisk:
    """Return a loop device of a world."""
    disk = made.disks[path]
    assert isinstance(disk, LoopDisk)
    return disk


def test_a_loop_device_is_as_large_as_what_it_shows() -> None:
    made = world(BASE + 'offset = "1MiB"\nsizelimit = "10MiB"\n')
    assert loop(made).bdev.size_bytes == 10 << 20
    assert loop(made).q.dev == (7, 0)
    assert loop(world(BASE + 'offset = "1MiB"\n')).bdev.size_bytes == GIB - (1 << 20)


def test_a_job_runs_on_the_loop_device_and_not_on_what_is_below() -> None:
    made = world(BASE)
    (file,) = made.threads[0].pattern.files
    assert file.bdev is loop(made).bdev
    assert [made.disks[path].is_used for path in ("/dev/sda", "/dev/sdb", "/dev/loop0")] == [False, True, True]


def test_a_loop_device_has_no_scheduler_unless_one_is_asked_for() -> None:
    assert loop(world(BASE)).scheduler == "none"
    assert loop(world(BASE + 'scheduler = "bfq"\n')).scheduler == "bfq"
    job = "--filename=/dev/loop0 --size=1m --ioscheduler=mq-deadline"
    assert loop(world(BASE, job)).scheduler == "mq-deadline"
    assert loop(world(BASE + 'scheduler = "bfq"\n', job, scheduler="none")).scheduler == "none"


def test_there_are_no_more_hardware_queues_than_cpus() -> None:
    many = loop(world(BASE + "hw-queues = 4096\nqueue-depth = 4\n[host]\ncpus = 3\n"))
    assert len(many.q.hctxs) == 3
    assert len(loop(world(BASE + "hw-queues = 2\n[host]\ncpus = 3\n")).q.hctxs) == 2


def test_direct_io_that_cannot_be_is_off_and_told() -> None:
    made = world(BASE + "direct-io = true\noffset = 100\n")
    assert not loop(made).loop.is_direct
    (line,) = (line for line in made.describe() if line.startswith("loop0: "))
    assert "direct I/O is off" in line
    assert loop(world(BASE + "direct-io = true\n")).loop.is_direct


def test_the_result_shows_what_losetup_lists() -> None:
    made = world(BASE + 'direct-io = true\nautoclear = true\nsizelimit = "10MiB"\npolicy = "nowait_first"\n')
    about = made.loops.provenance()["loops"]
    assert isinstance(about, dict)
    shown = about["loop0"]
    assert {key: shown[key] for key in ("sizelimit", "offset", "autoclear", "ro", "back-file", "dio", "log-sec")} == {
        "sizelimit": 10 << 20,
        "offset": 0,
        "autoclear": True,
        "ro": False,
        "back-file": "/data/disk.img",
        "dio": True,
        "log-sec": 512,
    }
    assert shown["policy"] == "nowait_first"


def test_nested_loop_devices_in_any_order() -> None:
    text = '[loop.loop0]\nbacking-file = "/dev/loop1"\n[loop.loop1]\nbacking-file = "/data/disk.img"\n'
    made = world(BASE.partition("[loop")[0] + text)
    assert list(made.disks) == ["/dev/sda", "/dev/sdb", "/dev/loop1", "/dev/loop0"]
    assert loop(made).bdev.size_bytes == GIB


def test_a_file_without_a_device_lies_on_the_first_one() -> None:
    made = world(BASE.replace('on = "/dev/sdb"\n', ""))
    assert [made.disks[path].used_bytes > GIB for path in ("/dev/sda", "/dev/sdb")] == [True, False]


def test_a_device_that_no_table_has_is_made_from_its_name() -> None:
    made = world('[loop.loop0]\nbacking-file = "/dev/nvme0n1"\n')
    assert made.describe()[0].startswith("/dev/nvme0n1: nvme by its name, none")


def test_files_below_a_mount_lie_on_its_device() -> None:
    made = world(
        BASE + '[mount."/mnt"]\ndevice = "/dev/loop0"\n',
        "--filename=/mnt/x --size=1m --name=b --direct=1 --rw=read --size=1m --filename=y",
    )
    assert {name: disk.path for name, (disk, _, _) in made.files.items()} == {"/mnt/x": "/dev/loop0", "y": "/dev/sda"}


def test_a_job_on_the_backing_file_itself_is_on_the_device_below() -> None:
    made = world(BASE, "--filename=/data/disk.img --size=1m")
    (file,) = made.threads[0].pattern.files
    assert file.bdev is made.disks["/dev/sdb"].bdev
    assert file.real_bytes == GIB


def test_the_device_of_the_command_line_replaces_the_files() -> None:
    made = world(BASE, devices=[parse_device("/dev/sdb=null,size=2g")])
    assert made.disks["/dev/sdb"].kind() == "null"


def test_every_thread_can_have_a_cgroup_of_its_own() -> None:
    made = world(
        'cgroup-per-job = "/app/%name.%n"\n' + BASE, "--filename=/dev/loop0 --size=1m --numjobs=3", cgroup="/b"
    )
    assert sorted(thread.cgroup.path for thread in made.threads) == [f"/b/app/job.{at}" for at in range(3)]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            BASE.replace('"1g"', '"4000g"'),
            r's\.toml:6: file\."/data/disk\.img"\.size: \d+ bytes do not fit on /dev/sdb',
        ),
        ('[loop.loop0]\nbacking-file = "/dev/x"\n', r"s\.toml:2: loop\.loop0\.backing-file: no profile goes with"),
        (BASE + "sector-size = 8192\n", r"s\.toml:\d+: loop\.loop0"),
    ],
)
def test_what_cannot_be_built_names_its_place(text: str, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        world(text)


def test_a_loop_device_cannot_be_given_as_a_device() -> None:
    with pytest.raises(UsageError, match=r"--device /dev/loop0: is a loop device of s\.toml:8"):
        world(BASE, devices=[parse_device("/dev/loop0=nvme")])


def test_a_loop_device_that_nobody_makes() -> None:
    with pytest.raises(
        ConfigError, match=r"/dev/loop3 is a loop device, which the file of --stack makes: \[loop\.loop3\]"
    ):
        world(BASE, "--filename=/dev/loop3 --size=1m")
