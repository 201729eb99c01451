"""Workers: who gets one, in which order each works, how long it is kept, and what it is charged to."""

from __future__ import annotations

from fake_loop import US, LoopWorld

from blktwin.block.bio import BLK_STS_OK, REQ_NOWAIT
from blktwin.block.rules import Rules
from blktwin.drivers.loop.reasons import REASON_NAMES, REASON_ROOT_FALLBACK
from blktwin.drivers.loop.worker import IDLE_WORKER_NS

SECOND = 1_000_000_000


def test_one_worker_for_each_cgroup() -> None:
    """Buffered reads of two cgroups run at once, those of one cgroup one after the other, in order."""
    world = LoopWorld(direct=False)
    bios = [world.read(at * 8) for at in range(6)]
    world.submit(*bios[:3], cgroup="/a")
    world.submit(*bios[3:], cgroup="/b/c")
    world.run(int(world.machine.events.now_ns) + SECOND)
    assert [bio.end_ns for bio in bios] == [50 * US, 100 * US, 150 * US] * 2
    begins = [at for letter, at, _ in world.trace.steps if letter == "X"]
    assert [at for at in begins if at < 24] == [0, 8, 16]
    assert [at for at in begins if at >= 24] == [24, 32, 40]
    assert len(set(world.trace.of("X"))) == 2
    assert world.driver.idle_workers.nr_made == 2
    assert world.driver.idle_workers.count == 2
    world.check_quiet()


def test_root_has_a_worker_that_is_never_idle() -> None:
    """Tasks of the root cgroup make no worker."""
    world = LoopWorld()
    assert world.go(world.read(0), world.read(8)) == [BLK_STS_OK] * 2
    assert world.driver.idle_workers.nr_made == 0
    assert not world.driver.idle_workers.is_armed


def test_one_worker_before_5_14() -> None:
    """Until 5.13 all cgroups share one worker, and nobody is charged."""
    rules = Rules("old")
    rules.loop_worker_per_cgroup = False
    world = LoopWorld(direct=False, rules=rules)
    first, second = world.read(0), world.read(8)
    world.submit(first, cgroup="/a")
    world.submit(second, cgroup="/b")
    world.run(SECOND)
    assert sorted([first.end_ns, second.end_ns]) == [50 * US, 100 * US]
    assert world.driver.idle_workers.nr_made == 0
    assert world.driver.nr_memcg_gets == 0


def test_commands_run_at_once_with_a_work_item_each() -> None:
    """per_command: no order, no queue of depth one."""
    world = LoopWorld("per_command", direct=False)
    bios = [world.read(at * 8) for at in range(4)]
    assert world.go(*bios, cgroup="/a") == [BLK_STS_OK] * 4
    assert [bio.end_ns for bio in bios] == [50 * US] * 4
    assert len(set(world.trace.of("X"))) == 4
    world.check_quiet()


def test_idle_workers_go_after_a_minute() -> None:
    """The timer frees those that have been idle for 60 s, and waits on for the others; a busy one stays."""
    world = LoopWorld()
    workers = world.driver.idle_workers
    world.go(world.read(0), cgroup="/a")
    half = int(world.machine.events.now_ns) + IDLE_WORKER_NS // 2
    world.run(half)
    world.go(world.read(0), cgroup="/b")
    assert workers.count == 2
    world.run(IDLE_WORKER_NS + SECOND)
    assert (workers.count, workers.nr_freed) == (1, 1)
    assert workers.is_armed
    world.go(world.read(8), cgroup="/a")
    assert workers.nr_made == 3
    world.run(4 * IDLE_WORKER_NS)
    assert (workers.count, workers.nr_freed) == (0, 3)
    assert not world.driver.idle_workers.is_armed
    world.check_quiet()


def test_a_used_worker_stays() -> None:
    """Whoever is used again within the minute is not freed by the timer that was armed for the first time."""
    world = LoopWorld()
    workers = world.driver.idle_workers
    for _ in range(4):
        world.go(world.read(0), cgroup="/a")
        world.run(int(world.machine.events.now_ns) + IDLE_WORKER_NS * 2 // 3)
    assert (workers.nr_made, workers.nr_freed) == (1, 0)


def test_no_memory_for_a_worker() -> None:
    """The root worker takes the command, for nobody's account."""
    world = LoopWorld()
    world.driver.nr_failing_workers = 1
    assert world.go(world.read(0), world.read(8), cgroup="/a/b") == [BLK_STS_OK] * 2
    assert world.trace.of("W") == [REASON_NAMES[REASON_ROOT_FALLBACK], "policy"]
    assert world.driver.nr_memcg_gets == 1
    assert world.driver.nr_queued[REASON_ROOT_FALLBACK] == 1
    world.check_quiet()


def test_who_is_charged() -> None:
    """The device below sees the cgroup of the bio in a worker, of the task inline, and the root's after a fallback."""
    for policy, failing, wanted in (
        ("workqueue", 0, "/a"),
        ("per_command", 0, "/a"),
        ("nowait_first", 0, "/a"),
        ("workqueue", 1, "/"),
    ):
        world = LoopWorld(policy)
        world.driver.nr_failing_workers = failing
        world.go(world.read(0), cgroup="/a")
        cmd = world.command()
        assert cmd.cgroup is not None
        assert cmd.cgroup.path == wanted


def test_work_queued_while_it_runs_is_run_again() -> None:
    """A command that comes while the worker executes another needs no second worker."""
    world = LoopWorld(direct=False)
    first, second = world.read(0), world.read(8)
    world.submit(first, cgroup="/a")
    world.run(20 * US)
    world.submit(second, cgroup="/a")
    world.run(SECOND)
    assert [first.end_ns, second.end_ns] == [50 * US, 100 * US]
    assert len(set(world.trace.of("X"))) == 1
    assert world.driver.idle_workers.count == 1


def test_the_file_gets_the_upper_priority() -> None:
    """A command carries the request's I/O priority, and never its NOWAIT."""
    world = LoopWorld()
    bio = world.read(0)
    bio.ioprio = 2 << 13 | 3
    bio.flags = REQ_NOWAIT
    assert world.go(bio) == [BLK_STS_OK]
    assert world.command().ioprio == 2 << 13 | 3
    assert world.backing.seen[0][3] is False
