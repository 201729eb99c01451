"""A stack file as text: every section, every mistake in one line with its place, and what variants change."""

from __future__ import annotations

from pathlib import Path

import pytest

from blktwin.errors import ConfigError
from blktwin.lab.stack_file import load_stack, parse_stack
from blktwin.lab.stack_said import LoopSpec, StackFile, in_order

KIB = 1024
WHOLE = """\
title = "All of it"
job = ["a.fio", "/b.fio"]
caveats = ["one", '''two
  lines''']
runtime = "500ms"
rules = "6.12"
scheduler = "none"
set = ["iosched.fifo_batch=8", "loop0.iosched.fifo_batch=4"]
cgroup-per-job = "/app/%name.%n"

[env]
DEV = "/dev/loop0"
DEPTH = 16

[host]
name = "server"
cpus = 8
switch = 2_000

[device."/dev/nvme0n1"]
profile = "nvme"
read = "uniform(546us, 30%)"
queues = 4

[device."/dev/sda"]

[file."/data/disk.img"]
size = "4g"
fs = "xfs"
on = "/dev/sda"
sparse = true
alloc = "30us"

[loop.loop0]
backing-file = "/data/disk.img"
direct-io = "on"
offset = "1MiB"
sizelimit = "1.5GB"
sector-size = 4096
read-only = true
policy = "nowait_first"
hw-queues = 4
queue-depth = 64
hint = false
nowait-variant = "v5"
batch-plug = true
scheduler = "bfq"
nr-requests = 32
[loop.loop0.kernel-compat]
short-write-ok = true

[loop.loop1]
backing-file = "/dev/loop0"
kernel-compat = "v4"

[mount."/mnt"]
device = "/dev/loop1"

[cgroup."/a"]
io.bfq.weight = 30

[[hog]]
cpus = [0, 1]
nice = -5
count = 2
cgroup = "/a"

[[variant]]
name = "plain"
set = {"loop.loop0.policy" = "workqueue", "host.cpus" = 4}

[[variant]]
name = "deep"
set = {'device."/dev/nvme0n1".queues' = 8, "device./dev/sdb" = {profile = "hdd"}, "file./data/disk.img.sparse" = false}

[expect.plain]
iops = 2281
d2c = "13.96ms"
within = 5
source = "a mail"
"""


def read(text: str, variant: str = "") -> StackFile:
    """Return a file's text as one variant."""
    return parse_stack(text, "dir/s.toml").read(variant)


def test_the_job_is_beside_the_file() -> None:
    assert read(WHOLE).jobs == ["dir/a.fio", "/b.fio"]


def test_what_is_said_once() -> None:
    said = read(WHOLE)
    assert (said.title, said.caveats, said.runtime) == ("All of it", ["one", "two lines"], "500ms")
    assert (said.rules, said.scheduler, said.cgroup_per_job) == ("6.12", "none", "/app/%name.%n")
    assert said.tunables == [("iosched.fifo_batch", "8"), ("loop0.iosched.fifo_batch", "4")]
    assert said.env == {"DEV": "/dev/loop0", "DEPTH": "16"}


def test_the_host_has_keys_on_top() -> None:
    host = read(WHOLE).host
    assert host is not None
    assert (host.name, host.cpus, host.costs["switch"], host.costs["irq"]) == ("server", 8, 2_000, 350)


def test_devices_are_profiles_with_keys_on_top() -> None:
    nvme, sda = read(WHOLE).devices
    assert (nvme.path, nvme.profile.name, nvme.number("queues"), nvme.number("depth")) == (
        "/dev/nvme0n1",
        "nvme",
        4,
        1023,
    )
    assert (sda.path, sda.profile.name) == ("/dev/sda", "sata-ssd")


def test_files() -> None:
    file = read(WHOLE).files["/data/disk.img"]
    params = file.params
    assert (file.on, params.size_bytes, params.kind, params.is_sparse, params.alloc_ns) == (
        "/dev/sda",
        4 << 30,
        "xfs",
        True,
        30_000,
    )


