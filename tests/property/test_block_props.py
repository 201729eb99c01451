"""Random worlds of blk-mq hold their invariants (block_audit.py), and the audit sees a world that is broken."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest
from block_audit import Audit, run_storm
from block_storm import PLUG, UNPLUG, WAIT, Step, Storm, StormDevice, StormDriver
from hypothesis import given
from hypothesis import strategies as st

from blktwin.block.bio import (
    BLK_STS_DEV_RESOURCE,
    BLK_STS_OK,
    REQ_FUA,
    REQ_NOMERGE,
    REQ_NOWAIT,
    REQ_OP_DISCARD,
    REQ_OP_READ,
    REQ_OP_WRITE,
    REQ_OP_WRITE_ZEROES,
    REQ_PREFLUSH,
    REQ_SYNC,
)
from blktwin.block.request import Request
from blktwin.block.rules import PRESET_NAMES

SECTORS = 512
"""Few enough that bios meet."""


def data_io() -> st.SearchStrategy[Step]:
    """Reads, writes and discards of one to a few pages, some of half a page."""
    return st.builds(
        lambda q, op, flags, page, length: (q, op, flags, page * 4, length),
        st.integers(0, 1),
        st.sampled_from([REQ_OP_READ, REQ_OP_READ, REQ_OP_WRITE, REQ_OP_WRITE, REQ_OP_DISCARD, REQ_OP_WRITE_ZEROES]),
        st.sampled_from([0, REQ_SYNC, REQ_SYNC, REQ_SYNC | REQ_NOWAIT, REQ_NOMERGE]),
        st.integers(0, SECTORS // 4),
        st.sampled_from([4, 8, 8, 8, 16, 64, 72, 200]),
    )


def flush_io() -> st.SearchStrategy[Step]:
    """Empty flushes, and writes with PREFLUSH, FUA or both."""
    return st.one_of(
        st.builds(lambda q: (q, REQ_OP_WRITE, REQ_SYNC | REQ_PREFLUSH, 0, 0), st.integers(0, 1)),
        st.builds(
            lambda q, flags, page, length: (q, REQ_OP_WRITE, REQ_SYNC | flags, page * 8, length),
            st.integers(0, 1),
            st.sampled_from([REQ_PREFLUSH, REQ_FUA, REQ_PREFLUSH | REQ_FUA]),
            st.integers(0, SECTORS // 8),
            st.sampled_from([8, 16, 72]),
        ),
    )


def runs() -> st.SearchStrategy[list[Step]]:
    """A sequential run of bios, up or down, which merge when they may."""
    return st.builds(
        lambda q, op, start, count, step: [
            (q, op, REQ_SYNC, (start + at * step) * 8, 8)
            for at in (range(count) if step > 0 else range(count, 0, step))
        ],
        st.integers(0, 1),
        st.sampled_from([REQ_OP_READ, REQ_OP_WRITE, REQ_OP_DISCARD]),
        st.integers(0, 40),
        st.integers(2, 12),
        st.sampled_from([1, 1, -1]),
    )


def scripts() -> st.SearchStrategy[tuple[int, bool, list[Step]]]:
    """One task."""
    part = st.one_of(
        st.sampled_from([PLUG, UNPLUG, WAIT]).map(lambda word: [word]),
        st.lists(data_io(), min_size=1, max_size=6),
        flush_io().map(lambda io: [io]),
        runs(),
    )
    steps = st.lists(part, max_size=8).map(lambda parts: [step for one in parts for step in one])
    return st.tuples(st.integers(0, 3), st.booleans(), steps)


@st.composite
def storms(draw: st.DrawFn) -> Storm:
    """Any world."""
    cpus = draw(st.integers(1, 8))
    faults = {
        "io_error_ppm": draw(st.sampled_from([0, 0, 100_000])),
        "refuse_ppm": draw(st.sampled_from([0, 0, 100_000, 500_000])),
        "slow_io_ppm": draw(st.sampled_from([0, 200_000])),
        "slow_io_ns": 90_000,
        "late_timer_ppm": draw(st.sampled_from([0, 500_000])),
        "late_timer_ns": 1_000_000,
        "slow_work_ppm": draw(st.sampled_from([0, 300_000])),
        "slow_work_ns": 60_000,
    }
    return Storm(
        rules=draw(st.sampled_from(PRESET_NAMES)),
        cpus=cpus,
        hw_queues=draw(st.integers(1, min(4, cpus))),
        depth=draw(st.one_of(st.integers(1, 4), st.integers(1, 64))),
        nr_requests=draw(st.sampled_from([0, 1, 2, 4, 16])),
        scheduler=draw(st.sampled_from(["none", "mq-deadline"])),
        queues=draw(st.sampled_from([1, 1, 2])),
        nomerges=draw(st.sampled_from([0, 0, 0, 1, 2])),
        rq_affinity=draw(st.integers(0, 2)),
        max_sectors=draw(st.sampled_from([16, 64, 2560])),
        has_write_cache=draw(st.booleans()),
        has_fua=draw(st.booleans()),
        has_irq_hop=draw(st.booleans()),
        faults=faults,
        bounce_ppm=draw(st.sampled_from([0, 0, 200_000])),
        seed=draw(st.integers(1, 1000)),
        scripts=draw(st.lists(scripts(), min_size=1, max_size=5)),
    )


@given(storms())
def test_any_world_holds(storm: Storm) -> None:
    """I1, I15, L1, L2, whole ranges, and flushes where they must be."""
    run_storm(Audit(storm))


@given(st.sampled_from(PRESET_NAMES), st.sampled_from(["none", "mq-deadline"]), st.integers(1, 3), st.integers(1, 3))
def test_starved_for_tags(rules: str, scheduler: str, depth: int, hw_queues: int) -> None:
    """L2: many tasks, hardly a tag, and nobody waits for ever."""
    steps: list[Step] = [PLUG, *((0, REQ_OP_WRITE, REQ_SYNC, at * 40, 8) for at in range(6)), UNPLUG, WAIT]
    storm = Storm(
        rules=rules,
        scheduler=scheduler,
        cpus=4,
        hw_queues=hw_queues,
        depth=depth,
        nr_requests=1,
        scripts=[(0, pid % 2 == 0, steps * 2) for pid in range(12)],
    )
    run_storm(Audit(storm))


@given(storms())
def test_the_same_world_twice(storm: Storm) -> None:
    """Nothing depends on addresses or hash seeds: the same events at the same times."""
    one, two = Audit(storm), Audit(storm)
    assert run_storm(one) == run_storm(two)
    assert one.sim.events.now_ns == two.sim.events.now_ns
    assert [bio.ended_at for bio in one.bios] == [bio.ended_at for bio in two.bios]


# The audit can fail: each of these breaks one thing in a busy world.


def busy(scheduler: str = "none") -> Storm:
    """A world with merges, waits, flushes and little room."""
    steps: list[Step] = []
    for at in range(8):
        steps += [PLUG, *((0, REQ_OP_WRITE, REQ_SYNC, at * 64 + page * 8, 8) for page in range(3)), UNPLUG]
        steps += [
            (0, REQ_OP_READ, 0, 1000 + at * 400, 8),
            (0, REQ_OP_WRITE, REQ_SYNC | REQ_PREFLUSH | REQ_FUA, at * 8, 8),
        ]
    steps.append(WAIT)
    scripts = [(0, False, steps) for _ in range(4)]
    return Storm(
        rules="7.2", scheduler=scheduler, cpus=2, depth=2, nr_requests=4, has_write_cache=True, scripts=scripts
    )


def broken(storm: Storm, breakage: Callable[[Audit], None]) -> str:
    """Break the world after each event; return what the audit says, "" when it is content."""
    audit = Audit(storm)
    try:
        for _ in range(20_000):
            if not audit.sim.run(1 << 62, 1):
                break
            breakage(audit)
            audit.look()
        audit.check_end()
    except AssertionError as error:
        return str(error)
    return ""


@pytest.mark.parametrize("scheduler", ["none", "mq-deadline"])
def test_a_whole_world_passes(scheduler: str) -> None:
    """The audit is content when nothing is broken."""
    assert broken(busy(scheduler), lambda audit: None) == ""


def drop_restart(audit: Audit) -> None:
    """Forget to run the queue again on a completion."""
    for hctx in audit.queues[0].hctxs:
        hctx.needs_restart = False


def lose_run(audit: Audit) -> None:
    """Lose a pending run of the queue."""
    for hctx in audit.queues[0].hctxs:
        hctx.run_work.is_pending = False


def lose_waiters(audit: Audit) -> None:
    """Forget who waits for a tag."""
    for hctx in audit.queues[0].hctxs:
        tags = hctx.tags if hctx.sched_tags is None else hctx.sched_tags
        for queue in tags.wait_queues:
            queue.head = queue.tail = None
        tags.nr_waiting = 0


def leak_tag(audit: Audit) -> None:
    """Take a tag that belongs to nobody."""
    if audit.clock > 40:
        audit.queues[0].hctxs[0].tags.get(0)


def stretch_request(audit: Audit) -> None:
    """Make a request longer than its bios."""
    for rq in audit.devices[0].held.values():
        rq.nr_sectors += 8


def list_twice(audit: Audit) -> None:
    """Put a request that is in the device on the dispatch list as well."""
    hctx = audit.queues[0].hctxs[0]
    for rq in audit.devices[0].held.values():
        if hctx.dispatch.count == 0:
            hctx.dispatch.append(rq)


def forget_request(audit: Audit) -> None:
    """Let a device lose a request."""
    device = audit.devices[0]
    if audit.clock > 60:
        for tag, rq in list(device.held.items()):
            slot = device.slots[tag]
            if slot.rq is rq and slot.is_queued:
                audit.sim.events.remove(slot)


def lose_flush(audit: Audit) -> None:
    """Count a flush that never reached the device."""
    audit.flushes.clear()


@pytest.mark.parametrize(
    ("breakage", "scheduler", "complaint"),
    [
        (drop_restart, "mq-deadline", "nothing will run|nobody asks"),
        (lose_run, "mq-deadline", "nothing will run|nobody asks"),
        (lose_waiters, "none", "waits for a tag for ever"),
        (lose_waiters, "mq-deadline", "waits for a tag for ever"),
        (leak_tag, "none", "tags for"),
        (stretch_request, "none", "its bios end at"),
        (list_twice, "none", "is in dispatch list and in device|is in .* and in"),
        (forget_request, "none", "stands at step|for ever|ended 0 times"),
        (lose_flush, "none", "no flush"),
    ],
)
def test_the_audit_sees(breakage: Callable[[Audit], None], scheduler: str, complaint: str) -> None:
    """Each breakage is found, and named."""
    said = broken(busy(scheduler), breakage)
    assert re.search(complaint, said), said or "the audit saw nothing"


class TwiceDriver(StormDriver):
    """Completes every seventh request twice."""

    def __init__(self, device: StormDevice) -> None:
        super().__init__(device)
        self.count = 0
        self.late: Request | None = None

    def queue_rq(self, rq: Request, last: bool) -> int:
        """Complete the one before once more."""
        self.count += 1
        status = super().queue_rq(rq, last)
        if self.count % 7 == 0:
            rq.q.complete_here(rq, BLK_STS_OK)
        return status


class HoldingDriver(StormDriver):
    """Answers BLK_STS_DEV_RESOURCE although nothing is in flight: a promise that it cannot keep."""

    def queue_rq(self, rq: Request, last: bool) -> int:
        """Refuse."""
        if not self.device.held:
            return BLK_STS_DEV_RESOURCE
        return super().queue_rq(rq, last)


class DroppingDriver(StormDriver):
    """Says it has taken a request, and has not."""

    def queue_rq(self, rq: Request, last: bool) -> int:
        """Lose it."""
        rq.q.start_request(rq)
        return BLK_STS_OK


@pytest.mark.parametrize("driver", [TwiceDriver, HoldingDriver, DroppingDriver])
def test_the_audit_sees_a_broken_driver(driver: type[StormDriver]) -> None:
    """An assertion of the block layer or of the audit stops the world."""

    def install(audit: Audit) -> None:
        if audit.queues[0].driver.__class__ is not driver:
            audit.queues[0].driver = driver(audit.devices[0])

    assert broken(busy(), install) != ""
