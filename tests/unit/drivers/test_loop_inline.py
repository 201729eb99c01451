"""Inline execution: what is tried, what falls back and how often, the hint, plugs, and the posted code's bugs."""

from __future__ import annotations

import pytest
from fake_loop import US, LoopWorld

from blktwin.block.bio import BLK_STS_AGAIN, BLK_STS_NOTSUPP, BLK_STS_OK
from blktwin.drivers.backing import EAGAIN, EIOCBQUEUED, EOPNOTSUPP, FILE_READ, FILE_WRITE, IOCB_NOWAIT
from blktwin.drivers.loop.config import BUGS_OF_V4, BUGS_OF_V5, LoopConfig
from blktwin.errors import LoopViolation

SECOND = 1_000_000_000
INLINE = ["sync_read", "nowait_first"]


@pytest.mark.parametrize("policy", INLINE)
@pytest.mark.parametrize("errno", [EAGAIN, EOPNOTSUPP])
@pytest.mark.parametrize("later", [False, True])
def test_what_would_sleep_goes_to_a_worker(policy: str, errno: int, later: bool) -> None:
    """Whether the file says so at once or the device below later: prepared once, tried twice, ended once."""
    world = LoopWorld(policy)
    world.backing.answers = [(FILE_READ, IOCB_NOWAIT, EIOCBQUEUED + errno if later else -errno)]
    assert world.go(world.read(0)) == [BLK_STS_OK]
    assert [seen[3] for seen in world.backing.seen] == [True, False]
    assert world.trace.of("W") == ["eagain_async" if later else "eagain_sync"]
    assert world.trace.of("E") == ["4096"]
    world.check_quiet()


def test_a_workers_eagain_is_final() -> None:
    """A blocking attempt is never repeated; the posted code repeats it as long as it fails."""
    answers = [(FILE_READ, IOCB_NOWAIT, -EAGAIN), (FILE_READ, 0, -EAGAIN), (FILE_READ, 0, -EAGAIN)]
    world = LoopWorld("nowait_first")
    world.backing.answers = answers[:2]
    assert world.go(world.read(0)) == [BLK_STS_AGAIN]
    world.check_quiet()
    world = LoopWorld("nowait_first", bugs=("eagain_requeues_forever",))
    world.backing.answers = answers
    assert world.go(world.read(0)) == [BLK_STS_OK]
    assert world.trace.of("W") == ["eagain_sync", "blocked", "blocked"]


def test_each_request_is_tried_once() -> None:
    """Also when every attempt fails: reads one attempt each, writes one for each burst, for the hint skips the rest."""
    world = LoopWorld("nowait_first")
    world.backing.nowait_fails = {FILE_READ, FILE_WRITE}
    reads = [world.read(at * 8) for at in range(4)]
    writes = [world.write(at * 8) for at in range(4, 8)]
    assert world.go(*reads, *writes) == [BLK_STS_OK] * 8
    assert world.trace.of("W") == ["eagain_sync"] * 5 + ["hint_skip"] * 3
    tried = [op for op, _, _, nowait, _ in world.backing.seen if nowait]
    assert tried == [FILE_READ] * 4 + [FILE_WRITE]
    assert world.go(world.write(0)) == [BLK_STS_OK]
    assert world.trace.of("W")[-1] == "eagain_sync"
    world.check_quiet()


def test_without_the_hint_every_write_is_tried() -> None:
    """The same with the hint off."""
    config = LoopConfig()
    config.hint = False
    world = LoopWorld("nowait_first", config=config)
    world.backing.nowait_fails = {FILE_WRITE}
    assert world.go(*(world.write(at * 8) for at in range(4))) == [BLK_STS_OK] * 4
    assert world.trace.of("W") == ["eagain_sync"] * 4


def test_the_hint_is_not_for_block_devices() -> None:
    """Writes to a device are tried always."""
    world = LoopWorld("nowait_first")
    world.backing.is_block_device = True
    world.backing.nowait_fails = {FILE_WRITE}
    assert world.go(*(world.write(at * 8) for at in range(4))) == [BLK_STS_OK] * 4
    assert world.trace.of("W") == ["eagain_sync"] * 4


def test_files_without_nowait() -> None:
    """V5 never tries; V4 does, and whoever issues the request sleeps where nobody may."""
    world = LoopWorld("nowait_first")
    world.backing.can_nowait = False
    assert world.go(world.read(0)) == [BLK_STS_OK]
    assert world.trace.of("W") == ["no_fmode"]
    config = LoopConfig()
    config.nowait_variant = "v4"
    world = LoopWorld("nowait_first", config=config)
    world.backing.can_nowait = False
    assert world.go(world.read(0)) == [BLK_STS_OK]
    assert world.driver.nr_inline == 1
    world.backing.sleeps_direct = True
    with pytest.raises(LoopViolation, match="slept inside queue_rq: loop0"):
        world.go(world.read(0))


