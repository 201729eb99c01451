"""Properties: the event queue against a sorted list, timers against a model, and devices under random load."""

from __future__ import annotations

import pytest
from closed_loop import END, Done, Io, World, list_io
from hypothesis import given
from hypothesis import strategies as st

from blktwin.block.bio import REQ_FUA, REQ_OP_DISCARD, REQ_OP_READ, REQ_OP_WRITE, REQ_PREFLUSH, REQ_SYNC
from blktwin.block.machine import Timer
from blktwin.sim.costs import Costs
from blktwin.sim.events import Event, EventQueue
from blktwin.sim.faults import Faults
from blktwin.sim.hosts import get_host
from blktwin.sim.machine import SimMachine
from blktwin.sim.trace import CostTrace

# -- the event queue


class Numbered(Event):
    """An event that logs itself; some queue or remove another event when they fire."""

    def __init__(self, number: int, world: QueueWorld) -> None:
        super().__init__()
        self.number = number
        self.world = world

    def fire(self) -> None:
        """Tell the world."""
        self.world.fired(self.number)


class QueueWorld:
    """The queue, and a plain list of (time, serial, number) that must agree with it."""

    def __init__(self, nr_events: int, actions: list[tuple[int, int, int]]) -> None:
        self.queue = EventQueue()
        self.events = [Numbered(number, self) for number in range(nr_events)]
        self.model: list[tuple[int, int, int]] = []
        self.actions = actions
        self.serial = 0

    def at(self, number: int, time_ns: int) -> None:
        """Queue an event in both, first taking it out if it is queued."""
        event = self.events[number]
        if event.is_queued:
            self.queue.remove(event)
            self.model = [entry for entry in self.model if entry[2] != number]
        self.queue.at(event, time_ns)
        self.serial += 1
        self.model.append((max(time_ns, int(self.queue.now_ns)), self.serial, number))

    def fired(self, number: int) -> None:
        """Compare with the model, then do the next action."""
        self.model.sort()
        time_ns, _, expected = self.model.pop(0)
        assert (expected, time_ns) == (number, self.queue.now_ns)
        if self.actions:
            kind, other, delay = self.actions.pop()
            if kind == 0:
                self.at(other % len(self.events), int(self.queue.now_ns) + delay)
            elif kind == 1 and self.events[other % len(self.events)].is_queued:
                self.queue.remove(self.events[other % len(self.events)])
                self.model = [entry for entry in self.model if entry[2] != other % len(self.events)]


@given(
    st.lists(st.integers(0, 30), min_size=1, max_size=60),
    st.lists(st.tuples(st.integers(0, 2), st.integers(0, 59), st.integers(0, 20)), max_size=80),
    st.integers(1, 7),
)
def test_event_queue_is_a_stable_sorted_list(times: list[int], actions: list[tuple[int, int, int]], step: int) -> None:
    """Firing order is (time, order of queueing), with events that queue and remove others, in runs of any length."""
    world = QueueWorld(len(times), actions)
    for number, time_ns in enumerate(times):
        world.at(number, time_ns)
    while world.queue.size > 0:
        assert world.queue.next_time_ns() == min(world.model)[0]
        world.queue.run(END, step)
        assert world.queue.size - (1 if world.queue.has_hole else 0) == len(world.model)
    assert world.model == []


class LoggedTimer(Timer):
    """A timer that logs (number, time)."""

    def __init__(self, number: int, log: list[tuple[int, int]], machine: SimMachine) -> None:
        super().__init__()
        self.number, self.log, self.machine = number, log, machine

    def fire(self) -> None:
        """Log."""
        self.log.append((self.number, int(self.machine.now_ns())))


