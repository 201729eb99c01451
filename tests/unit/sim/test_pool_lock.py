"""The lock of a pool of workers: who comes while it is held waits, and nobody waits for what is long past."""

from __future__ import annotations

from blktwin.sim.costs import Costs
from blktwin.sim.faults import Faults
from blktwin.sim.machine import SimMachine
from blktwin.sim.trace import CostTrace
from blktwin.sim.workqueue import WorkerPool


def make_pool(hold_ns: int) -> tuple[SimMachine, WorkerPool]:
    """Return a machine with one pool."""
    costs = Costs()
    costs.pool_lock_ns = hold_ns
    trace = CostTrace(costs)
    machine = SimMachine(trace, nr_cpus=2, hz=250, costs=costs, faults=Faults(1, {}))
    trace.bind(machine)
    machine.pools.build()
    return machine, machine.pools.pools[0]


def waits(machine: SimMachine, pool: WorkerPool, at_ns: list[int]) -> list[int]:
    """Take the lock at these times, in this order, and return how long each took."""
    took = []
    for time_ns in at_ns:
        machine.local_ns = time_ns
        pool.lock()
        took.append(int(machine.local_ns) - time_ns)
    return took


def test_queue_grows_and_drains() -> None:
    machine, pool = make_pool(100)
    assert waits(machine, pool, [1000, 1000, 1000, 1250, 5000]) == [100, 200, 300, 150, 100]


def test_who_is_behind_waits_for_the_queue_only() -> None:
    """The third one's clock is 900 ns behind: he waits for the two before him, not for their clock."""
    machine, pool = make_pool(100)
    assert waits(machine, pool, [1000, 1000, 100]) == [100, 200, 300]


def test_free_without_cost() -> None:
    machine, pool = make_pool(0)
    assert waits(machine, pool, [10, 10]) == [0, 0]
