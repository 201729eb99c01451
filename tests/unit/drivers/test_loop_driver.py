"""The loop driver's way in: which policy executes what where, and that the bytes are right."""

from __future__ import annotations

import pytest
from fake_loop import LoopWorld

from blktwin.block.bio import BLK_STS_OK
from blktwin.drivers.backing import FILE_READ, FILE_WRITE

POLICIES = ["workqueue", "per_command", "sync_read", "nowait_first"]


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("direct", [False, True])
def test_reads_see_what_was_written(policy: str, direct: bool) -> None:
    """Writes, then reads of all of it, under every policy."""
    world = LoopWorld(policy, direct=direct)
    assert world.go(*(world.write(at * 8) for at in range(8))) == [BLK_STS_OK] * 8
    reads = [world.read(at * 8) for at in range(8)]
    assert world.go(*reads) == [BLK_STS_OK] * 8
    for at, bio in enumerate(reads):
        assert bytes(bio.data or b"") == bytes([65 + at]) * 4096
    assert world.device.is_direct is direct
    world.check_quiet()


def test_steps_of_a_request_in_a_worker() -> None:
    """Arrival, work, begin, below, done, end: in this order, executed by a kernel worker."""
    world = LoopWorld("workqueue")
    world.go(world.read(0))
    assert world.trace.letters() == "L W X Q' C' E"
    assert world.trace.of("W") == ["policy"]
    assert world.trace.of("X")[0].startswith("kworker/u")
    assert world.trace.of("E") == ["4096"]


def test_steps_of_a_request_inline() -> None:
    """The same without a worker: the issuer executes it."""
    world = LoopWorld("nowait_first")
    task = world.submit(world.read(0), world.write(8))
    world.run()
    assert world.trace.letters() == "L X Q' L X Q' C' E C' E"
    assert world.trace.of("X") == [task.comm, task.comm]
    assert world.driver.nr_inline == 2
    world.check_quiet()


def test_sync_read_gives_writes_to_workers() -> None:
    """Only reads are executed inline."""
    world = LoopWorld("sync_read")
    world.go(world.read(0), world.write(8))
    assert world.trace.of("W") == ["write"]
    seen = {op: nowait for op, _, _, nowait, _ in world.backing.seen}
    assert seen == {FILE_READ: True, FILE_WRITE: False}


def test_buffered_goes_to_workers() -> None:
    """What may sleep is never inline."""
    world = LoopWorld("nowait_first", direct=False)
    world.go(world.read(0), world.write(8), world.flush(), world.discard(16))
    assert set(world.trace.of("W")) == {"not_aio"}
    world.check_quiet()
