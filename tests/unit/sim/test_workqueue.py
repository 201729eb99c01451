"""Unbound workqueues: workers, their number, who wakes whom; and what loop workers are charged."""

from __future__ import annotations

from blktwin.block.machine import Task
from blktwin.block.request import Request
from blktwin.sim.costs import Costs
from blktwin.sim.faults import Faults
from blktwin.sim.machine import SimMachine
from blktwin.sim.trace import CostTrace
from blktwin.sim.workqueue import PoolWorker


def test_the_loop_drivers_steps_are_charged() -> None:
    """Each tracepoint of a file and of the loop driver moves the clock by its cost; only a worker pays for the lock."""
    costs = Costs()
    costs.update({"file_op": 1, "file_done": 10, "file_copy": 100, "loop": 1_000, "loop_lock": 10_000})
    trace = CostTrace(costs)
    machine = SimMachine(trace, nr_cpus=1, hz=250, costs=costs, faults=Faults(1, {}))
    trace.bind(machine)
    task = Task(1, "job", machine.cgroups.root)
    worker = PoolWorker(machine.pool, 0)
    rq = Request.__new__(Request)
    steps = []
    for step in (
        lambda: trace.file_op(task, 0, 4096),
        lambda: trace.file_done(task, 0),
        lambda: trace.file_copy(task, 3),
        lambda: trace.loop_dispatch(rq),
        lambda: trace.loop_work(rq, 1),
        lambda: trace.loop_begin(rq, worker, 1),
        lambda: trace.loop_begin(rq, task, 0),
    ):
        before = int(machine.local_ns)
        step()
        steps.append(int(machine.local_ns) - before)
    assert steps == [1, 10, 300, 1_000, 10_000, 10_000, 0]
