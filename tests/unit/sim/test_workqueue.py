"""Unbound workqueues: workers, their number, who wakes whom; and what loop workers are charged."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from closed_loop import World
from cpu_world import END, MS, Item, make_spec, make_world

from blktwin.block.machine import BlockingWork, Task
from blktwin.block.request import Request
from blktwin.sim.machine import SimMachine
from blktwin.sim.topology import SCOPES, CpuSpec, pods_of
from blktwin.sim.workqueue import IDLE_WORKER_NS, PoolWork, WorkerPool


def pool_of(machine: SimMachine) -> WorkerPool:
    """Return the only pool."""
    assert len(machine.pools.pools) == 1
    return machine.pools.pools[0]


def queue_from(machine: SimMachine, cpu: int, *items: Item, max_active: int = 0) -> None:
    """Queue items from an interrupt on cpu."""
    wq = machine.alloc_workqueue("w", max_active)
    machine.enter_irq(cpu, 0)
    for item in items:
        assert machine.queue_on(wq, item)
    machine.leave_irq()


def test_the_loop_drivers_steps_are_charged() -> None:
    """Each tracepoint of a file and of the loop driver moves the clock by its cost; only a worker pays for the lock."""
    machine = make_world(1, file_op=1, file_done=10, file_copy=100, loop=1_000, loop_lock=10_000)
    queue_from(machine, 0, Item(machine, 1))
    trace = machine.cost_trace
    assert trace is not None
    task = Task(1, "job", machine.cgroups.root)
    worker = pool_of(machine).workers[0]
    q = World("/dev/nullb0").q
    rq = Request(q, q.hctxs[0], 0)
    steps: list[int] = []
    calls: tuple[Callable[[], None], ...] = (
        lambda: trace.file_op(task, 0, 4096),
        lambda: trace.file_done(task, 0),
        lambda: trace.file_copy(task, 3),
        lambda: trace.loop_dispatch(rq),
        lambda: trace.loop_work(rq, 1),
        lambda: trace.loop_begin(rq, worker, 1),
        lambda: trace.loop_begin(rq, task, 0),
    )
    for step in calls:
        before = int(machine.local_ns)
        step()
        steps.append(int(machine.local_ns) - before)
    assert steps == [1, 10, 300, 1_000, 10_000, 10_000, 0]


def test_queued_work_is_charged_and_runs_in_a_worker() -> None:
    """queue_work and wake are the submitter's, work and the switch the worker's."""
    machine = make_world(2, queue_work=10, wake=200, work=3_000, switch=40_000, idle_exit=500_000)
    item = Item(machine, 1 * MS)
    machine.events.now_ns = 1_000
    queue_from(machine, 0, item)
    machine.run(END, END)
    # The interrupt leaves idle, queues and wakes; CPU 0 goes on with the worker itself.
    assert item.starts == [1_000 + 500_000 + 10 + 200 + 40_000 + 3_000]
    assert item.workers == ["kworker/u0:0"]
    assert not item.is_pending


def test_pending_work_is_queued_once_and_running_work_runs_again_on_its_worker() -> None:
    """Items queued while they run never run twice at the same time, and stay with their worker."""
    machine = make_world(4)
    wq = machine.alloc_workqueue("w", 0)
    item = Item(machine, 1 * MS)
    queue_from(machine, 0, item)
    assert not machine.queue_on(wq, item)
    machine.run(0, END)
    machine.enter_irq(1, 0)
    assert machine.queue_on(wq, item)
    machine.leave_irq()
    machine.run(END, END)
    assert (item.starts, item.ends) == ([0, MS], [MS, 2 * MS])
    assert item.workers[0] == item.workers[1]


def test_the_last_idle_worker_is_woken_first() -> None:
    """After a burst the workers go idle in order; a lone item gets the one that did so last."""
    machine = make_world(4)
    burst = [Item(machine, (at + 1) * MS) for at in range(3)]
    queue_from(machine, 0, *burst)
    machine.run(END, END)
    last = burst[2].workers[0]
    pool = pool_of(machine)
    assert pool.idle[-1].comm == last
    item = Item(machine, 1)
    queue_from(machine, 0, item)
    machine.run(END, END)
    assert item.workers == [last]


def test_workers_are_made_one_at_a_time_and_one_stays_in_reserve() -> None:
    """A burst on a pool with one worker: each new one takes worker_new, and the one that makes it waits for it."""
    machine = make_world(8, worker_new=100_000)
    burst = [Item(machine, 10 * MS) for _ in range(4)]
    queue_from(machine, 0, *burst)
    machine.run(END, END)
    starts = [item.starts[0] for item in burst]
    assert starts[0] == 100_000
    assert len(set(starts)) >= 3, "they are made one after the other"
    assert max(starts) <= 400_000
    assert len({item.workers[0] for item in burst}) == 4
    pool = pool_of(machine)
    assert len(pool.idle) == len(pool.workers) == pool.nr_made
    assert pool.nr_made <= 6


def test_surplus_workers_are_culled_after_300_seconds() -> None:
    """Of many idle ones two and a quarter of the busy stay."""
    machine = make_world(16)
    queue_from(machine, 0, *[Item(machine, 10 * MS) for _ in range(12)])
    machine.run(END, END)
    pool = pool_of(machine)
    before = len(pool.workers)
    assert before >= 12

    def one_item_at(at_ns: int) -> None:
        wake = Item(machine, 1)
        machine.local_ns = at_ns
        machine.events.now_ns = at_ns
        queue_from(machine, 0, wake)
        machine.run(END, END)

    one_item_at(IDLE_WORKER_NS // 2)
    assert len(pool.workers) == before
    one_item_at(IDLE_WORKER_NS + 20 * MS)
    assert pool.nr_culled == before - len(pool.workers)
    assert len(pool.workers) == len(pool.idle) == 2


@pytest.mark.parametrize("max_active", [1, 2, 5])
def test_no_more_than_max_active_run_at_once(max_active: int) -> None:
    """The others wait in order, whatever CPUs are free."""
    machine = make_world(16)
    items = [Item(machine, 1 * MS) for _ in range(12)]
    queue_from(machine, 0, *items, max_active=max_active)
    machine.run(END, END)
    spans = [(item.starts[0], item.ends[0]) for item in items]
    for at, _ in spans:
        assert sum(start <= at < end for start, end in spans) <= max_active
    assert sum(start <= spans[0][0] < end for start, end in spans) == max_active
    assert spans == sorted(spans)
    slot = items[0].slot
    assert isinstance(slot, PoolWork)
    state = slot.state
    assert (state.most_active, state.nr_held, state.nr_active) == (max_active, 12 - max_active, 0)


def test_queues_do_not_share_max_active() -> None:
    """An item of another workqueue passes those that wait."""
    machine = make_world(4)
    slow = [Item(machine, 10 * MS) for _ in range(3)]
    other = Item(machine, 1)
    queue_from(machine, 0, *slow, max_active=1)
    queue_from(machine, 0, other)
    machine.run(END, END)
    assert other.ends[0] < 1 * MS
    assert [item.starts[0] // MS for item in slow] == [0, 10, 20]


def test_workers_spread_over_idle_cpus() -> None:
    """A burst on CPUs alike runs on as many CPUs."""
    for sched in ("fifo", "cfs", "eevdf"):
        machine = make_world(4, make_spec(sched=sched))
        items = [Item(machine, 5 * MS) for _ in range(4)]
        queue_from(machine, 1, *items)
        machine.run(END, END)
        assert sorted(item.cpus[0] for item in items) == [0, 1, 2, 3]


def test_workers_stay_inside_their_mask() -> None:
    """The cpumask holds though other CPUs are idle, and the submitter's is not in it."""
    for sched in ("fifo", "eevdf"):
        machine = make_world(4, make_spec(sched=sched, worker_cpus=[2, 3]))
        items = [Item(machine, 5 * MS) for _ in range(6)]
        queue_from(machine, 0, *items)
        machine.run(END, END)
        assert {item.cpus[0] for item in items} == {2, 3}


