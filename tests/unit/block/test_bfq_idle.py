"""Idling: the decision tables of spec §4.9, the timer's length, and the charge of async writes that depends on them."""

from __future__ import annotations

import pytest
from bfq_hand import Armed, Hand
from block_world import MS, HandTask

from blktwin.block.bfq.charge import serv_to_charge
from blktwin.block.bfq.idle import (
    arm_idle_timer,
    better_to_idle,
    idle_rule,
    idling_boosts_thr_without_issues,
    idling_needed_for_service_guarantees,
    must_idle,
    stop_idling,
)
from blktwin.block.bfq.log import (
    IDLE_BOOSTS,
    IDLE_CLASSES,
    IDLE_GROUPS,
    IDLE_NOT,
    IDLE_ONLY,
    IDLE_RAISED,
    IDLE_STRICT,
    IDLE_WEIGHTS,
    NOT_ASYNC,
    NOT_GONE,
    NOT_OFF,
)
from blktwin.block.bfq.queue import BfqQueue
from blktwin.block.ioprio import IOPRIO_CLASS_BE, IOPRIO_CLASS_IDLE, IOPRIO_CLASS_RT, pack

OLD, BEFORE, SERIES, AFTER = "5.10", "6.1", "5.17-series", "7.2"
BE = [pack(IOPRIO_CLASS_BE, level) for level in range(8)]
RT = pack(IOPRIO_CLASS_RT, 4)


def make_seeky(bfqq: BfqQueue) -> None:
    """Let it have sought all the time."""
    bfqq.seek_history = 0xFFFFFFFF
    bfqq.nr_seeks = 32


def scenario(rules: str, others: list[tuple[str, int]], me: tuple[str, int], **options: int) -> tuple[Hand, BfqQueue]:
    """Build a world where `me` and the others (cgroup, ioprio) have a request each, all queued."""
    hand = Hand(rules, **options)
    tasks: list[HandTask] = []
    for at, (path, ioprio) in enumerate([me, *others]):
        task = hand.task(path, ioprio)
        hand.read(task, 1 << (20 + at))
        hand.skip(700 * MS)
        tasks.append(task)
    mine = hand.queue(tasks[0])
    make_seeky(mine)
    return hand, mine


ROOT, A, B = ("/", BE[4]), ("/a", BE[4]), ("/b", BE[4])
TABLE = [
    ("equal weights in the root", [ROOT, ROOT], ROOT, "no no no"),
    ("alone in the root", [], ROOT, "no idle idle"),
    ("equal weights in one group", [A, A], A, "idle idle no"),
    ("alone in one group", [], A, "idle idle idle"),
    ("root and a group, seen from the root", [A], ROOT, "idle idle idle"),
    ("root and a group, seen from the group", [ROOT], A, "idle idle idle"),
    ("two groups", [B, B, A], A, "idle idle idle"),
    ("nested, one owner", [("/c1/c2", BE[4])], ("/c1/c2", BE[4]), "idle idle no"),
    ("nested, two owners", [("/c1", BE[4])], ("/c1/c2", BE[4]), "idle idle idle"),
    ("weights differ, not the smallest", [("/", BE[7])], ROOT, "idle idle idle"),
    ("weights differ, the smallest, in the root", [("/", BE[0])], ROOT, "no no no"),
    ("weights differ, the smallest, in a group", [("/a", BE[0])], A, "idle idle no"),
    ("two classes", [("/", RT)], ROOT, "idle idle idle"),
    ("two classes in a group", [("/a", RT)], A, "idle idle idle"),
]


@pytest.mark.parametrize("column", range(4))
@pytest.mark.parametrize(("what", "others", "me", "answers"), TABLE, ids=[row[0] for row in TABLE])
def test_a_seeky_queue_on_flash(
    what: str, others: list[tuple[str, int]], me: tuple[str, int], answers: str, column: int
) -> None:
    """Spec §4.9, first table: 5.10, 6.1, and the series and 7.2 alike."""
    hand, mine = scenario([OLD, BEFORE, SERIES, AFTER][column], others, me)
    assert better_to_idle(hand.bfqd, mine) == (answers.split()[min(column, 2)] == "idle"), what
    assert better_to_idle(hand.bfqd, mine) == idling_needed_for_service_guarantees(hand.bfqd, mine)


