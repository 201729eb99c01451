"""The order of tracepoints of one I/O on the simulated machine, for each kernel and scheduler."""

from __future__ import annotations

import pytest

from blktwin.block.bio import REQ_OP_READ, REQ_OP_WRITE, REQ_SYNC, Bio
from blktwin.block.deadline import Deadline
from blktwin.block.limits import QueueLimits
from blktwin.block.machine import Task
from blktwin.block.plug import Plug
from blktwin.block.queue import RequestQueue
from blktwin.block.rules import PRESET_NAMES, preset
from blktwin.block.submit import finish_plug, start_plug, submit_bio
from blktwin.drivers.hardware import HardwareDriver
from blktwin.sim.costs import Costs
from blktwin.sim.devices.null import NullDevice
from blktwin.sim.faults import Faults
from blktwin.sim.machine import SimMachine
from blktwin.sim.trace import RecordingTrace, TraceRow


class QuietBio(Bio):
    """A bio nobody waits for."""

    def end_io(self) -> None:
        """Do nothing."""


class Submitter(Task):
    """Submits its bios once, under a plug when it has more than one."""

    def __init__(self, machine: SimMachine, q: RequestQueue, sectors: list[int], op: int) -> None:
        super().__init__(7, "one", machine.cgroups.root)
        self.machine, self.q, self.sectors, self.op = machine, q, sectors, op

    def run(self) -> None:
        """Submit."""
        if len(self.sectors) > 1:
            start_plug(self, Plug())
        for sector in self.sectors:
            bio = QuietBio()
            bio.op, bio.sector, bio.nr_sectors = self.op, sector, 8
            bio.flags = REQ_SYNC if self.op == REQ_OP_WRITE else 0
            submit_bio(self.q, bio)
        if len(self.sectors) > 1:
            finish_plug(self.machine, self)


def record(rules: str, scheduler: str, sectors: list[int], op: int = REQ_OP_READ) -> list[TraceRow]:
    """Run and return the rows."""
    costs = Costs()
    costs.update({"submit": 100, "alloc": 50, "plug": 20, "insert": 30, "issue": 200, "complete": 100, "merge": 10})
    trace = RecordingTrace(costs)
    machine = SimMachine(trace, nr_cpus=1, hz=250, costs=costs, faults=Faults(1, {}))
    trace.bind(machine)
    found = preset(rules)
    assert found is not None
    device = NullDevice(machine, 1, 64, 10_000)
    q = RequestQueue(
        machine,
        found,
        HardwareDriver(device),
        QueueLimits(),
        name="nullb0",
        capacity_sectors=1 << 20,
        queue_depth=64,
        elevator=Deadline() if scheduler == "mq-deadline" else None,
    )
    machine.start_task(Submitter(machine, q, sectors, op), 0, 0)
    machine.run(1 << 60, 1 << 60)
    assert q.nr_completed == q.nr_freed
    return trace.rows


def acts(rows: list[TraceRow]) -> str:
    """Join the letters."""
    return " ".join(row.act for row in rows)


@pytest.mark.parametrize(
    ("rules", "none", "deadline"),
    [
        ("5.10", "Q G D C", "Q G I D C"),
        ("5.17", "Q G D C", "Q G I D C"),
        ("6.1", "Q G D C", "Q G I D C"),
        ("6.12", "Q G P U D C", "Q G P U I D C"),
        ("6.12.y", "Q G P U D C", "Q G P U I D C"),
        ("6.13", "Q G P U D C", "Q G P U I D C"),
        ("6.18", "Q G P U D C", "Q G P U I D C"),
        ("7.2", "Q G D C", "Q G I D C"),
    ],
)
def test_one_io(rules: str, none: str, deadline: str) -> None:
    """A lone direct I/O without a plug of its own."""
    assert acts(record(rules, "none", [800])) == none
    assert acts(record(rules, "mq-deadline", [800])) == deadline


@pytest.mark.parametrize(
    ("rules", "none"),
    [
        ("5.10", "Q G P Q M Q G U D D C C"),
        ("5.17", "Q G P Q M Q G D D C C"),
        ("6.1", "Q G P Q M Q G D D C C"),
        ("6.12", "Q G P Q M Q G U D D C C"),
        ("6.13", "Q G P Q M Q G U D D C C"),
        ("7.2", "Q G P Q M Q G U D D C C"),
    ],
)
def test_a_plugful(rules: str, none: str) -> None:
    """Three bios, two of which touch; from 5.16 to 6.11 a direct issue has no U."""
    assert acts(record(rules, "none", [800, 808, 4000])) == none
    assert acts(record(rules, "mq-deadline", [800, 808, 4000])) == "Q G P Q M Q G U I I D D C C"


def test_who_and_when() -> None:
    """The submitter is the task, D comes from kblockd under an elevator, C from an interrupt; time never goes back."""
    rows = record("7.2", "mq-deadline", [800], REQ_OP_WRITE)
    assert [(row.act, row.comm) for row in rows] == [
        ("Q", "one"),
        ("G", "one"),
        ("I", "one"),
        ("D", "kworker/0:1H"),
        ("C", "swapper"),
    ]
    assert {row.rwbs for row in rows} == {"WS"}
    assert [row.time_ns for row in rows] == sorted(row.time_ns for row in rows)
    assert [(row.sector, row.length) for row in rows] == [(800, 8)] * 5


def test_every_preset_is_covered() -> None:
    """A new preset must say what it traces."""
    assert set(PRESET_NAMES) == {"5.10", "5.17", "5.17-series", "6.1", "6.12", "6.12.y", "6.13", "6.18", "7.2"}
