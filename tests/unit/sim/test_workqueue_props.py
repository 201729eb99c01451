"""Properties of workqueues on any machine: nothing is lost, nothing runs too early or twice at once."""

from __future__ import annotations

from cpu_world import Item, add_hog, make_spec, make_world
from hypothesis import given
from hypothesis import strategies as st

from blktwin.block.machine import Task, Timer, WorkQueue
from blktwin.sim.machine import SimMachine

CPUS = 4
FOREVER = 1 << 58

machines = st.fixed_dictionaries(
    {
        "sched": st.sampled_from(("fifo", "cfs", "eevdf", "ticks")),
        "worker_scope": st.sampled_from(("system", "cache", "cpu")),
        "worker_cpus": st.sampled_from(([], [1], [0, 3])),
        "worker_nice": st.sampled_from((-20, 0, 10)),
        "capacity": st.sampled_from(([], [300, 300, 1024, 1024])),
    }
)
costs = st.fixed_dictionaries(
    {},
    optional={
        name: st.integers(0, 20_000)
        for name in ("switch", "sleep", "wake", "queue_work", "work", "idle_exit", "worker_wake", "timer", "worker_new")
    },
)
calls = st.lists(
    st.tuples(st.integers(0, 300_000), st.integers(0, CPUS - 1), st.integers(0, 7)), min_size=1, max_size=40
)


class Submitter(Task):
    """Charges some time, then queues an item, as a task that runs ahead of the events does."""

    def __init__(
        self, machine: SimMachine, wq: WorkQueue, item: Item, queued: dict[int, list[int]], number: int
    ) -> None:
        super().__init__(number, "submitter", machine.cgroups.root)
        self.machine, self.wq, self.item, self.queued, self.number = machine, wq, item, queued, number

    def run(self) -> None:
        """Queue the item late in the step."""
        self.machine.charge(self.number * 1_700 % 30_000)
        now_ns = int(self.machine.local_ns)
        if self.machine.queue_on(self.wq, self.item):
            self.queued.setdefault(id_of(self.item), []).append(now_ns)


class Interrupt(Timer):
    """Queues an item in interrupt context."""

    def __init__(self, submitter: Submitter) -> None:
        super().__init__()
        self.submitter = submitter

    def fire(self) -> None:
        """Queue it."""
        self.submitter.run()


def id_of(item: Item) -> int:
    """Return the item's number."""
    return item.parts * 1000 + item.part_ns


@given(values=machines, ns=costs, calls=calls, max_active=st.sampled_from((0, 1, 3)), nr_hogs=st.integers(0, 5))
def test_every_item_runs_as_often_as_it_was_queued(
    values: dict[str, object], ns: dict[str, int], calls: list[tuple[int, int, int]], max_active: int, nr_hogs: int
) -> None:
    """Each queueing that was accepted is a run, later, alone, and within max_active."""
    if values["sched"] == "ticks":
        values |= {"sched": "eevdf", "ticks": True}
    machine = make_world(CPUS, make_spec(**values), None, **ns)
    machine.cpus_per_cache = 2
    if values["sched"] != "fifo":
        for _ in range(nr_hogs):
            add_hog(machine)
    wq = machine.alloc_workqueue("w", max_active)
    items = [Item(machine, 5_000 + 9_001 * at, at % 3 + 1) for at in range(8)]
    queued: dict[int, list[int]] = {}
    for number, (at_ns, cpu, which) in enumerate(calls):
        submitter = Submitter(machine, wq, items[which], queued, number)
        if number % 2:
            machine.start_task(submitter, cpu, at_ns)
        else:
            machine.arm_timer(Interrupt(submitter), at_ns)
    while machine.events.now_ns < 20_000_000_000:
        if machine.run(FOREVER, 500) < 500:
            break
        if machine.events.now_ns > 400_000 and all(len(i.ends) >= len(queued.get(id_of(i), [])) for i in items):
            # Hogs go on for ever.
            break
    spans = []
    for item in items:
        times = queued.get(id_of(item), [])
        assert len(item.starts) == len(item.ends) == len(times), "as often as it was queued"
        assert not item.is_pending
        for start, end, when in zip(sorted(item.starts), sorted(item.ends), sorted(times), strict=True):
            assert when <= start <= end, "not before it was queued"
            spans.append((start, end))
        for end, start in zip(item.ends, item.starts[1:], strict=False):
            assert end <= start, "one run after the other"
    if max_active:
        for start, _ in spans:
            assert sum(a <= start < b for a, b in spans) <= max_active
    for pool in machine.pools.pools:
        assert pool.waiting.head is None
        assert pool.nr_runnable == 0
        assert len(pool.idle) == len(pool.workers)
        if values["worker_cpus"]:
            assert all(worker.cpu in pool.cpus or worker.nr_items == 0 for worker in pool.workers)
