"""[[hog]]: tasks that never sleep share the CPUs with the job."""

from __future__ import annotations

import pytest

from blktwin.errors import ConfigError
from blktwin.fio import jobfile
from blktwin.lab.run import drive, prepare
from blktwin.lab.stack_build import assemble
from blktwin.lab.stack_file import parse_stack
from blktwin.lab.world import World

HOST = '[host]\ncpus = 2\nsched = "eevdf"\n'
WORDS = "--name=job --rw=randread --direct=1 --filename=/dev/nullb0 --size=1m --runtime=50ms --time_based".split()


def run(text: str, *words: str) -> World:
    """Run a job of 50 ms."""
    plan = jobfile.load([], [*WORDS, *words], env={})
    world, schedule = prepare(plan, assemble(parse_stack(text, "s.toml").read()))
    assert not drive(world, schedule)
    return world


def test_a_hog_takes_what_the_job_leaves() -> None:
    text = HOST.replace("cpus = 2", "cpus = 1")
    world = run(text + '[[hog]]\ncpus = 0\nname = "burn"\n')
    (hog,) = world.hogs
    assert (hog.comm, hog.cpus_allowed, hog.cgroup.path) == ("burn", [0], "/")
    assert 15_000_000 < int(hog.utime_ns) < 51_000_000
    assert int(world.threads[0].nr_completed) < int(run(text).threads[0].nr_completed)


def test_cpu_weights_share_a_cpu() -> None:
    """A group of weight 300 gets three times what one of 100 gets; without fair CPUs the weight is only noted."""
    groups = '[cgroup."/a"]\ncpu.weight = 300\n[cgroup."/b"]\ncpu.weight = 100\n'
    hogs = '[[hog]]\ncgroup = "/a"\n[[hog]]\ncgroup = "/b"\n'
    world = run(HOST.replace("cpus = 2", "cpus = 1") + groups + hogs, "--runtime=400ms")
    heavy, light = (int(hog.utime_ns) for hog in world.hogs)
    assert heavy / light == pytest.approx(3, rel=0.1)
    assert "cpu.weight counts" in "".join(run("[host]\ncpus = 2\n" + groups).cgroups.notes)


def test_several_hogs_and_a_nice_job() -> None:
    text = HOST.replace("cpus = 2", "cpus = 1") + '[[hog]]\ncount = 3\nnice = -10\ncgroup = "/bg"\n'
    eager = run(text)
    assert [hog.comm for hog in eager.hogs] == ["hog0.0", "hog0.1", "hog0.2"]
    assert {hog.cgroup.path for hog in eager.hogs} == {"/bg"}
    shy = run(text, "--nice=19")
    assert shy.threads[0].nice == 19
    assert int(shy.threads[0].nr_completed) < int(eager.threads[0].nr_completed)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[[hog]]\n", r"s\.toml:1: hog\[1\]: needs CPUs that tasks share: \[host\] sched = "),
        (HOST + "[[hog]]\ncpus = [0, 2]\n", r"s\.toml:5: hog\[1\]\.cpus: there is no CPU 2 of 2"),
    ],
)
def test_hogs_that_cannot_be(text: str, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        run(text)
