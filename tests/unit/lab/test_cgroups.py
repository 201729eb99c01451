"""The file of --cgroups: what it may say, what is refused and where, and what it does to a run."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from blktwin.block.bio import Bio
from blktwin.errors import ConfigError
from blktwin.fio import jobfile
from blktwin.fio.engine_posix import PosixAioThread
from blktwin.fio.engine_queue import QueueThread
from blktwin.fio.spec import JobPlan
from blktwin.lab.cgroups import Change, GroupSpec, load_cgroups, parse_cgroups
from blktwin.lab.run import drive, prepare, simulate
from blktwin.lab.stack import Stack
from blktwin.lab.world import World
from blktwin.sim.costs import Costs
from blktwin.sim.devices.spec import parse_device
from blktwin.sim.trace import CostTrace

ROOT = Path(__file__).parents[3]
DEV = "/dev/nvme0n1"


def plan_of(*jobs: str, engine: str = "libaio", extra: str = "") -> JobPlan:
    """Return a plan of jobs that run for 3 ms on one device; a job may be "name key=value ..."."""
    words = []
    for job in jobs:
        name, *own = job.split()
        words += [f"--name={name}", *f"--filename={DEV} --rw=randread --direct=1 --iodepth=4".split()]
        words += ["--size=1g", f"--ioengine={engine}", *(f"--{word}" for word in own + extra.split())]
    plan = jobfile.load([], words, env={})
    for job_spec in plan.jobs:
        job_spec.runtime_ns = job_spec.runtime_ns or 3_000_000
    return plan


def world_of(text: str, *jobs: str, base: str = "/", engine: str = "libaio") -> World:
    """Build a world and run it."""
    stack = Stack(cgroups=parse_cgroups(text, "c.toml"), cgroup=base)
    world, schedule = prepare(plan_of(*jobs, engine=engine), stack)
    drive(world, schedule)
    return world


def test_both_ways_to_write_a_key_and_v1_names() -> None:
    want = {"/a": GroupSpec("/a", 30, {DEV: 50, "259:1": 0}, ["t1", "w*"])}
    dotted = """
        [cgroup."/a"]
        io.bfq.weight = 30
        io.bfq.weight_device = {"/dev/nvme0n1" = 50, "259:1" = "default"}
        jobs = ["t1", "w*"]
    """
    quoted = """
        [cgroup."/a"]
        "io.bfq.weight" = 30
        "io.bfq.weight_device" = {"/dev/nvme0n1" = 50, "259:1" = "default"}
        jobs = ["t1", "w*"]
    """
    for text in (
        dotted,
        quoted,
        dotted.replace("io.", "blkio."),
        quoted.replace("io.", "blkio."),
        '[cgroup."/a".io.bfq]\nweight=30\n[cgroup."/a".io.bfq.weight_device]\n"/dev/nvme0n1"=50\n"259:1"="default"\n'
        '[cgroup]\n"/a".jobs=["t1","w*"]',
        'cgroup = {"/a" = {io.bfq = {weight = 30, weight_device = {"/dev/nvme0n1" = 50, "259:1" = "default"}}, '
        'jobs = ["t1", "w*"]}}',
    ):
        assert parse_cgroups(text, "c.toml").groups == want


def test_changes_come_in_the_order_of_their_times() -> None:
    file = parse_cgroups(
        """
        [[at]]
        time = "2s"
        remove = "/a"
        [[at]]
        time = 1.5
        cgroup = "/a"
        blkio.bfq.weight = 50
        io.bfq.weight_device."/dev/sda" = 7
        [[at]]
        time = "300ms"
        move = "t1"
        to = "/"
        [[at]]
        time = 0
        move = ["t1", "t2"]
        to = "/a"
        """,
        "c.toml",
    )
    assert file.changes == [
        Change(("at", "3"), 0, "move", "/a", jobs=["t1", "t2"]),
        Change(("at", "2"), 300_000_000, "move", "/", jobs=["t1"]),
        Change(("at", "1"), 1_500_000_000, "cgroup", "/a", 50, {"/dev/sda": 7}),
        Change(("at", "0"), 2_000_000_000, "remove", "/a"),
    ]


@pytest.mark.parametrize(
    ("time", "time_ns"),
    [
        ('"1ns"', 1),
        ('"0.5us"', 500),
        ('"7 ms"', 7_000_000),
        ('"2m"', 120 * 10**9),
        ('"1h"', 3600 * 10**9),
        ("2", 2 * 10**9),
    ],
)
def test_times(time: str, time_ns: int) -> None:
    file = parse_cgroups(f'[[at]]\ntime = {time}\nremove = "/a"', "c.toml")
    assert [change.time_ns for change in file.changes] == [time_ns]


WHOLE = """
[cgroup."/a"]
io.bfq.weight = 30
io.bfq.weight_device = {"/dev/nvme0n1" = 50, "259:1" = "default"}
jobs = ["t1", "w*"]
[cgroup."/a/b"]
"io.bfq.weight" = 30
[[at]]
time = "2s"
cgroup = "/a"
io.bfq.weight = 90
[[at]]
time = 1.5
move = ["t1"]
to = "/a/b"
[[at]]
time = "300ms"
remove = "/b"
"""
BITS = ("", '"', "'", "[", "]", "{}", "=", ".", "\n", ",", "0", "9" * 30, "/", "at", "cgroup", "nan", "true", "#", "\\")
AT = '[[at]]\ntime = "1s"\n'
A = '[cgroup."/a"]\n'


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[cgroup.", r"c.toml:?.*: not TOML: "),
        ("x = " + "[" * 5000, r"c.toml: nested too deep"),
        (A + "io" + ".x" * 3000 + " = 1", r"c.toml: nested too deep"),
        ("x = " + "1" * 5000, r"c.toml: holds a number of thousands of digits"),
        ("\n\nx = =", r"c.toml:3: not TOML: Invalid value"),
        (A + 'jobs = ["a"]\njobs = ["b"]', r"c.toml:3: not TOML"),
        ("[cgroups]", r"c.toml:1: cgroups: no such section; did you mean cgroup\?"),
        ("\nspeed = 3", r"c.toml:2: speed: no such section; there are \[cgroup\] and \[\[at\]\]"),
        ("cgroup = 3", r"c.toml:1: cgroup: must be tables such as"),
        ("[at]\ntime = 1", r"c.toml:1: at: must be tables, each begun by \[\[at\]\]"),
        ("at = [3]", r"c.toml:1: at\[1\]: must be a table"),
        ("[cgroup]\na = {}", r"""c.toml:2: cgroup.a: a cgroup's path is absolute: "/a\""""),
        ("[cgroup]\n'/a' = 3", r'c.toml:2: cgroup."/a": must be a table'),
        ('[cgroup."/a/"]', r'c.toml:1: cgroup."/a/": is not a plain path'),
        ('[cgroup."/a/../b"]', "is not a plain path"),
        ('[cgroup."/a\\u001b[2J"]', "c.toml:1: .* holds a character that cannot be printed"),
        (f'[cgroup."/{"x" * 256}"]', "has more than 4095 bytes, or 255 between two slashes"),
        (f'[cgroup."{"/a" * 2048}"]', "has more than 4095 bytes"),
        (A + "\ncpu.weight = 10001", r'c.toml:3: cgroup."/a".cpu.weight: 10001 is out of range: 1 to 10000'),
        ('[cgroup."/"]\ncpu.weight = 10', r'c.toml:2: cgroup."/".cpu.weight: the root cgroup has no weight'),
        (A + "\nio.bfq.wieght = 30", r'c.toml:3: cgroup."/a".io.bfq.wieght: no such key; did you mean io.bfq.weight\?'),
        (A + "weight = 30", r'c.toml:2: cgroup."/a".weight: no such key; did you mean'),
        (A + "io = {}", r'c.toml:2: cgroup."/a".io: no such key'),
        (A + "io.bfq = 3", r'c.toml:2: cgroup."/a".io.bfq: no such key; did you mean io.bfq.weight\?'),
        (
            A + 'io.bfq.weights_device = {"/dev/sda" = 3}',
            r"weights_device: no such key; did you mean io.bfq.weight_dev",
        ),
        (A + "nice = 3", r"no such key; there are io.bfq.weight, io.bfq.weight_device, cpu.weight, jobs"),
        (A + "io.bfq.weight = 0", r'c.toml:2: cgroup."/a".io.bfq.weight: 0 is out of range: 1 to 1000'),
        (A + "io.bfq.weight = 1001", "1001 is out of range: 1 to 1000"),
        (A + "io.bfq.weight = -5", "-5 is out of range: 1 to 1000"),
        (A + "io.bfq.weight = 3.5", "3.5 is not a whole number"),
        (A + 'io.bfq.weight = "30"', "'30' is not a whole number"),
        (A + "io.bfq.weight = true", "True is not a whole number"),
        (A + 'io.bfq.weight = 3\n"io.bfq.weight" = 3', r'c.toml:2: cgroup."/a".io.bfq.weight: given twice'),
        (A + "io.bfq.weight = 3\nblkio.bfq.weight = 3", r'c.toml:3: cgroup."/a".blkio.bfq.weight: given twice'),
        ('[cgroup."/"]\nio.bfq.weight = 3', r'c.toml:2: cgroup."/".io.bfq.weight: the root cgroup has no weight'),
        (A + "io.bfq.weight_device = 3", r'c.toml:2: .*weight_device: must be a table such as {"/dev/nvme0n1" = 50'),
        (A + "io.bfq.weight_device = {sda = 3}", r"c.toml:2: .*weight_device.sda: is neither a device such as"),
        (A + 'io.bfq.weight_device = {"/dev/sda" = 0}', r'weight_device."/dev/sda": 0 is out of range: 1 to 1000'),
        (A + 'io.bfq.weight_device = {"/dev/sda" = "def"}', "'def' is not a whole number"),
        (A + "jobs = 3", r'c.toml:2: cgroup."/a".jobs: 3 is not a list of job names'),
        (A + 'jobs = ["a", ""]', "is not a list of job names"),
        ('[[at]]\nremove = "/a"', r'c.toml:1: at\[1\]: needs time = "2s"'),
        ('[[at]]\ntime = "soon"\nremove = "/a"', r"c.toml:2: at\[1\].time: 'soon' is not a time such as"),
        ('[[at]]\ntime = "2d"\nremove = "/a"', "'2d' is not a time"),
        ('[[at]]\ntime = -1\nremove = "/a"', "-1 is not a time"),
        ('[[at]]\ntime = true\nremove = "/a"', "True is not a time"),
        ('[[at]]\ntime = 1e99\nremove = "/a"', "1e.99 is more than ten years"),
        ('[[at]]\ntime = inf\nremove = "/a"', "inf is not a time"),
        ('[[at]]\ntime = "\u0662s"\nremove = "/a"', "is not a time"),
        ('[[at]]\ntime = 999999999\nremove = "/a"', "more than ten years"),
        (AT, r"c.toml:1: at\[1\]: needs one of cgroup, move, remove; it has none"),
        (AT + 'remove = "/a"\n' + AT + 'remove = "/b"\nmove = "t"', r"c.toml:4: at\[2\]: .* it has move and remove"),
        (AT + 'remove = "/a"\nto = "/b"', r"c.toml:4: at\[1\].to: means nothing beside remove"),
        (AT + 'remove = "/a"\nio.bfq.weight = 3', r"c.toml:4: at\[1\].io.bfq.weight: means nothing beside remove"),
        (AT + 'move = "t"', r'c.toml:1: at\[1\]: move needs to = "/path"'),
        (AT + 'move = []\nto = "b"', r"c.toml:4: at\[1\].to: a cgroup's path is absolute"),
        (AT + 'move = 3\nto = "/b"', r"c.toml:3: at\[1\].move: 3 is not a list of job names"),
        (AT + "remove = 3", r"c.toml:3: at\[1\].remove: 3 is not a path"),
        (AT + 'remove = "/"', r"c.toml:3: at\[1\].remove: the root cgroup stays"),
        (AT + 'cgroup = "/a"', r"c.toml:1: at\[1\]: cgroup needs io.bfq.weight or io.bfq.weight_device"),
        (AT + 'cgroup = "/"\nio.bfq.weight = 3', "the root cgroup has no weight"),
        (AT + 'cgruop = "/a"', r"c.toml:3: at\[1\].cgruop: no such key; did you mean cgroup\?"),
        (
            AT + 'remove = "/a"\n[[at]]\ntime = 2\nmove = "t"\nto = "/a/b"',
            r"c.toml:7: at\[2\].to: /a/b is gone since 1s",
        ),
        (AT + 'remove = "/a"\n[[at]]\ntime = 2\ncgroup = "/a"\nio.bfq.weight=3', r"c.toml:6: .* /a is gone since 1s"),
    ],
)
def test_mistakes_that_the_file_alone_shows(text: str, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        parse_cgroups(text, "c.toml")


@given(st.lists(st.tuples(st.integers(0, 400), st.integers(0, 12), st.sampled_from(BITS)), min_size=1, max_size=4))
def test_whatever_is_wrong_has_a_line(edits: list[tuple[int, int, str]]) -> None:
    text = WHOLE
    for at, length, bit in edits:
        text = text[:at] + bit + text[at + length :]
    found = ("c.toml", 1)
    try:
        parse_cgroups(text, "c.toml")
    except ConfigError as error:
        found = (error.file, error.line)
    assert found[0] == "c.toml"
    assert found[1] > 0


def test_small_times_and_a_deep_cgroup_that_is_removed() -> None:
    """A time is a number however Python would write it; what is removed may be deeper than Python's stack."""
    assert parse_cgroups(A + '[[at]]\ntime = 0.00001\nremove = "/a"', "c.toml").changes[0].time_ns == 10_000
    deep = "/a" * 1200
    world = world_of(f'[cgroup."{deep}"]\njobs = "t1"\n[[at]]\ntime = "1ms"\nremove = "/a"', "t1")
    assert not any(group.is_online for path, group in world.machine.cgroups.by_path.items() if path != "/")
    [change] = world.cgroups.done
    assert change["remove"] == "/a"


def test_files_that_cannot_be_read(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="absent.toml: No such file"):
        load_cgroups(str(tmp_path / "absent.toml"))
    with pytest.raises(ConfigError, match="Is a directory"):
        load_cgroups(str(tmp_path))
    (tmp_path / "binary.toml").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(ConfigError, match="is not text in UTF-8"):
        load_cgroups(str(tmp_path / "binary.toml"))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (A + 'jobs = ["1t2"]', r"""c.toml:2: cgroup."/a".jobs: no job '1t2'; did you mean t2\?"""),
        (A + 'jobs = ["w*"]', r"no job 'w\*'; there are t1, t2"),
        (A + 'jobs = ["t1"]\n[cgroup."/b"]\njobs = ["t*"]', r'c.toml:4: cgroup."/b".jobs: t1 is in /a already'),
        (A + 'io.bfq.weight_device = {"/dev/nvme0n2" = 3}', r"has no such device; did you mean /dev/nvme0n1\?"),
        (A + 'io.bfq.weight_device = {"8:0" = 3}', r"the run has no such device; there are /dev/nvme0n1 \(259:0\)"),
        (A + 'io.bfq.weight_device = {"/dev/nvme0n1" = 3, "259:0" = 4}', r'weight_device."259:0": given twice'),
        (A + AT + 'remove = "/aa"', r"c.toml:4: at\[1\].remove: no cgroup /aa; did you mean /a\?"),
        (AT + 'move = "t1"\nto = "/b"', r'c.toml:4: at\[1\].to: no cgroup /b: declare it with \[cgroup."/b"\]'),
        (A + AT + 'move = "x1"\nto = "/a"', r"c.toml:4: at\[1\].move: no job 'x1'; there are t1, t2"),
        (
            A + AT + 'cgroup = "/a"\nio.bfq.weight_device."/dev/sda" = 3',
            r"c.toml:5: at\[1\].*: the run has no such device",
        ),
    ],
)
def test_mistakes_that_the_run_shows(text: str, message: str) -> None:
    stack = Stack(cgroups=parse_cgroups(text, "c.toml"))
    with pytest.raises(ConfigError, match=message):
        prepare(plan_of("t1", "t2"), stack)