@pytest.mark.parametrize("rules", [OLD, BEFORE, SERIES, AFTER])
@pytest.mark.parametrize(("what", "others", "me", "answers"), TABLE, ids=[row[0] for row in TABLE])
def test_slice_idle_0_and_strict_guarantees(
    rules: str, what: str, others: list[tuple[str, int]], me: tuple[str, int], answers: str
) -> None:
    """The last two rows of the table: never, and always with one request in the driver."""
    hand, mine = scenario(rules, others, me, slice_idle=0)
    assert not better_to_idle(hand.bfqd, mine)
    assert idle_rule(hand.bfqd, mine) == NOT_OFF
    hand, mine = scenario(rules, others, me, strict_guarantees=1)
    assert better_to_idle(hand.bfqd, mine)
    assert idle_rule(hand.bfqd, mine) == IDLE_STRICT
    assert hand.give() >= 0
    assert hand.give() == -1, "one in the driver"


def test_async_and_idle_class_queues_are_not_waited_for() -> None:
    """Nor one whose process is gone."""
    hand, mine = scenario(AFTER, [B], A)
    hand.write(hand.task("/a", BE[4]), 0, flags=0)
    shared = next(one for one in hand.bfqd.queues if not one.is_sync)
    assert not better_to_idle(hand.bfqd, shared)
    assert idle_rule(hand.bfqd, shared) == NOT_ASYNC
    last = hand.task("/a", pack(IOPRIO_CLASS_IDLE, 0))
    hand.read(last, 5000)
    assert not better_to_idle(hand.bfqd, hand.queue(last))
    hand.exit(last)
    gone = next(one for one in hand.bfqd.queues if one.is_class_idle())
    assert not idling_needed_for_service_guarantees(hand.bfqd, gone)
    assert idle_rule(hand.bfqd, gone) == NOT_GONE
    assert not must_idle(hand.bfqd, mine), "it has a request"


@pytest.mark.parametrize("hw_tag", [-1, 0, 1])
@pytest.mark.parametrize("is_rotational", [False, True])
@pytest.mark.parametrize(("is_seeky", "is_io_bound", "is_short"), [(0, 1, 1), (1, 1, 1), (0, 0, 1), (0, 1, 0)])
def test_where_idling_boosts_throughput(
    hw_tag: int, is_rotational: bool, is_seeky: int, is_io_bound: int, is_short: int
) -> None:
    """Spec §4.9, second table: by device, queueing of commands and habits."""
    hand = Hand(AFTER, is_rotational=is_rotational)
    task = hand.task()
    hand.read(task, 0)
    mine = hand.queue(task)
    hand.bfqd.hw_tag = hw_tag
    if is_seeky:
        make_seeky(mine)
    mine.is_io_bound, mine.has_short_ttime = bool(is_io_bound), bool(is_short)
    is_good = not is_seeky and is_io_bound and is_short
    if is_rotational:
        expected = hw_tag == 0 or is_good
    else:
        expected = hw_tag == 0 and is_good
    assert idling_boosts_thr_without_issues(hand.bfqd, mine) == bool(expected)
    hand.bfqd.wr_busy_queues = 1
    assert not idling_boosts_thr_without_issues(hand.bfqd, mine), "a raised queue waits"


@pytest.mark.parametrize(
    ("raised", "busy", "in_driver", "dispatched", "expected"),
    [(1, 2, 0, 0, True), (2, 2, 0, 0, False), (2, 2, 4, 0, True), (2, 2, 5, 2, False), (2, 2, 6, 2, True)],
)
def test_raised_queues_are_waited_for(raised: int, busy: int, in_driver: int, dispatched: int, expected: bool) -> None:
    """When others that are not raised are busy, or have four more requests in the driver."""
    hand, mine = scenario(AFTER, [ROOT], ROOT)
    bfqd = hand.bfqd
    mine.wr_coeff = 30
    bfqd.wr_busy_queues, bfqd.tot_busy_queues = raised, busy
    bfqd.tot_rq_in_driver, mine.dispatched = in_driver, dispatched
    assert idling_needed_for_service_guarantees(bfqd, mine) == expected
    assert idle_rule(bfqd, mine) == (IDLE_RAISED if expected else IDLE_NOT)


@pytest.mark.parametrize(
    ("others", "me", "rule"),
    [
        ([ROOT], ROOT, IDLE_NOT),
        ([], ROOT, IDLE_ONLY),
        ([A], B, IDLE_GROUPS),
        ([("/", RT)], ROOT, IDLE_CLASSES),
        ([("/", BE[7])], ROOT, IDLE_WEIGHTS),
    ],
)
def test_the_rule_that_is_told(others: list[tuple[str, int]], me: tuple[str, int], rule: int) -> None:
    """The log hears the rule that decides."""
    hand, mine = scenario(AFTER, others, me)
    assert idle_rule(hand.bfqd, mine) == rule


