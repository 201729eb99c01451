"""A machine whose clock the test moves, under StageTrace: an I/O passes the tracepoints at times chosen by hand."""

from __future__ import annotations

from block_world import HandDevice, HandTask, NoteBio

from blktwin.block.bio import BLK_STS_OK, REQ_OP_READ
from blktwin.block.elevator import Elevator
from blktwin.block.limits import QueueLimits, segments_of_op
from blktwin.block.queue import RequestQueue
from blktwin.block.rules import Rules
from blktwin.block.submit import submit_bio
from blktwin.drivers.hardware import HardwareDriver
from blktwin.sim.costs import Costs
from blktwin.sim.faults import Faults
from blktwin.sim.machine import SimMachine
from blktwin.sim.stage_device import STAGE_NAMES, DeviceStages
from blktwin.sim.stages import StageTrace


def rules_in_order() -> Rules:
    """Return rules without a plug of their own."""
    rules = Rules("test")
    rules.submit_on_stack_plug = False
    rules.plug_is_fifo = True
    return rules


class StageWorld:
    """One queue over a device that the test moves; at(ns) sets the clock of whoever runs next."""

    def __init__(
        self, elevator: Elevator | None = None, limits: QueueLimits | None = None, trace: StageTrace | None = None
    ) -> None:
        costs = Costs()
        self.trace = trace or StageTrace(costs)
        self.machine = SimMachine(self.trace, nr_cpus=2, hz=250, costs=costs, faults=Faults(1, {}))
        self.trace.bind(self.machine)
        self.device = HandDevice()
        self.limits = limits or QueueLimits()
        self.q = RequestQueue(
            self.machine,
            rules_in_order(),
            HardwareDriver(self.device),
            self.limits,
            name="hand0",
            capacity_sectors=1 << 30,
            elevator=elevator,
        )
        self.task = HandTask(1, "t", self.machine.cgroups.root)

    def at(self, ns: int) -> StageWorld:
        """Set the clock."""
        self.machine.local_ns = ns
        return self

    def submit(self, sector: int, nr_sectors: int = 8, op: int = REQ_OP_READ, flags: int = 0) -> NoteBio:
        """Submit a bio."""
        bio = NoteBio()
        bio.op, bio.flags, bio.sector, bio.nr_sectors = op, flags, sector, nr_sectors
        bio.nr_segments = segments_of_op(op, nr_sectors)
        self.machine.current = self.task
        submit_bio(self.q, bio)
        return bio

    def complete(self, status: int = BLK_STS_OK) -> None:
        """End the oldest request that the device holds."""
        self.q.complete_here(self.device.held.pop(0), status)

    def stages(self) -> DeviceStages:
        """Return what has been kept so far."""
        self.trace.finish()
        [device] = self.trace.devices
        return device

    def samples(self, direction: int = 0) -> dict[str, tuple[int, int]]:
        """Return (count, sum in ns) of every stage of a direction that has samples."""
        device = self.stages()
        found: dict[str, tuple[int, int]] = {}
        for at, name in enumerate(STAGE_NAMES):
            stat = device.stat(at, direction)
            if stat is not None:
                found[name] = (int(stat.count), int(stat.total))
        return found