def test_a_run_without_devices_has_none() -> None:
    stack = Stack(cgroups=parse_cgroups(A + 'io.bfq.weight_device = {"8:0" = 3}', "c.toml"))
    with pytest.raises(ConfigError, match="the run has no such device$"):
        prepare(plan_of("t1", engine="null"), stack)


def test_jobs_and_weights_are_where_the_file_says() -> None:
    text = """
        [cgroup."/a/b"]
        io.bfq.weight = 30
        io.bfq.weight_device = {"/dev/nvme0n1" = 50, "259:1" = "default"}
        jobs = ["t*"]
        [cgroup."/"]
        jobs = ["root"]
    """
    stack = Stack(
        cgroups=parse_cgroups(text, "c.toml"), cgroup="/base", devices=[parse_device(DEV), parse_device("/dev/nvme1n1")]
    )
    jobs = ("t1", "t2 numjobs=2", "root", "other", "t3 cgroup=own", "four cgroup=/own/4 cgroup_weight=200")
    world, _ = prepare(plan_of(*jobs), stack)
    places = [(thread.spec.name, thread.cgroup.path) for thread in world.threads]
    assert places == [
        ("t1", "/a/b"),
        ("t2", "/a/b"),
        ("t2", "/a/b"),
        ("root", "/"),
        ("other", "/base"),
        ("t3", "/base/own"),
        ("four", "/base/own/4"),
    ]
    tree = world.machine.cgroups
    assert (tree.get("/a/b").weight, tree.get("/a/b").dev_weights) == (30, {(259, 0): 50})
    assert (tree.get("/a").weight, tree.get("/base/own/4").weight) == (100, 200)
    notes = world.describe()
    assert "c.toml: t3 is not put into /a/b: it has its own cgroup=" in notes
    assert "c.toml: the weights mean nothing: no device has the scheduler bfq" in notes


