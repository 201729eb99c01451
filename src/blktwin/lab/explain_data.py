"""The numbers of an explanation: per second and queue what BFQ decided, and per queue its whole life."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import NamedTuple

from blktwin.block.bfq.data import BfqData
from blktwin.block.bfq.inject import WHY_NAMES
from blktwin.block.bfq.log import REASON_NAMES
from blktwin.block.bfq.queue import BfqQueue
from blktwin.block.rules import BFQ_GROUPS_ACTIVATED
from blktwin.units import NSEC_PER_USEC


class Facts(NamedTuple):
    """The counters that a decision to idle or not looks at."""

    num_groups: int
    threshold: int
    other_count: int
    """What the other way to count would give: pending groups with the root, or activated ones without it."""
    weights: tuple[tuple[int, int], ...]
    """The weights tree: (weight, queues)."""
    busy: tuple[int, int, int]
    """Busy queues by class: real time, best effort, idle."""
    tot_busy: int
    wr_busy: int
    wr_coeff: int
    slice_idle_us: int
    process_refs: int
    habits: str


@dataclass(slots=True)
class Decision:
    """One rule's verdicts on one queue in one second, and the time they cost (ns)."""

    held: int = 0
    """Dispatches that got nothing."""
    kept: int = 0
    """Of these, those with something in the driver."""
    timers: int = 0
    refused: int = 0
    """Times that BFQ did not wait."""
    idle_ns: int = 0
    """Nothing was in the driver."""
    lost_ns: int = 0
    """That part of idle_ns in which requests of other queues waited."""
    kept_ns: int = 0
    """Something was in the driver, and requests of other queues waited."""
    depth_ns: int = 0
    """Requests in the driver, over kept_ns."""
    own_ns: int = 0
    """Those of the queue itself."""
    waiting_ns: int = 0
    """Waiting requests of other queues (strict_guarantees: of all), over lost_ns and kept_ns."""
    facts: Counter[Facts] = field(default_factory=Counter)
    """What was seen, by the time for which it was the last thing seen, or else how often."""
    seen: Facts | None = None

    @property
    def cost_ns(self) -> int:
        """For how long it kept others waiting."""
        return self.lost_ns + self.kept_ns

    def add(self, other: Decision) -> None:
        """Add another second's."""
        self.held += other.held
        self.kept += other.kept
        self.timers += other.timers
        self.refused += other.refused
        self.idle_ns += other.idle_ns
        self.lost_ns += other.lost_ns
        self.kept_ns += other.kept_ns
        self.depth_ns += other.depth_ns
        self.own_ns += other.own_ns
        self.waiting_ns += other.waiting_ns
        self.facts.update(other.facts)


@dataclass(slots=True)
class Who:
    """One queue: whose it is, and its whole life's numbers."""

    serial: int
    jobs: list[str]
    path: str
    is_sync: bool
    weight: int = 0
    group_weight: int = 0
    in_burst: bool = False
    requests: int = 0
    injected: int = 0
    sectors: int = 0
    raised_ns: int = 0
    raised_since_ns: int = -1
    waiting_since_ns: int = -1
    raised_before_ns: int = 0
    longest_wait_ns: int = 0
    wait_ended_ns: int = 0
    raised_in_wait_ns: int = 0
    """Of its longest wait, the time in which raised queues were in service."""
    seen_ns: int = 0
    last_ns: int = 0

    @property
    def label(self) -> str:
        """Name the jobs and the cgroup."""
        jobs = self.jobs
        if not self.is_sync:
            text = "async"
        elif len(jobs) > 3:
            text = f"{jobs[0]}..{jobs[-1]} ({len(jobs)} jobs)"
        else:
            text = "+".join(jobs) or "nobody"
        return f"{text} in {self.path}"


@dataclass(slots=True)
class Row:
    """One queue in one second."""

    who: Who
    path: str
    requests: int = 0
    sectors: int = 0
    """What it was charged for service, in 512 bytes."""
    injected: int = 0
    """Of the requests, those served in other queues' slots."""
    slots: int = 0
    service_ns: int = 0
    expired: list[int] = field(default_factory=lambda: [0] * len(REASON_NAMES))
    slow: int = 0
    charged: int = 0
    """Sectors added for time."""
    gave: list[int] = field(default_factory=lambda: [0] * len(WHY_NAMES))
    """Requests of others served in its slots, by reason."""
    limit_max: int = 0
    decisions: dict[int, Decision] = field(default_factory=dict)

    def add(self, other: Row) -> None:
        """Add another second's."""
        self.requests += other.requests
        self.sectors += other.sectors
        self.injected += other.injected
        self.slots += other.slots
        self.service_ns += other.service_ns
        self.expired = [a + b for a, b in zip(self.expired, other.expired, strict=True)]
        self.slow += other.slow
        self.charged += other.charged
        self.gave = [a + b for a, b in zip(self.gave, other.gave, strict=True)]
        self.limit_max = max(self.limit_max, other.limit_max)
        for rule, decision in other.decisions.items():
            self.decisions.setdefault(rule, Decision()).add(decision)


@dataclass(slots=True)
class Second:
    """The device in one second (ns)."""

    number: int
    span_ns: int = 0
    idle_ns: int = 0
    """Nothing in the driver."""
    nothing_ns: int = 0
    """That part of it in which BFQ had no request and waited for none."""
    depth_ns: int = 0
    groups: dict[int, int] = field(default_factory=dict)
    """How long num_groups_with_pending_reqs had each value."""
    rows: dict[tuple[int, str], Row] = field(default_factory=dict)


@dataclass(slots=True)
class Happening:
    """Something that happens rarely."""

    at_ns: int
    kind: str
    who: str
    text: str


def facts_of(bfqd: BfqData, bfqq: BfqQueue) -> Facts:
    """Return the counters behind a decision on bfqq."""
    paths = {queue.group_path for queue in bfqd.queues if queue.is_busy or queue.dispatched > 0}
    if bfqd.groups_rule == BFQ_GROUPS_ACTIVATED:
        other = len(paths)
    else:
        other = len({path[:at] for path in paths for at in range(2, len(path) + 1) if (path + "/")[at] == "/"})
    busy = bfqd.busy_queues
    seeky = "seeky" if bfqq.is_seeky() else "sequential"
    ttime = "short" if bfqq.has_short_ttime else "long"
    disk = "flash" if bfqd.is_nonrot else "rotational"
    return Facts(
        num_groups=int(bfqd.num_groups_with_pending_reqs),
        threshold=int(bfqd.group_threshold),
        other_count=other,
        weights=tuple((int(counter.weight), int(counter.nr_queues)) for counter in bfqd.weights),
        busy=(int(busy[0]), int(busy[1]), int(busy[2])),
        tot_busy=int(bfqd.tot_busy_queues),
        wr_busy=int(bfqd.wr_busy_queues),
        wr_coeff=int(bfqq.wr_coeff),
        slice_idle_us=int(bfqd.slice_idle_ns) // NSEC_PER_USEC,
        process_refs=int(bfqq.process_refs),
        habits=f"{disk}, hw_tag {int(bfqd.hw_tag)}, {seeky}, {ttime} think time",
    )
