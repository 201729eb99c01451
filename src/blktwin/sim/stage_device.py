"""What --stages keeps of one device: a histogram per stage and direction, and btt's counts of queueing and merging.

The stages are btt's, with G2D for requests that are never inserted, and those of a loop device inside D2C.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from librt.vecs import vec
from mypy_extensions import i64

from blktwin.fio.hist import LatencyStat, RunningStat

if TYPE_CHECKING:
    from blktwin.block.queue import RequestQueue
    from blktwin.sim.stage_loop import LoopFacts

Q2Q: Final = 0
Q2G: Final = 1
G2I: Final = 2
Q2M: Final = 3
I2D: Final = 4
M2D: Final = 5
G2D: Final = 6
D2C: Final = 7
Q2C: Final = 8
D2W: Final = 9
W2X: Final = 10
X2LQ: Final = 11
LQ2LC: Final = 12
LC2C: Final = 13
X2C: Final = 14
STAGE_NAMES: Final = (
    "Q2Q",
    "Q2G",
    "G2I",
    "Q2M",
    "I2D",
    "M2D",
    "G2D",
    "D2C",
    "Q2C",
    "D2W",
    "W2X",
    "X2Q'",
    "Q'2C'",
    "C'2C",
    "X2C",
)
NR_STAGES: Final = 15
LOOP_STAGES: Final = (D2W, W2X, X2LQ, LQ2LC, LC2C, X2C)
"""What D2C of a loop device consists of; X2C stands for the last four of a request with no I/O below."""

DIRECTION_NAMES: Final = ("read", "write", "discard", "flush")
FLUSH: Final = 3
"""The flush queue's own requests: btt does not count what has no sectors, and no total has them."""
NR_DIRECTIONS: Final = 4


class DeviceStages:
    """One device's stages and counts; times in ns, sizes in sectors."""

    def __init__(self, q: RequestQueue) -> None:
        self.q: RequestQueue = q
        self.is_loop: bool = False
        self.loop: LoopFacts | None = None
        """How its requests are executed, when somebody wants that explained."""
        self.stats: list[LatencyStat | None] = [None] * (NR_STAGES * NR_DIRECTIONS)
        self.nr_queued: i64 = 0
        """As btt: bios that were queued, and requests that came back."""
        self.nr_issued: i64 = 0
        self.sectors: RunningStat = RunningStat()
        """Of each issue."""
        self.sectors_returned: i64 = 0
        self.nr_requeued: i64 = 0
        self.nr_splits: i64 = 0
        self.nr_parts: i64 = 0
        """Completions of less than the rest of a request."""
        self.nr_merged_bios: i64 = 0
        self.nr_merged_requests: i64 = 0
        self.nr_completed: i64 = 0
        """Requests."""
        self.nr_early: i64 = 0
        """Steps of one CPU that came before what another one had done with the same request."""
        self.waiting: i64 = 0
        """Requests and bios on their way to the driver."""
        self.waiting_seen: i64 = 0
        """Sum over all that were queued of what waited then."""
        self.in_flight: i64 = 0
        self.in_flight_max: i64 = 0
        self.in_flight_ns: i64 = 0
        """Sum of the times that requests were with the driver."""
        self.first_ns: i64 = -1
        self.last_ns: i64 = -1
        self.queued_ns: i64 = -1
        """The last arrival whose place in time is certain."""
        self.arrivals: vec[i64] = vec[i64]([0] * 8)
        """Later ones, sorted: the CPUs run ahead of the events, so they come out of order."""
        self.nr_arrivals: i64 = 0

    def add(self, stage: i64, way: i64, ns: i64) -> None:
        """Count a sample of a stage in a direction; one below 0 is none: CPUs run ahead of each other."""
        if ns < 0:
            self.nr_early += 1
            ns = 0
        at = way * NR_STAGES + stage
        stat = self.stats[at]
        if stat is None:
            stat = LatencyStat()
            self.stats[at] = stat
        stat.add(ns)

    def arrive(self, now_ns: i64, settled_ns: i64) -> None:
        """Count a bio that is queued at now_ns; nothing comes any more that is before settled_ns."""
        self.nr_queued += 1
        self.waiting_seen += self.waiting
        self.waiting += 1
        if self.first_ns < 0 or now_ns < self.first_ns:
            self.first_ns = now_ns
        self.settle(settled_ns)
        arrivals = self.arrivals
        at = self.nr_arrivals
        if at == len(arrivals):
            arrivals = vec[i64](list(arrivals) + [0] * int(at))
            self.arrivals = arrivals
        while at > 0 and arrivals[at - 1] > now_ns:
            arrivals[at] = arrivals[at - 1]
            at -= 1
        arrivals[at] = now_ns
        self.nr_arrivals += 1

    def settle(self, settled_ns: i64) -> None:
        """Count Q2Q of all arrivals up to settled_ns."""
        arrivals = self.arrivals
        nr = self.nr_arrivals
        nr_settled: i64 = 0
        while nr_settled < nr and arrivals[nr_settled] <= settled_ns:
            arrived_ns = arrivals[nr_settled]
            if self.queued_ns >= 0:
                self.add(Q2Q, 0, arrived_ns - self.queued_ns)
            self.queued_ns = arrived_ns
            nr_settled += 1
        if nr_settled > 0:
            self.nr_arrivals = nr - nr_settled
            for at in range(self.nr_arrivals):
                arrivals[at] = arrivals[at + nr_settled]

    def issue(self, nr_sectors: i64) -> None:
        """Count a request that goes to the driver."""
        self.nr_issued += 1
        self.sectors.add(nr_sectors)
        self.waiting -= 1

    def give_back(self, nr_sectors: i64) -> None:
        """Count a request that the driver gives back."""
        self.nr_requeued += 1
        self.nr_queued += 1
        self.sectors_returned += nr_sectors
        self.waiting += 1

    def stat(self, stage: int, way: int) -> LatencyStat | None:
        """Return a stage in one direction, None without a sample."""
        return self.stats[way * NR_STAGES + stage]

    def total(self, stage: int) -> LatencyStat:
        """Return a stage over all directions but FLUSH."""
        total = LatencyStat()
        for way in range(FLUSH):
            stat = self.stat(stage, way)
            if stat is not None:
                total.merge(stat)
        return total

    def nr_requests(self) -> int:
        """Return how many requests have ended."""
        return int(self.nr_completed)