def test_loop_devices_in_the_words_of_losetup() -> None:
    loop = read(WHOLE).loops["loop0"]
    config = loop.config
    assert (loop.path, loop.number, loop.backing) == ("/dev/loop0", 0, "/data/disk.img")
    assert (config.direct_io, config.read_only, config.partscan, config.autoclear) == (True, True, False, False)
    assert (config.offset_bytes, config.sizelimit_bytes, config.block_bytes) == (1 << 20, 1_500_000_000, 4096)
    assert (config.policy, config.nr_hw_queues, config.queue_depth, config.hint) == ("nowait_first", 4, 64, False)
    assert (config.nowait_variant, config.batch_plug) == ("v5", True)
    assert (loop.scheduler, loop.nr_requests) == ("bfq", 32)
    assert config.compat.enabled() == ["short_write_ok"]


def test_a_posted_series_names_its_bugs() -> None:
    assert "eopnotsupp_is_error" in read(WHOLE).loops["loop1"].config.compat.enabled()


def test_hogs_mounts_and_cgroups() -> None:
    said = read(WHOLE)
    (hog,) = said.hogs
    assert (hog.cpus, hog.nice, hog.count, hog.cgroup) == ([0, 1], -5, 2, "/a")
    assert said.mounts["/mnt"].device == "/dev/loop1"
    assert [said.mounts["/mnt"].holds(path) for path in ("/mnt/x", "/mnt/../x", "/mnty/x", "/mnt")] == [
        True,
        False,
        False,
        False,
    ]
    assert said.cgroups is not None
    assert said.cgroups.groups["/a"].weight == 30


def test_what_lies_below_comes_first() -> None:
    said = read(WHOLE)
    order = in_order(said.files, said.loops)
    assert [node.path for node in order] == ["/data/disk.img", "/dev/loop0", "/dev/loop1"]


def test_variants_change_what_they_name_and_nothing_else() -> None:
    source = parse_stack(WHOLE, "s.toml")
    plain, deep, base = source.read("plain"), source.read("deep"), source.read()
    assert [said.loops["loop0"].config.policy for said in (plain, deep, base)] == [
        "workqueue",
        "nowait_first",
        "nowait_first",
    ]
    assert [said.host.cpus if said.host else 0 for said in (plain, deep, base)] == [4, 8, 8]
    assert [len(said.devices) for said in (plain, deep, base)] == [2, 3, 2]
    assert deep.devices[0].number("queues") == 8
    assert [said.files["/data/disk.img"].params.is_sparse for said in (plain, deep, base)] == [True, False, True]


def test_expectations() -> None:
    assert read(WHOLE).expect == {
        "plain": {"iops": 2281.0, "d2c": 13_960_000, "within": 5.0, "source": "a mail"},
    }


@pytest.mark.parametrize(
    ("text", "size"),
    [
        ("512", 512),
        ("1k", KIB),
        ("1K", KIB),
        ("1KiB", KIB),
        ("1KB", 1000),
        ("2M", 2 * KIB * KIB),
        ("1.5MB", 1_500_000),
        ("0x200", 512),
        ("3 GiB", 3 << 30),
        ("7B", 7),
    ],
)
def test_sizes_as_losetup_reads_them(text: str, size: int) -> None:
    said = read(f'[file."/f"]\nsize = "1g"\n[loop.loop0]\nbacking-file = "/f"\noffset = "{text}"\n')
    assert said.loops["loop0"].config.offset_bytes == size