def test_a_jobs_own_weight_wins_and_clears_those_of_devices() -> None:
    text = '[cgroup."/a"]\nio.bfq.weight = 30\nio.bfq.weight_device = {"259:0" = 50}'
    world = world_of(text, "t1 cgroup=a cgroup_weight=200")
    group = world.machine.cgroups.get("/a")
    assert (group.weight, group.dev_weights) == (200, {})
    assert "c.toml: t1's cgroup_weight overrides the weights of /a" in world.describe()


def test_weights_change_at_their_times() -> None:
    text = """
        [cgroup."/a"]
        jobs = ["t1"]
        [[at]]
        time = "2ms"
        cgroup = "/a"
        io.bfq.weight = 60
        [[at]]
        time = "1ms"
        cgroup = "/a"
        io.bfq.weight = 50
        io.bfq.weight_device = {"259:0" = 7}
        [[at]]
        time = "9s"
        cgroup = "/a"
        io.bfq.weight = 70
    """
    world = world_of(text, "t1")
    group = world.machine.cgroups.get("/a")
    assert (group.weight, group.dev_weights) == (60, {})
    shown = world.cgroups.provenance()
    assert shown["cgroups"] == {"/": {"jobs": []}, "/a": {"io.bfq.weight": 100, "jobs": ["t1"]}}
    assert shown["cgroup_changes"] == [
        {"at_ms": 1.0, "cgroup": "/a", "io.bfq.weight": 50, "io.bfq.weight_device": {"259:0": 7}},
        {"at_ms": 2.0, "cgroup": "/a", "io.bfq.weight": 60},
    ]
    assert world.cgroups.late_notes() == ["c.toml:13: 9s never came"]