@pytest.mark.parametrize(
    ("scope", "sizes"),
    [
        ("system", [32]),
        ("numa", [16, 16]),
        ("cache", [12, 12, 8]),
        ("cache_shard", [6, 6, 6, 6, 8]),
        ("cpu", [1] * 32),
    ],
)
def test_pods(scope: str, sizes: list[int]) -> None:
    """Each scope covers all CPUs; a shard has about eight."""
    pods = pods_of(make_spec(worker_scope=scope, node_cpus=16), 32, 12)
    assert [len(pod) for pod in pods] == sizes
    assert [cpu for pod in pods for cpu in pod] == list(range(32))
    assert set(SCOPES) >= {scope}
    assert pods_of(CpuSpec(), 8, 8) == [list(range(8))]


def test_a_pod_has_its_own_workers_which_come_home() -> None:
    """Work runs in the submitter's pod; a worker that was moved out of it is put back when it is woken."""
    machine = make_world(4, make_spec(worker_scope="cache"))
    machine.cpus_per_cache = 2
    low, high = Item(machine, 1 * MS), Item(machine, 1 * MS)
    queue_from(machine, 0, low)
    queue_from(machine, 3, high)
    machine.run(END, END)
    assert low.cpus[0] in (0, 1)
    assert high.cpus[0] in (2, 3)
    pools = machine.pools.pools
    assert [pool.cpus for pool in pools] == [[0, 1], [2, 3]]
    worker = pools[0].idle[-1]
    worker.cpu = 3
    queue_from(machine, 0, low)
    machine.run(END, END)
    assert low.cpus[1] in (0, 1)
    assert pools[0].nr_repatriated == 1


