"""What every world of BFQ keeps beyond its structure: properties of single decisions (spec §8.2-5, -6), and counts."""

from __future__ import annotations

from collections import Counter

from blktwin.block.bfq.data import BfqData
from blktwin.block.bfq.log import PREEMPTED, REASON_NAMES, BfqLog
from blktwin.block.bfq.queue import BfqQueue

MS = 1_000_000


class WatchLog(BfqLog):
    """Counts what happens, and checks the properties that belong to single decisions (spec §8.2-5, 8.2-6)."""

    def __init__(self) -> None:
        self.is_dirty = False
        self.seen: Counter[str] = Counter()
        self.served: list[tuple[int, str, int]] = []
        """(ns, queue, sectors charged) of every dispatch."""
        self.expiries: list[tuple[int, str, str, int]] = []
        """(ns, queue, reason, sectors charged for time)."""

    def in_service(self, bfqd: BfqData, bfqq: BfqQueue) -> None:
        """A slot is timeout_sync long, more only for raised queues."""
        self.is_dirty = True
        self.seen["slots"] += 1
        factor = 1 if bfqq.wr_cur_max_jif == bfqd.wr_rt_max_jif else bfqq.weight // bfqq.orig_weight
        assert bfqq.budget_timeout_jif == bfqd.jif() + bfqd.timeout_jif * factor
        # 3000: it is soft real-time no more, and its weight does not know yet.
        assert factor in (1, 30) or (factor == 3000 and bfqq.prio_changed), f"a slot {factor} times as long"
        assert bfqq.budget >= 0

    def expired(self, bfqd: BfqData, bfqq: BfqQueue, reason: int, is_slow: bool, charged: int) -> None:
        """Service never exceeds the budget, which time charging has raised if need be."""
        self.is_dirty = True
        name = REASON_NAMES[reason]
        self.seen[name] += 1
        self.seen["time charged"] += charged > 0
        self.seen["preempted empty"] += reason == PREEMPTED and bfqq.nr_queued == 0
        self.expiries.append((int(bfqd.now_ns()), bfqq.path(), name, int(charged)))
        assert 0 <= bfqq.service <= bfqq.budget, f"{bfqq.path()}: {bfqq.service} of {bfqq.budget} ({name})"

    def dispatched(self, bfqd: BfqData, bfqq: BfqQueue, sectors: int) -> None:
        """A request fits its queue's budget, and is not served in a slot that is over."""
        self.is_dirty = True
        self.seen["dispatched"] += 1
        self.served.append((int(bfqd.now_ns()), bfqq.path(), int(sectors)))
        assert sectors > 0, f"{bfqq.path()} is charged {sectors}"
        if bfqq.is_busy:
            assert bfqq.service <= bfqq.budget, f"{bfqq.path()}: {bfqq.service} of {bfqq.budget}"
        if bfqq is bfqd.in_service_queue and bfqq.budget_timeout_jif <= bfqd.jif():
            # It was waited for with less than a third of its budget left, and had a request then.
            left = bfqq.budget - bfqq.service + sectors
            assert left < bfqq.budget // 3, f"{bfqq.path()} is served behind its deadline"

    def injected(self, bfqd: BfqData, in_service: BfqQueue, bfqq: BfqQueue, why: int) -> None:
        """Only others are injected, and only while the queue in service is empty."""
        self.seen[f"injected {why}"] += 1
        assert bfqq is not in_service
        assert in_service is bfqd.in_service_queue
        assert in_service.nr_queued == 0

    def held(self, bfqd: BfqData, bfqq: BfqQueue, rule: int) -> None:
        """Count."""
        self.seen["held"] += 1
        assert bfqq is bfqd.in_service_queue
        assert bfqq.nr_queued == 0 or bfqd.strict_guarantees

    def idling(self, bfqd: BfqData, bfqq: BfqQueue, rule: int, ns: int) -> None:
        """The timer starts only for a queue with nothing queued or in flight."""
        self.is_dirty = True
        self.seen["idling"] += 1
        assert bfqq.nr_queued == 0
        assert bfqq.dispatched == 0
        assert 0 <= ns <= max(bfqd.slice_idle_ns, 20 * MS)
        assert ns > 0 or bfqd.strict_guarantees

    def completed(self, bfqd: BfqData, bfqq: BfqQueue) -> None:
        """Count."""
        self.is_dirty = True
        self.seen["completed"] += 1

    def inserted(self, bfqd: BfqData, bfqq: BfqQueue) -> None:
        """Count."""
        self.is_dirty = True
        self.seen["inserted"] += 1

    def inject_limit(self, bfqd: BfqData, bfqq: BfqQueue, before: int) -> None:
        """It goes up by one at a time."""
        self.seen["inject limit"] += 1
        assert 0 <= bfqq.inject_limit <= max(1, before + 1)

    def raised(self, bfqd: BfqData, bfqq: BfqQueue, before: int) -> None:
        """Only these coefficients exist."""
        self.seen["raised"] += 1
        self.seen[f"raised {before}->{bfqq.wr_coeff}"] += 1
        assert bfqq.wr_coeff in (1, 30, 3000)

    def groups(self, bfqd: BfqData, path: str) -> None:
        """Count."""
        self.seen["groups"] += 1
        assert bfqd.num_groups_with_pending_reqs >= 0

    def merged(self, bfqd: BfqData, bfqq: BfqQueue, into: BfqQueue, why: str) -> None:
        """Only sync queues of one group merge."""
        self.seen[f"merged: {why}"] += 1
        assert bfqq.is_sync
        assert into.is_sync
        assert bfqq is not into

    def split(self, bfqd: BfqData, bfqq: BfqQueue) -> None:
        """Count."""
        self.seen["split"] += 1

    def moved(self, bfqd: BfqData, bfqq: BfqQueue, path: str) -> None:
        """Count."""
        self.is_dirty = True
        self.seen["moved"] += 1

    def woken_by(self, bfqd: BfqData, bfqq: BfqQueue, waker: BfqQueue) -> None:
        """Nobody wakes itself."""
        self.seen["waker"] += 1
        assert bfqq is not waker
