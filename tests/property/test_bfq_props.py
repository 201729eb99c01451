"""Random worlds of BFQ hold every invariant of the specification (§8.1).

A world is drawn by hypothesis in the default suite, where it shrinks, and by a seeded generator in the slow one, where
ten thousand of them are run.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Sequence
from random import Random
from typing import Any

import pytest
from bfq_audit import audit
from bfq_scenes import US, R, Scene, Script, Step, W, random_scene
from bfq_watch import WatchLog
from bfq_world import BfqWorld, run_scene
from hypothesis import given, settings
from hypothesis import strategies as st

from blktwin.block.bfq.data import BfqData
from blktwin.block.bfq.queue import BfqQueue


def by_hypothesis(data: st.DataObject) -> Callable[[Sequence[Any]], Any]:
    """Choose by hypothesis."""
    return lambda options: options[data.draw(st.integers(0, len(options) - 1))]


@given(st.data())
@settings(max_examples=80)
def test_any_world_holds(data: st.DataObject) -> None:
    """Structure after every event, no lost or doubled request, no deadlock, slots and budgets within their bounds."""
    run_scene(random_scene(by_hypothesis(data)))


@pytest.mark.slow
@pytest.mark.parametrize("part", range(20))
def test_ten_thousand_worlds_hold(part: int) -> None:
    """The same for many worlds; a failure names the seed of its world."""
    for seed in range(part * 500, part * 500 + 500):
        scene = random_scene(Random(seed).choice)
        try:
            run_scene(scene)
        except AssertionError as error:
            raise AssertionError(f"world {seed}: {error}") from error


def test_the_worlds_meet_everything() -> None:
    """Random worlds that never merge, raise, inject or expire would prove nothing."""
    seen: Counter[str] = Counter()
    for seed in range(250):
        seen.update(run_scene(random_scene(Random(seed).choice)).log.seen)
    wanted = ["TOO_IDLE", "BUDGET_TIMEOUT", "BUDGET_EXHAUSTED", "NO_MORE_REQUESTS", "PREEMPTED", "preempted empty"]
    wanted += ["injected 0", "injected 1", "injected 2", "injected 3", "held", "idling", "waker", "moved", "groups"]
    wanted += ["time charged", "inject limit", "raised 1->30", "raised 30->3000"]
    wanted += ["merged: created together", "merged: close to each other"]
    assert [what for what in wanted if not seen[what]] == []


@given(st.data())
@settings(max_examples=15)
def test_the_same_world_twice(data: st.DataObject) -> None:
    """Nothing depends on addresses or hash seeds: the same decisions at the same times."""
    scene = random_scene(by_hypothesis(data))
    one, two = run_scene(scene), run_scene(scene)
    assert one.log.served == two.log.served
    assert one.log.expiries == two.log.expiries
    assert one.sim.events.now_ns == two.sim.events.now_ns


# -- the audit can fail: each of these breaks one thing in a busy world


def busy() -> Scene:
    """A world with three groups, sync and async requests, and idling."""
    steps: list[Step] = []
    for at in range(200):
        steps += [("io", W, 0, 5000 + at * 512, 8), ("io", R, 0, at * 4096, 8), ("wait", 0), ("sleep", 200 * US)]
    scripts = [Script(path, 0, at * 200 * US, steps) for at, path in enumerate(["/", "/a", "/a/x", "/b", "/b"])]
    return Scene(rules="7.2", tunables={"low_latency": 0}, scripts=scripts, latency_ns=300 * US, depth=4)


def spoil_wsum(bfqd: BfqData) -> None:
    """Weigh a tree wrong."""
    bfqd.root_group.children.be.wsum += 1


def spoil_path(bfqd: BfqData) -> None:
    """Forget who is in service."""
    bfqd.root_group.children.in_service_entity = None


def spoil_busy(bfqd: BfqData) -> None:
    """Count a busy queue that is not there."""
    bfqd.busy_queues[1] += 1


def spoil_raised(bfqd: BfqData) -> None:
    """Count a raised queue that is not there."""
    bfqd.wr_busy_queues += 1


def spoil_queued(bfqd: BfqData) -> None:
    """Lose the count of a queued request."""
    bfqd.queued += 1


def spoil_dispatched(bfqd: BfqData) -> None:
    """Complete a request twice."""
    bfqd.tot_rq_in_driver -= 1


def spoil_allocated(bfqd: BfqData) -> None:
    """Free a request twice."""
    for bfqq in bfqd.queues:
        if bfqq.parent is not None and bfqq.allocated:
            bfqq.parent.allocated -= 1
            return


def spoil_weights(bfqd: BfqData) -> None:
    """Count a weight twice."""
    for counter in bfqd.weights:
        counter.nr_queues += 1


def spoil_groups(bfqd: BfqData) -> None:
    """Count a group twice."""
    bfqd.num_groups_with_pending_reqs += 1


def spoil_pending(bfqd: BfqData) -> None:
    """Forget that a queue has something pending."""
    for bfqq in bfqd.queues:
        bfqq.in_groups_with_pending_reqs = False


def spoil_finish(bfqd: BfqData) -> None:
    """Move an active queue in virtual time."""
    for bfqq in bfqd.queues:
        if bfqq.tree == 1:
            bfqq.start -= 1


def spoil_timer(bfqd: BfqData) -> None:
    """Wait for a queue without a timer."""
    bfqq = bfqd.in_service_queue
    if bfqq is not None:
        bfqq.wait_request = not bfqq.wait_request


def spoil_processes(bfqd: BfqData) -> None:
    """Let a queue have a process that is not there."""
    bfqd.queues[0].process_refs += 1


def spoil_waker(bfqd: BfqData) -> None:
    """Wake somebody who does not know."""
    bfqd.queues[0].woken_list.append(bfqd.queues[-1])


def spoil_seeks(bfqd: BfqData) -> None:
    """Miscount seeks."""
    bfqd.queues[0].nr_seeks += 1


@pytest.mark.parametrize(
    ("spoil", "complaint"),
    [
        (spoil_wsum, "1: / class 1: wsum"),
        (spoil_path, "2:|1:"),
        (spoil_busy, "5: busy"),
        (spoil_raised, "9: 1 raised"),
        (spoil_queued, "6: .* queued, found"),
        (spoil_dispatched, "6: .* in the driver"),
        (spoil_allocated, "9: .* has allocated"),
        (spoil_weights, "7: "),
        (spoil_groups, "8: "),
        (spoil_pending, "8: "),
        (spoil_finish, "10: "),
        (spoil_timer, "12: "),
        (spoil_processes, "R: .* processes"),
        (spoil_waker, "R: "),
        (spoil_seeks, "6: .* seeks"),
    ],
)
def test_the_audit_sees(spoil: Callable[[BfqData], None], complaint: str) -> None:
    """Each breakage is found at once, and named."""
    world = BfqWorld(busy())
    for _ in range(10_000):
        assert world.sim.run(1 << 62, 1), "the world never came to what is to be broken"
        bfqd = world.bfqd
        if bfqd.in_service_queue is not None and bfqd.tot_busy_queues >= 3 and bfqd.tot_rq_in_driver > 0:
            break
    audit(bfqd, world.history)
    spoil(bfqd)
    with pytest.raises(AssertionError) as caught:
        audit(bfqd, world.history)
    assert re.match(complaint, str(caught.value)), str(caught.value)


class LosingLog(WatchLog):
    """Loses a request that is queued."""

    def inserted(self, bfqd: BfqData, bfqq: BfqQueue) -> None:
        """Lose the third."""
        super().inserted(bfqd, bfqq)
        if self.seen["inserted"] == 3:
            bfqq.fifo.remove(bfqq.sort_list.requests[0])


def test_a_lost_request_is_seen() -> None:
    """A world that loses a request does not pass."""
    world = BfqWorld(busy(), LosingLog())
    with pytest.raises(AssertionError):
        world.run()