@pytest.mark.parametrize("engine", ["psync", "libaio", "io_uring", "posixaio", "null"])
def test_a_job_moves_with_its_helpers(engine: str) -> None:
    text = '[cgroup."/a"]\njobs = ["t*"]\n[cgroup."/b"]\n[[at]]\ntime = "1ms"\nmove = "t1"\nto = "/b"'
    world = world_of(text, "t1 fsync=2 rw=randrw", "t2", engine=engine)
    first, second = world.threads
    assert (first.cgroup.path, second.cgroup.path) == ("/b", "/a")
    if isinstance(first, QueueThread) and engine == "io_uring":
        assert [helper.cgroup.path for helper in first.helpers] == ["/b"] * len(first.helpers) != []
    if isinstance(first, PosixAioThread):
        assert first.helper.cgroup.path == "/b"
    shown = world.cgroups.provenance()
    assert shown["cgroups"] == {
        "/": {"jobs": []},
        "/a": {"io.bfq.weight": 100, "jobs": ["t1", "t2"]},
        "/b": {"io.bfq.weight": 100, "jobs": ["t1"]},
    }
    assert shown["cgroup_changes"] == [{"at_ms": 1.0, "move": ["t1"], "to": "/b"}]


class Bios(CostTrace):
    """Notes the cgroup of every bio."""

    def __init__(self, costs: Costs) -> None:
        super().__init__(costs)
        self.seen: list[tuple[int, str]] = []

    def bio_queue(self, bio: Bio) -> None:
        super().bio_queue(bio)
        assert bio.cgroup is not None
        self.seen.append((int(self.machine.now_ns()), bio.cgroup.path))