@given(st.lists(st.tuples(st.integers(0, 5), st.integers(-1, 40), st.integers(0, 3)), max_size=60))
def test_timers_follow_their_model(steps: list[tuple[int, int, int]]) -> None:
    """Arm, move, cancel and pass time: each timer fires once, on time, equal times in the order of arming."""
    costs = Costs()
    trace = CostTrace(costs)
    machine = SimMachine(trace, nr_cpus=1, hz=250, costs=costs, faults=Faults(1, {}))
    log: list[tuple[int, int]] = []
    timers = [LoggedTimer(number, log, machine) for number in range(6)]
    armed: dict[int, tuple[int, int]] = {}
    expected: list[tuple[int, int]] = []
    now = 0
    for order, (number, delay, passes) in enumerate(steps):
        machine.local_ns = now
        if delay < 0:
            assert machine.cancel_timer(timers[number]) == (number in armed)
            armed.pop(number, None)
        else:
            machine.arm_timer(timers[number], now + delay)
            armed[number] = (now + delay, order)
        now += passes
        due = sorted((time_ns, at, who) for who, (time_ns, at) in armed.items() if time_ns <= now)
        expected += [(who, time_ns) for time_ns, _, who in due]
        for _, _, who in due:
            del armed[who]
        machine.run(now, END)
        assert log == expected
    machine.run(END, END)
    rest = sorted((time_ns, at, who) for who, (time_ns, at) in armed.items())
    assert log == expected + [(who, time_ns) for time_ns, _, who in rest]


# -- devices


@st.composite
def an_io(draw: st.DrawFn) -> Io:
    """One valid I/O of any kind."""
    sectors = draw(st.sampled_from([8, 8, 8, 16, 64, 256, 1024]))
    sector = 8 * draw(st.integers(0, 100_000))
    kind = draw(st.integers(0, 9))
    if kind < 4:
        return REQ_OP_READ, 0, sector, sectors
    if kind < 8:
        return REQ_OP_WRITE, REQ_SYNC | (REQ_FUA if kind == 7 else 0), sector, sectors
    if kind == 8:
        return REQ_OP_WRITE, REQ_SYNC | REQ_PREFLUSH, 0, 0
    return REQ_OP_DISCARD, 0, sector, sectors


LOADS = st.lists(st.lists(an_io(), min_size=1, max_size=25), min_size=1, max_size=4)
DEVICES = st.sampled_from(
    [
        "/dev/nullb0,depth=3",
        "/dev/nvme0n1=seed2-nvme,depth=2,queues=2",
        "/dev/nvme0n1=nvme,channels=2",
        "/dev/nvme0n1=nvme-consumer,cache=64k",
        "/dev/sda=sata-ssd",
        "/dev/mmcblk0",
        "/dev/nvme1n1=ebs,iops=5000",
        "/dev/sda=hdd,write_cache=1",
    ]
)


def run_load(device: str, loads: list[list[Io]], cpus: int, seed: int, faults: dict[str, int]) -> World:
    """Run one job per load, at depth 3."""
    world = World(device, cpus=cpus, costs=get_host().cost_table(), seed=seed, faults=faults)
    for at, ios in enumerate(loads):
        world.job(list_io(ios), 3, at % cpus, at * 7_000)
    world.run()
    return world


def times(world: World) -> list[tuple[int, int, int, int]]:
    """Return everything about a run that a device decides."""
    return [(job.pid, done.number, done.done_ns, done.status) for job in world.jobs for done in job.done]


@given(DEVICES, LOADS, st.integers(1, 4), st.integers(0, 1000), st.booleans())
def test_every_io_ends_once_after_it_was_submitted(
    device: str, loads: list[list[Io]], cpus: int, seed: int, is_faulty: bool
) -> None:
    """Conservation, no completion before submission, and the same seed gives the same times."""
    faults = {"io_error_ppm": 50_000, "slow_io_ppm": 50_000, "slow_io_ns": 99_000} if is_faulty else {}
    world = run_load(device, loads, cpus, seed, faults)
    world.check_conservation()
    for job, ios in zip(world.jobs, loads, strict=True):
        assert sorted(done.number for done in job.done) == list(range(len(ios)))
        assert all(done.done_ns >= done.issued_ns for done in job.done)
        assert is_faulty or all(done.status == 0 for done in job.done)
    assert world.q.nr_started == world.q.nr_completed
    assert times(run_load(device, loads, cpus, seed, faults)) == times(world)