FILE = '[file."/f"]\nsize = "1g"\n'
LOOP = FILE + '[loop.loop0]\nbacking-file = "/f"\n'
VARIANT = LOOP + '[[variant]]\nname = "v"\n'
CASES = [
    ("polcy = 1", "s.toml:1: polcy: no such key"),
    (LOOP + 'polcy = "x"', "s.toml:5: loop.loop0.polcy: no such key; did you mean policy?"),
    (LOOP + 'policy = "workque"', "s.toml:5: loop.loop0.policy: no policy 'workque'; did you mean workqueue?"),
    (LOOP + "direct-io = 1", "s.toml:5: loop.loop0.direct-io: 1 is neither true nor false"),
    (LOOP + 'offset = "ten"', "s.toml:5: loop.loop0.offset: 'ten' is not a size"),
    (LOOP + "offset = -1", "s.toml:5: loop.loop0.offset: -1 is out of range"),
    (LOOP + "sector-size = 1000", "s.toml:5: loop.loop0.sector-size: 1000 is not a power of two from 512 to 65536"),
    (LOOP + "queue-depth = 0", "s.toml:5: loop.loop0.queue-depth: 0 is out of range: 1 to 10240"),
    (LOOP + "kernel-compat = {short-write = true}", "s.toml:5: loop.loop0.kernel-compat.short-write: no such key; did"),
    (LOOP + 'kernel-compat = "v3"', "s.toml:5: loop.loop0.kernel-compat: no series 'v3'; there are v4, v5"),
    (LOOP + 'scheduler = "bfk"', "s.toml:5: loop.loop0.scheduler: no scheduler 'bfk'; did you mean bfq?"),
    ("[loop.loop0]\n", 's.toml:1: loop.loop0: needs backing-file = "/data/disk.img"'),
    ("[loop.lop0]\n", "s.toml:1: loop.lop0: is not the name of a loop device such as loop0"),
    (
        FILE + '[loop.loop0]\nbacking-file = "/ff"',
        "s.toml:4: loop.loop0.backing-file: no file /ff; did you mean /f?",
    ),
    (
        LOOP + '[loop.loop1]\nbacking-file = "/dev/loop2"',
        "s.toml:6: loop.loop1.backing-file: no loop device /dev/loop2; did you mean /dev/loop",
    ),
    (
        '[loop.loop0]\nbacking-file = "/dev/loop1"\n[loop.loop1]\nbacking-file = "/dev/loop0"',
        "s.toml:2: loop.loop0.backing-file: lies on itself: /dev/loop0 -> /dev/loop1 -> /dev/loop0",
    ),
    (
        '[file."/f"]\nsize = "1g"\non = "/dev/loop0"\n[loop.loop0]\nbacking-file = "/f"',
        's.toml:3: file."/f".on: lies on itself: /f -> /dev/loop0 -> /f',
    ),
    ('[file."/f"]\nfs = "ext4"', 's.toml:1: file."/f": needs size = "4g"'),
    ('[file."/f"]\nsize = "1g"\nfs = "ext5"', "s.toml:3: file.\"/f\".fs: no file system 'ext5'; did you mean ext4?"),
    ('[file."/f"]\nsize = "1g"\nspars = true', 's.toml:3: file."/f".spars: no such key; did you mean sparse?'),
    ('[file."f"]\nsize = "1g"', "s.toml:1: file.f: is not the path of a regular file"),
    ('[device."/dev/sda"]\nprofle = "hdd"', 's.toml:2: device."/dev/sda".profle: no such key of a device'),
    (
        '[device."/dev/sda"]\nprofile = "hd"',
        "s.toml:2: device.\"/dev/sda\".profile: no profile 'hd'; did you mean hdd?",
    ),
    ('[device."/dev/sda"]\nread = "80"', "s.toml:2: device.\"/dev/sda\".read: '80' is not a time"),
    ('[device."/dev/xyz"]\n', 's.toml:1: device."/dev/xyz": no profile goes with the name /dev/xyz'),
    ('[host]\nname = "sever"', "s.toml:2: host.name: no host 'sever'; did you mean server?"),
    ("[host]\ncpu = 3", "s.toml:2: host.cpu: no such key of a host; did you mean cpus?"),
    ('[host]\ncpus = "3"', "s.toml:2: host.cpus: '3' is not a whole number"),
    ('[mount."/mnt"]\ndevice = "/dev/loop0"', 's.toml:2: mount."/mnt".device: no loop device /dev/loop0: give it'),
    ("[[hog]]\ncpu = 1", "s.toml:2: hog[1].cpu: no such key; did you mean cpus?"),
    ("[[hog]]\nnice = 20", "s.toml:2: hog[1].nice: 20 is out of range: -20 to 19"),
    ('cgroup-per-job = "/a/%x"', "s.toml:1: cgroup-per-job: %x stands for nothing: there are %name and %n"),
    ('job = ["a.fio", "-"]', "s.toml:1: job: - is standard input, which only the command line can name"),
    ('cgroup-per-job = "a"', "s.toml:1: cgroup-per-job: a cgroup's path is absolute"),
    ('[cgroup."/a"]\nio.bfq.wait = 3', 's.toml:2: cgroup."/a".io.bfq.wait: no such key; did you mean io.bfq.weight?'),
    ('rules = "6.19"', "s.toml:1: rules: no rules for kernel '6.19'"),
    ('runtime = "0"', "s.toml:1: runtime: '0' is not a time above 0"),
    ('[env]\n"A B" = "x"', 's.toml:2: env."A B": is not the name of a variable'),
    ('set = ["x=1"]', "s.toml:1: set: 'x=1' is not iosched.NAME=VALUE"),
    ("[expect.v]\niops = 3", "s.toml:1: expect.v: no variant of that name"),
    (VARIANT + "[expect.v]\niop = 3", "s.toml:8: expect.v.iop: no such key; did you mean iops?"),
    (VARIANT + "[expect.v]\nwithin = 3", "s.toml:7: expect.v: has no figure"),
    (VARIANT + "sets = {}", "s.toml:7: variant[1].sets: no such key; did you mean set?"),
    (VARIANT + '[[variant]]\nname = "v"', "s.toml:8: variant[2].name: v is the name of another variant"),
    ("[[variant]]\nset = {}", 's.toml:1: variant[1]: needs name = "..."'),
    (
        VARIANT + 'set = {"loop.loop0.policy" = "x"}',
        "s.toml:7: loop.loop0.policy: no policy 'x'",
    ),
    (
        VARIANT + 'set = {"loop.loop1.policy" = "workqueue"}',
        "s.toml:7: variant[1].set.loop.loop1.policy: there is no [loop.loop1]; did you mean loop0?",
    ),
    (VARIANT + 'set = {"lop.loop0.policy" = "workqueue"}', "s.toml:7: lop: no such key; did you mean loop?"),
    (VARIANT + 'set = {"loop." = 3}', "s.toml:7: variant[1].set.loop.: is not a place"),
    (VARIANT + 'set = {"loop.loop0.backing-file.x" = 3}', "is a value, and no table"),
    ("[x\n", "s.toml:1: not TOML: "),
]