def test_wake_latencies_on_an_idle_cpu() -> None:
    """worker_wake delays a worker that wakes on an idle CPU, and no other."""
    machine = make_world(2, make_spec(worker_cpus=[1]), worker_wake=40_000)
    first, second = Item(machine, 1 * MS), Item(machine, 1 * MS)
    queue_from(machine, 0, first, second)
    machine.run(END, END)
    assert first.starts == [40_000]
    assert second.starts == [40_000 + MS]


def test_statistics_of_workers() -> None:
    """Busy and waiting time, and for how long how many were runnable."""
    machine = make_world(1, worker_new=50_000)
    items = [Item(machine, 10 * MS, 10) for _ in range(4)]
    queue_from(machine, 0, *items)
    machine.run(END, END)
    pool = pool_of(machine)
    assert sum(int(worker.stime_ns) for worker in pool.workers) == 400 * MS
    assert sum(int(worker.nr_items) for worker in pool.workers) == 4
    assert pool.nr_runnable == 0
    assert 400 * MS <= sum(pool.runnable_ns[1:]) <= 401 * MS


def test_a_spurious_wake_goes_to_the_item() -> None:
    """A worker that sleeps inside an item goes on with it when it is woken."""

    class Sleepy(BlockingWork):
        def __init__(self) -> None:
            super().__init__()
            self.log: list[tuple[str, int]] = []

        def advance(self, worker: Task) -> bool:
            self.log.append((worker.comm, int(machine.local_ns)))
            return len(self.log) == 3

    machine = make_world(2)
    work = Sleepy()
    other = Item(machine, 5)
    wq = machine.alloc_workqueue("w", 0)
    machine.queue_on(wq, work)
    machine.run(END, END)
    worker = pool_of(machine).workers[0]
    for at in (10, 20):
        machine.events.now_ns = at
        machine.enter_irq(0, 0)
        machine.wake_task(worker)
        if at == 10:
            machine.queue_on(wq, other)
        machine.leave_irq()
        machine.run(END, END)
    assert work.log == [("kworker/u0:0", 0), ("kworker/u0:0", 10), ("kworker/u0:0", 20)]
    assert other.workers == ["kworker/u0:1"]