def test_contexts_that_may_not_run_file_systems() -> None:
    """Who is in the code of another file system, or in an interrupt, gives the request to a worker."""
    for depth, interrupt, wanted in ((0, False, []), (1, False, ["ctx_forbidden"]), (0, True, ["ctx_forbidden"])):
        world = LoopWorld("nowait_first")
        task = world.submit(world.read(0))
        task.fs_depth = depth
        if interrupt:
            task.pid = 0
        world.run(SECOND)
        assert world.trace.of("W") == wanted
        assert task.fs_depth == depth
        world.check_quiet()
    world = LoopWorld("nowait_first", bugs=("inline_nests",))
    world.submit(world.read(0)).fs_depth = 7
    world.run(SECOND)
    assert world.trace.of("W") == []


def test_write_protection_of_the_file_system() -> None:
    """Taken once for each write, whichever way it goes, and given back at its end; the posted code loses one."""
    answers = [(FILE_WRITE, IOCB_NOWAIT, -EAGAIN), (FILE_WRITE, 0, 1024)]
    for bugs, starts in (((), 1), (("freeze_taken_twice",), 3)):
        world = LoopWorld("nowait_first", bugs=bugs)
        world.backing.answers = list(answers)
        assert world.go(world.write(0)) == [BLK_STS_OK]
        assert world.driver.nr_freeze_starts == starts
        assert world.driver.nr_freeze_ends == 1


def test_eopnotsupp_in_v4_and_v5() -> None:
    """V4 fails the user's I/O; V5 ends the request and executes it all the same."""
    answer = (FILE_READ, IOCB_NOWAIT, -EOPNOTSUPP)
    world = LoopWorld("nowait_first", bugs=("v4",))
    world.backing.answers = [answer]
    assert world.go(world.read(0)) == [BLK_STS_NOTSUPP]
    world = LoopWorld("nowait_first", bugs=("v5",))
    world.backing.answers = [answer]
    with pytest.raises(AssertionError, match="completes but is not in flight"):
        world.go(world.read(0))


def test_the_hints_counter_after_completion() -> None:
    """Counting by a command that serves a read by now leaks, and writes are never tried again; ours counts right."""
    for bugs, left in (((), 0), (("hint_use_after_completion",), 1)):
        world = LoopWorld("nowait_first", bugs=bugs)
        world.backing.nowait_fails = {FILE_WRITE}
        world.backing.sleeps_direct = True
        world.submit(world.write(0), world.write(8))
        world.run(60 * US)
        world.submit(world.read(16))
        world.run(SECOND)
        assert world.driver.nr_blocking_writes == left
        world.backing.nowait_fails.clear()
        assert world.go(world.write(0)) == [BLK_STS_OK]
        assert (world.driver.nr_inline == 2) is (left == 0)


def test_the_wrong_lock() -> None:
    """V4 asserts a lock that it does not hold."""
    world = LoopWorld("nowait_first", bugs=("hint_asserts_wrong_lock",))
    world.backing.nowait_fails = {FILE_WRITE}
    with pytest.raises(LoopViolation, match="another lock"):
        world.go(world.write(0))


def test_names_of_the_series() -> None:
    """v4 and v5 stand for all of their bugs."""
    world = LoopWorld(bugs=("v4",))
    assert world.driver.compat.enabled() == [name for name in world.driver.compat.enabled() if name in BUGS_OF_V4]
    assert len(world.driver.compat.enabled()) == len(BUGS_OF_V4)
    assert set(LoopWorld(bugs=("v5",)).driver.compat.enabled()) == set(BUGS_OF_V5)


@pytest.mark.parametrize("policy", ["sync_read", "nowait_first", "rfc_safe"])
def test_a_batch_shares_a_plug_below(policy: str) -> None:
    """Inline I/O of one flush goes to the device below in one plug, which is empty afterwards; without, each alone."""
    for batch in (False, True):
        config = LoopConfig()
        config.batch_plug = batch
        world = LoopWorld(policy, config=config)
        world.backing.lower_depths = []
        world.submit(*(world.read(at * 16) for at in range(4)), plugged=True)
        world.run(SECOND)
        assert world.backing.lower_depths == ([True] * 4 if batch else [False] * 4)
        assert world.driver.nr_inline == 4
        world.check_quiet()


def test_time_of_inline_reads() -> None:
    """Four reads that are issued together end together: nothing stands between them."""
    world = LoopWorld("nowait_first")
    bios = [world.read(at * 16) for at in range(4)]
    assert world.go(*bios) == [BLK_STS_OK] * 4
    assert [bio.end_ns for bio in bios] == [50 * US] * 4
