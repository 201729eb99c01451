"""BFQ behaves as the specification says (§8.2) and serves by weight within the bound of B-WF2Q+ (§2.8)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from bfq_audit import audit
from bfq_scenes import MS, SEC, US, R, Scene, Script, Step, W, random_scene
from bfq_watch import WatchLog
from bfq_world import BfqWorld, run_scene
from hypothesis import given, settings
from hypothesis import strategies as st

from blktwin.block.bfq.data import BfqData
from blktwin.block.bfq.log import BUDGET_EXHAUSTED, REASON_NAMES
from blktwin.block.bfq.queue import BfqQueue
from blktwin.block.bio import REQ_SYNC
from blktwin.block.rules import BFQ_GROUPS_ACTIVATED, BFQ_GROUPS_PENDING, PRESET_NAMES, Rules

BE, IDLE_CLASS = 2 << 13, 3 << 13
AFTER = [name for name in PRESET_NAMES if not name.startswith("5") and name != "6.1"]


def by_hypothesis(data: st.DataObject) -> Callable[[Sequence[Any]], Any]:
    """Choose by hypothesis."""
    return lambda options: options[data.draw(st.integers(0, len(options) - 1))]


# -- behaviour (spec §8.2)


def reader(path: str, ioprio: int, start_ns: int, nr: int, *, is_seeky: bool = True, depth: int = 1) -> Script:
    """A process that keeps `depth` reads of 4 KiB going, nr in all, or (0) for ever."""
    base = start_ns // (1000 * US) * 8192 % (1 << 22)
    steps: list[Step] = []
    for at in range(nr or 997):
        sector = base + (at * 7919 % 997 * 4096 if is_seeky else at * 16)
        steps += [("wait", depth - 1), ("io", R, 0, sector, 8)]
    return Script(path, ioprio, start_ns, [*steps, ("wait", 0) if nr else ("again", 0)])


class HoldWatch(WatchLog):
    """Notes holds while requests wait, and how long the timer had run."""

    def __init__(self) -> None:
        super().__init__()
        self.alone_when_armed = False
        self.nr_waiting_holds = 0

    def idling(self, bfqd: BfqData, bfqq: BfqQueue, rule: int, ns: int) -> None:
        """See whether anybody else was there."""
        super().idling(bfqd, bfqq, rule, ns)
        self.alone_when_armed = bfqd.tot_busy_queues == 1

    def held(self, bfqd: BfqData, bfqq: BfqQueue, rule: int) -> None:
        """Requests may wait only for a timer that was started when its queue was alone."""
        super().held(bfqd, bfqq, rule)
        if bfqd.queued > 0:
            self.nr_waiting_holds += 1
            assert bfqq.wait_request, "the device is kept while requests wait"
            assert self.alone_when_armed, "the device idles while requests wait"


@given(st.integers(2, 6), st.sampled_from(AFTER), st.sampled_from(["/", "/c1", "/c1/c2"]), st.sampled_from([1, 2, 16]))
@settings(max_examples=15)
def test_work_conservation(nr: int, rules: str, path: str, channels: int) -> None:
    """8.2-2: since 6.2, in one group, whenever a queue has requests a dispatch gets one.

    Except while a timer runs that was started for a queue that was alone: within one group nobody preempts it.
    """
    scripts = [reader(path, 0, at * 700 * MS, 60) for at in range(nr)]
    log = HoldWatch()
    scene = Scene(rules=rules, tunables={"low_latency": 0}, scripts=scripts, channels=channels, latency_ns=400 * US)
    world = BfqWorld(scene, log)
    world.run()
    world.check_end()
    assert log.seen["dispatched"] == nr * 60


class SerialWatch(WatchLog):
    """Sees to it that only one queue has requests in the driver, and those that lost their turn with one in flight."""

    def __init__(self) -> None:
        super().__init__()
        self.left: set[str] = set()
        self.nr_beside = 0

    def expired(self, bfqd: BfqData, bfqq: BfqQueue, reason: int, is_slow: bool, charged: int) -> None:
        """Note what is left in flight."""
        super().expired(bfqd, bfqq, reason, is_slow, charged)
        if bfqq.dispatched > 0:
            self.left.add(bfqq.path())

    def completed(self, bfqd: BfqData, bfqq: BfqQueue) -> None:
        """It has come back."""
        super().completed(bfqd, bfqq)
        if bfqq.dispatched == 0:
            self.left.discard(bfqq.path())

    def dispatched(self, bfqd: BfqData, bfqq: BfqQueue, sectors: int) -> None:
        """No other queue has any."""
        super().dispatched(bfqd, bfqq, sectors)
        others = {one.path() for one in bfqd.queues if one is not bfqq and one.dispatched > 0}
        assert others <= self.left, f"{bfqq.path()} is served beside {others}"
        self.nr_beside += bool(others)
        for one in bfqd.queues:
            one.inject_limit = 0

    def inject_limit(self, bfqd: BfqData, bfqq: BfqQueue, before: int) -> None:
        """Switch injection off."""
        bfqq.inject_limit = 0


@given(st.sampled_from(PRESET_NAMES), st.integers(1, 3), st.integers(1, 3), st.booleans())
@settings(max_examples=15)
def test_serial_when_plugged(rules: str, in_a: int, in_b: int, is_root: bool) -> None:
    """8.2-3: with several groups and no injection one queue at a time has requests in the driver."""
    scripts = [reader("/" if is_root else "/a", 0, at * 650 * MS, 150) for at in range(in_a)]
    scripts += [reader("/b", 0, (at + in_a) * 650 * MS, 150) for at in range(in_b)]
    for script in scripts:
        # They go on when all are there: until then there may be one group only.
        script.steps[2:2] = [("wait", 0), ("sleep", 5 * SEC - script.start_ns)]
    scene = Scene(rules=rules, tunables={"low_latency": 0}, scripts=scripts, latency_ns=400 * US)
    # What weighs more takes over at once, and then the request of the other is still in flight.
    scene.weights = {"/b": 40} if is_root else {}
    log = SerialWatch()
    world = BfqWorld(scene, log)
    run_until_one_ends(world)
    assert log.nr_beside < log.seen["dispatched"] // 10
    assert log.seen["dispatched"] > 150


def run_until_one_ends(world: BfqWorld) -> None:
    """Run until the first process has ended; from then on fewer groups pend."""
    while not any(task.is_done for task in world.tasks):
        assert world.sim.run(1 << 62, 50)
    audit(world.bfqd, world.history)


class LagWatch(WatchLog):
    """Adds up what queues and groups are charged from one moment on, and looks at the bound after each request."""

    def __init__(self, levels: list[dict[str, int]]) -> None:
        super().__init__()
        self.levels = levels
        """Weights of siblings."""
        self.service: dict[str, int] = {}
        self.most: dict[str, int] = {}
        self.is_counting = False

    def in_service(self, bfqd: BfqData, bfqq: BfqQueue) -> None:
        """Note the budget, which is also that of its group."""
        super().in_service(bfqd, bfqq)
        for name in (bfqq.path(), bfqq.group_path):
            if not self.is_counting:
                self.most[name] = int(bfqq.budget)
            else:
                self.most[name] = max(self.most[name], int(bfqq.budget))

    def dispatched(self, bfqd: BfqData, bfqq: BfqQueue, sectors: int) -> None:
        """Count, and compare siblings."""
        super().dispatched(bfqd, bfqq, sectors)
        if not self.is_counting:
            return
        for name in (bfqq.path(), bfqq.group_path):
            self.service[name] = self.service.get(name, 0) + int(sectors)
        for weights in self.levels:
            for one in weights:
                for other in weights:
                    self.compare(one, weights[one], other, weights[other])

    def compare(self, one: str, weight: int, other: str, other_weight: int) -> None:
        """No two have a normalised service further apart than their largest budgets (and a request) allow."""
        lag = self.service.get(one, 0) / weight - self.service.get(other, 0) / other_weight
        bound = (self.most[one] + 8) / weight + (self.most[other] + 8) / other_weight
        assert abs(lag) <= bound, f"{one} and {other}: {lag} of {bound}"

    def expired(self, bfqd: BfqData, bfqq: BfqQueue, reason: int, is_slow: bool, charged: int) -> None:
        """Only budgets end slots: all have requests all the time."""
        super().expired(bfqd, bfqq, reason, is_slow, charged)
        assert not self.is_counting or (reason == BUDGET_EXHAUSTED and charged == 0), REASON_NAMES[reason]


@given(
    st.lists(st.sampled_from([100, 200, 300]), min_size=1, max_size=3),
    st.lists(st.sampled_from([0, 2, 4]), min_size=1, max_size=2),
    st.sampled_from([64, 256, 1024]),
    st.sampled_from(PRESET_NAMES),
)
@settings(max_examples=8)
def test_service_lag_is_bounded(weights: list[int], ioprios: list[int], max_budget: int, rules: str) -> None:
    """2.8: backlogged siblings get service by weight, within their budgets, at each level and over any interval."""
    paths = [f"/g{at}" for at in range(len(weights))]
    levels = [dict(zip(paths, weights, strict=True))]
    scripts: list[Script] = []
    for path in paths:
        queues: dict[str, int] = {}
        for level in ioprios:
            pid = len(scripts) + 1
            queues[f"{pid}@{path}"] = (8 - level) * 10
            scripts.append(reader(path, BE | level, pid * 650 * MS, 0, is_seeky=False, depth=16))
        levels.append(queues)
    go_ns = (len(scripts) + 3) * 650 * MS
    for script in scripts:
        # They go on when all are there.
        script.steps[2:2] = [("wait", 0), ("sleep", go_ns - script.start_ns)]
        script.steps[-1] = ("again", 4)
    log = LagWatch(levels)
    scene = Scene(rules=rules, scripts=scripts, depth=2, channels=1, nr_requests=256, latency_ns=20 * US)
    scene.weights = levels[0]
    scene.tunables = {"low_latency": 0, "max_budget": max_budget, "timeout_sync": 1000}
    world = BfqWorld(scene, log)
    until_ns = go_ns + 40 * MS
    world.sim.run(until_ns, 1 << 30)
    # The first budgets are larger; what is left of these is not part of it.
    names = {name for level in levels for name in level}
    while names - set(log.most) or max(log.most.values()) > max_budget:
        until_ns += 5 * MS
        world.sim.run(until_ns, 1 << 30)
    log.is_counting = True
    start = len(log.served)
    world.sim.run(until_ns + 70 * MS, 1 << 30)
    assert len(log.served) - start > 1500
    audit(world.bfqd, world.history)


def two_rules() -> tuple[Rules, Rules]:
    """Return 6.12 before and after the change of the group count, all else equal."""
    before, after = Rules("before"), Rules("after")
    before.bfq_groups, before.bfq_group_threshold = BFQ_GROUPS_ACTIVATED, 0
    after.bfq_groups, after.bfq_group_threshold = BFQ_GROUPS_PENDING, 1
    return before, after


@given(st.data())
@settings(max_examples=20)
def test_before_and_after_agree_without_groups(data: st.DataObject) -> None:
    """8.2-7: while nothing but the root group has processes, the count of groups decides nothing."""
    scene = random_scene(by_hypothesis(data))
    for script in scene.scripts:
        script.cgroup = "/"
        script.steps = [step for step in script.steps if step[0] != "move"]
    before, after = two_rules()
    scene.rules = before
    one = run_scene(scene)
    scene.rules = after
    two = run_scene(scene)
    assert one.log.served == two.log.served
    assert one.log.expiries == two.log.expiries


@given(st.integers(1, 3), st.integers(1, 3), st.sampled_from([0, 1]))
@settings(max_examples=10)
def test_before_and_after_agree_with_busy_groups(in_a: int, in_b: int, low_latency: int) -> None:
    """8.2-7: nor does it while two groups are backlogged all the time."""
    runs = []
    for rules in two_rules():
        paths = ["/a"] * in_a + ["/b"] * in_b
        scripts = [reader(path, 0, at * 100 * US, 0, depth=8) for at, path in enumerate(paths)]
        scene = Scene(rules=rules, scripts=scripts, depth=4, channels=2, nr_requests=256, latency_ns=300 * US)
        scene.tunables["low_latency"] = low_latency
        world = BfqWorld(scene)
        world.sim.run(200 * MS, 1 << 30)
        runs.append(world.log.served)
    assert runs[0] == runs[1]
    assert len(runs[0]) > 1000


@given(st.sampled_from(PRESET_NAMES), st.booleans(), st.integers(1, 3))
@settings(max_examples=10)
def test_the_idle_class_is_served(rules: str, is_grouped: bool, nr: int) -> None:
    """8.2-8: while others have requests all the time, the idle class has a turn every 200 ms of lookups."""
    path = "/a" if is_grouped else "/"
    scripts = [reader(path, BE | 4, at * 650 * MS, 0, depth=8) for at in range(nr)]
    scripts.append(reader(path, IDLE_CLASS, nr * 650 * MS, 0, depth=8))
    scene = Scene(rules=rules, scripts=scripts, depth=2, channels=1, nr_requests=256, latency_ns=1500 * US)
    scene.tunables["low_latency"] = 0
    world = BfqWorld(scene)
    start_ns = nr * 650 * MS
    world.sim.run(start_ns + 2 * SEC, 1 << 30)
    turns = [ns for ns, who, _ in world.log.served if who.startswith(f"{nr + 1}@")]
    assert turns[0] >= start_ns
    gaps = [after - before for before, after in zip([start_ns, *turns], [*turns, start_ns + 2 * SEC], strict=True)]
    # The choice is made at the end of a slot, and the one that was chosen by then comes first.
    assert max(gaps) <= 200 * MS + 2 * 124 * MS + 8 * MS, f"{max(gaps) / MS} ms without a turn"
    others = sum(1 for _, who, _ in world.log.served if not who.startswith(f"{nr + 1}@"))
    assert others > 5 * len(turns), "the idle class has more than its turns"


@given(st.sampled_from(PRESET_NAMES), st.sampled_from([20, 125, 300]), st.sampled_from([100, 250, 1000]))
@settings(max_examples=12)
def test_slots_end_in_time(rules: str, timeout_ms: int, hz: int) -> None:
    """8.2-5: a queue that is not raised keeps service for timeout_sync, a tick, and what was in flight."""
    scripts = [reader("/a", 0, 0, 0, depth=4), reader("/b", 0, 650 * MS, 0, depth=4)]
    tunables = {"low_latency": 0, "timeout_sync": timeout_ms}
    scene = Scene(rules=rules, hz=hz, scripts=scripts, depth=4, channels=1, nr_requests=64, tunables=tunables)
    scene.latency_ns = 1500 * US

    class SlotWatch(WatchLog):
        started_ns = 0
        longest_ns = 0

        def in_service(self, bfqd: BfqData, bfqq: BfqQueue) -> None:
            super().in_service(bfqd, bfqq)
            self.started_ns = int(bfqd.now_ns())

        def expired(self, bfqd: BfqData, bfqq: BfqQueue, reason: int, is_slow: bool, charged: int) -> None:
            super().expired(bfqd, bfqq, reason, is_slow, charged)
            self.longest_ns = max(self.longest_ns, int(bfqd.now_ns()) - self.started_ns)

    log = SlotWatch()
    world = BfqWorld(scene, log)
    world.sim.run(2500 * MS, 1 << 30)
    tick_ns = SEC // hz
    timeout_ns = -(-timeout_ms * hz // 1000) * tick_ns
    assert log.seen["BUDGET_TIMEOUT"] > 1
    assert timeout_ns - tick_ns <= log.longest_ns <= timeout_ns + tick_ns + 8 * MS + 4 * scene.latency_ns


def test_sync_flag_is_what_makes_a_write_sync() -> None:
    """The worlds' writes are of both kinds: one is served from its process's queue, the other from a shared one."""
    scripts = [Script("/a", 0, 0, [("io", W, REQ_SYNC, 0, 8), ("io", W, 0, 800, 8), ("wait", 0)])]
    world = run_scene(Scene(scripts=scripts))
    assert sorted(who for _, who, _ in world.log.served) == ["1@/a", "async@/a"]