def test_the_rule_of_a_disk() -> None:
    """A sequential reader on a disk is waited for to make the disk faster."""
    hand = Hand(AFTER, is_rotational=True)
    task = hand.task()
    hand.read(task, 0)
    assert idle_rule(hand.bfqd, hand.queue(task)) == IDLE_BOOSTS


@pytest.mark.parametrize(
    ("slice_us", "is_seeky", "coeff", "is_symmetric", "expected_us"),
    [
        (8000, True, 1, True, 2000),
        (8000, True, 1, False, 8000),
        (8000, False, 1, True, 8000),
        (1000, True, 1, True, 1000),
        (8000, True, 30, True, 20000),
        (30000, False, 30, True, 30000),
        (30000, True, 1, True, 2000),
    ],
)
def test_the_length_of_idling(slice_us: int, is_seeky: bool, coeff: int, is_symmetric: bool, expected_us: int) -> None:
    """slice_idle; 2 ms for seeky queues where all are equal; at least 20 ms for raised ones."""
    hand, mine = scenario(AFTER, [ROOT] if is_symmetric else [A], ROOT, slice_idle_us=slice_us)
    if not is_seeky:
        mine.seek_history, mine.nr_seeks = 1, 1
    mine.wr_coeff = coeff
    now = hand.machine.now
    arm_idle_timer(hand.bfqd, mine)
    slot = hand.bfqd.idle_timer.slot
    assert isinstance(slot, Armed)
    assert (mine.wait_request, slot.expires_ns) == (True, now + expected_us * 1000)
    assert hand.bfqd.last_idling_start_ns == now
    stop_idling(hand.bfqd, mine)
    assert (mine.wait_request, hand.machine.timers) == (False, [])


@pytest.mark.parametrize(
    ("others", "me", "before", "after"),
    [([ROOT], ROOT, 3, 3), ([A], A, 1, 3), ([B], A, 1, 1), ([("/", BE[7])], ROOT, 1, 1), ([("/", RT)], ROOT, 1, 1)],
)
def test_the_charge_of_async_writes(
    others: list[tuple[str, int]], me: tuple[str, int], before: int, after: int
) -> None:
    """Three times, but once where the scenario is asymmetric; a single group has changed sides with 6.2."""
    for rules, factor in ((BEFORE, before), (AFTER, after)):
        hand, _ = scenario(rules, others, me)
        writer = hand.task(*me)
        hand.write(writer, 4096, nr=16, flags=0)
        shared = hand.async_queue(writer)
        assert shared.next_rq is not None
        assert serv_to_charge(hand.bfqd, shared.next_rq, shared) == 16 * factor
        shared.wr_coeff = 30
        assert serv_to_charge(hand.bfqd, shared.next_rq, shared) == 16, "raised"
        sync = hand.bfqd.queues[0]
        assert sync.next_rq is not None
        assert serv_to_charge(hand.bfqd, sync.next_rq, sync) == 8


def test_the_slot_of_a_queue_that_is_waited_for() -> None:
    """The timer starts with the last completion, is stopped by a request, and ends the slot when none comes."""
    hand = Hand(AFTER)
    one, other = hand.task("/a"), hand.task("/b")
    hand.read(one, 0)
    hand.skip(700 * MS)
    hand.read(other, 1 << 20)
    assert hand.give() == 0
    assert hand.give() == -1, "kept for it while its request is in flight"
    hand.complete()
    assert hand.log.of("idle") == ["idle 1@/a 8000000"]
    assert hand.give() == -1
    hand.skip(3 * MS)
    hand.read(one, 8)
    assert hand.machine.timers == []
    assert hand.serve() == 8
    hand.wait(8 * MS)
    assert hand.log.of("end")[-1].startswith("end 1@/a TOO_IDLE")
    assert hand.serve() == 1 << 20


def test_a_small_request_keeps_the_timer_on_a_disk() -> None:
    """Where idling makes the device faster, one small request alone is not worth a seek: more may come."""
    hand = Hand(AFTER, is_rotational=True)
    task = hand.task()
    hand.read(task, 0)
    hand.serve()
    assert hand.queue(task).wait_request
    hand.read(task, 8)
    assert hand.queue(task).wait_request, "8 sectors"
    hand.read(task, 64)
    assert not hand.queue(task).wait_request, "two requests"
    hand.give_all()
    while hand.given:
        hand.complete()
    assert hand.queue(task).wait_request
    hand.read(task, 72, nr=32)
    assert not hand.queue(task).wait_request, "32 sectors"