def test_a_move_counts_from_the_next_io() -> None:
    text = '[cgroup."/a"]\njobs = ["t1"]\n[cgroup."/b"]\n[[at]]\ntime = "1ms"\nmove = "t1"\nto = "/b"'
    stack = Stack(cgroups=parse_cgroups(text, "c.toml"))
    trace = Bios(stack.host.cost_table())
    drive(*prepare(plan_of("t1"), stack, trace))
    before = [at for at, path in trace.seen if path == "/a"]
    after = [at for at, path in trace.seen if path == "/b"]
    assert len(before) + len(after) == len(trace.seen)
    assert 900_000 < max(before) < 1_000_000 <= min(after) < 1_100_000


def test_a_cgroup_goes_with_all_below_it() -> None:
    text = '[cgroup."/a/b"]\njobs = ["t1"]\n[cgroup."/c"]\njobs = ["t2"]\n[[at]]\ntime = "1ms"\nremove = "/a"'
    world = world_of(text, "t1", "t2")
    tree = world.machine.cgroups
    online = {path for path, group in tree.by_path.items() if group.is_online}
    assert online == {"/", "/c"}
    assert world.cgroups.late_notes() == [
        "c.toml:5: /a/b is removed at 0.001s with t1 in it: from then on its I/O counts for the cgroup above"
    ]