@pytest.mark.parametrize(("text", "line"), CASES, ids=[str(at) for at in range(len(CASES))])
def test_mistakes_are_one_line_with_their_place(text: str, line: str) -> None:
    with pytest.raises(ConfigError) as caught:
        parse_stack(text, "s.toml")
    assert line in str(caught.value)
    assert str(caught.value).startswith("s.toml:")
    assert "\n" not in str(caught.value)


def test_a_variant_that_is_not_there() -> None:
    source = parse_stack(WHOLE, "s.toml")
    with pytest.raises(ConfigError, match=r"s.toml: no variant 'plan'; did you mean plain\?"):
        source.read("plan")


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"s\.toml: No such file or directory"):
        load_stack(str(tmp_path / "s.toml"))


def test_a_chain_of_loop_devices_is_built_from_below() -> None:
    tables = "".join(f'[loop.loop{at}]\nbacking-file = "/dev/loop{at + 1}"\n' for at in range(50))
    said = read(tables + '[loop.loop50]\nbacking-file = "/dev/sda"\n')
    order = in_order(said.files, said.loops)
    assert [node.path for node in order if isinstance(node, LoopSpec)] == [f"/dev/loop{at}" for at in range(50, -1, -1)]


def test_cgroups_of_another_file(tmp_path: Path) -> None:
    (tmp_path / "c.toml").write_text('[cgroup."/c"]\nio.bfq.weight = 7\n')
    (tmp_path / "s.toml").write_text('cgroups = "c.toml"\n')
    said = load_stack(str(tmp_path / "s.toml")).read()
    assert said.cgroups is not None
    assert said.cgroups.groups["/c"].weight == 7
    (tmp_path / "s.toml").write_text('cgroups = "c.toml"\n[cgroup."/d"]\n')
    with pytest.raises(ConfigError, match=r"s.toml:2: cgroup: the stack has cgroups = already"):
        load_stack(str(tmp_path / "s.toml"))


VALUES = (
    "1",
    "-1",
    "1.5",
    "true",
    '"x"',
    '""',
    "[]",
    "{}",
    "[[1]]",
    "{a = 1}",
    "1979-05-27",
    "9" * 30,
    '"\\u0000"',
    "nan",
)


def problem_of(text: str) -> str:
    try:
        parse_stack(text, "s.toml")
    except ConfigError as error:
        return str(error)
    return ""


@pytest.mark.parametrize("value", VALUES)
def test_no_value_of_any_key_is_more_than_one_line_of_error(value: str) -> None:
    lines = WHOLE.splitlines()
    for at, line in enumerate(lines):
        key, equals, _ = line.partition(" = ")
        if not equals or "'''" in line:
            continue
        text = "\n".join([*lines[:at], f"{key} = {value}", *lines[at + 1 :]])
        told = problem_of(text)
        assert told == "" or told.startswith("s.toml:")
        assert "\n" not in told