def by_end(world: World, op: int) -> list[Done]:
    """Return the ended I/Os of one operation in the order of their ends."""
    ended = [done for job in world.jobs for done in job.done if done.io[0] == op]
    return sorted(ended, key=lambda done: done.done_ns)


@given(LOADS, st.integers(20, 900), st.sampled_from([REQ_OP_READ, REQ_OP_WRITE]))
def test_bandwidth_cap_holds_over_every_window(loads: list[list[Io]], mib_s: int, op: int) -> None:
    """With a fixed media time, no window of completions carries more than the cap's bytes and its first request."""
    key = "read_mib_s" if op == REQ_OP_READ else "write_mib_s"
    world = World(f"/dev/nvme0n1=seed2-nvme,latency=30us,channels=0,read_per_kib=0,{key}={mib_s}")
    for ios in loads:
        world.job(list_io([(op, 0, sector, sectors or 8) for _, _, sector, sectors in ios]), 4)
    world.run()
    ended = by_end(world, op)
    for first in range(len(ended)):
        carried = 0
        for done in ended[first + 1 :]:
            carried += done.io[3] * 512
            window_ns = done.done_ns - ended[first].done_ns
            assert carried <= mib_s * 2**20 * (window_ns + 1) / 1e9 + 1


@given(LOADS, st.integers(100, 50_000))
def test_iops_cap_holds_over_every_window(loads: list[list[Io]], iops: int) -> None:
    """No window of n + 1 starts is shorter than n of the gate's gaps."""
    world = World(f"/dev/nvme0n1=seed2-nvme,latency=30us,channels=0,read_mib_s=1048576,iops={iops}")
    for ios in loads:
        world.job(list_io([(REQ_OP_READ, 0, sector, 8) for _, _, sector, _ in ios]), 4)
    world.run()
    ended = by_end(world, REQ_OP_READ)
    for first in range(len(ended)):
        for count, done in enumerate(ended[first + 1 :], 1):
            # The links may move an end by the few ns that 4 KiB take.
            assert done.done_ns - ended[first].done_ns >= count * 1e9 / iops - 10


@given(LOADS, st.integers(1, 5), st.integers(0, 99))
def test_never_more_in_service_than_channels(loads: list[list[Io]], channels: int, seed: int) -> None:
    """At a fixed media time of 50 us, at most `channels` requests end in any 50 us."""
    world = World(f"/dev/nvme0n1=seed2-nvme,latency=50us,overhead=0,channels={channels},read_per_kib=0", seed=seed)
    for ios in loads:
        world.job(list_io([(REQ_OP_READ, 0, sector, 8) for _, _, sector, _ in ios]), 6)
    world.run()
    ends = [done.done_ns for done in by_end(world, REQ_OP_READ)]
    for at in range(len(ends) - channels):
        assert ends[at + channels] - ends[at] >= 50_000


@pytest.mark.parametrize("kib", [8, 64, 1024])
@given(loads=LOADS)
def test_a_full_cache_is_as_fast_as_its_drain(kib: int, loads: list[list[Io]]) -> None:
    """What has been accepted by any time is at most what has drained, and one cache."""
    world = World(f"/dev/nvme0n1=nvme-consumer,cache={kib}k,drain_mib_s=50,cache_write=1us,overhead=0,iops=1000000000")
    for ios in loads:
        world.job(list_io([(REQ_OP_WRITE, REQ_SYNC, sector, sectors or 8) for _, _, sector, sectors in ios]), 2)
    world.run()
    accepted = 0
    for done in by_end(world, REQ_OP_WRITE):
        accepted += done.io[3] * 512
        largest = 1024 * 512
        assert accepted <= 50 * 2**20 * done.done_ns / 1e9 + kib * 1024 + largest