def test_a_file_that_changes_nothing_changes_no_result() -> None:
    """Cgroups cost nothing by themselves, and a change of weights disturbs nothing but CPU 0."""
    plain = simulate(plan_of("t1", "t2"), Stack(cgroup="/a"))
    text = '[cgroup."/a"]\nio.bfq.weight = 10\njobs = ["t*"]'
    given = simulate(plan_of("t1", "t2"), Stack(cgroups=parse_cgroups(text, "c.toml")))
    assert [job.stat.directions[0].io_bytes for job in given.jobs] == [
        job.stat.directions[0].io_bytes for job in plain.jobs
    ]


def test_without_cgroups_the_result_says_nothing_of_them() -> None:
    assert "cgroups" not in simulate(plan_of("t1"), Stack()).blktwin
    shown = simulate(plan_of("t1"), Stack(cgroup="/a/b")).blktwin["cgroups"]
    assert shown == {
        "/": {"jobs": []},
        "/a": {"io.bfq.weight": 100, "jobs": []},
        "/a/b": {"io.bfq.weight": 100, "jobs": ["t1"]},
    }


def test_the_example_fits_its_job() -> None:
    file = load_cgroups(str(ROOT / "examples" / "cgroups.toml"))
    plan = jobfile.load([str(ROOT / "examples" / "two-groups.fio")], [], env={})
    world, _ = prepare(plan, Stack(cgroups=file, scheduler="mq-deadline"))
    assert [(thread.cgroup.path, thread.cgroup.weight) for thread in world.threads] == [("/small", 10), ("/large", 90)]
