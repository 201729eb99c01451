"""What every simulated device shares: one completion event per tag, made once, and the interrupt that it raises."""

from __future__ import annotations

from librt.vecs import vec
from mypy_extensions import i64, mypyc_attr

from blktwin.block.bio import BLK_STS_OK, REQ_OP_FLUSH
from blktwin.block.request import Request
from blktwin.drivers.device import Device
from blktwin.rng import Rng
from blktwin.sim.events import Event
from blktwin.sim.image import Image
from blktwin.sim.machine import SimMachine


class Slot(Event):
    """A request in the device; its event is the completion interrupt."""

    def __init__(self, device: SimDevice) -> None:
        super().__init__()
        self.device: SimDevice = device
        self.rq: Request | None = None
        self.status: i64 = BLK_STS_OK
        self.cpu: int = 0
        self.flush_serial: int = 0
        """For a flush: the writes that had completed when it came."""

    def fire(self) -> None:
        """Raise the interrupt and complete the request."""
        self.device.interrupt(self)


@mypyc_attr(allow_interpreted_subclasses=True)
class SimDevice(Device):
    """Base of the device models; subclasses say when a request is done."""

    def __init__(self, machine: SimMachine, nr_queues: int, queue_depth: int) -> None:
        self.machine: SimMachine = machine
        self.queue_depth: i64 = queue_depth
        self.slots: vec[Slot] = vec[Slot]([Slot(self) for _ in range(nr_queues * queue_depth)])
        self.in_device: i64 = 0
        self.irq_turn: int = 0
        self.has_irq_hop: bool = True
        """Completions go through blk-mq's choice of CPU; False: ended where the interrupt comes (null_blk's timer)."""
        self.store: Image | None = None
        """Its bytes; None: it keeps none."""

    def submit(self, rq: Request) -> i64:
        """Take a request and queue its completion."""
        machine = self.machine
        status: i64 = BLK_STS_OK
        delay: i64 = 0
        if machine.faults.is_active:
            faults = machine.faults
            refused = faults.queue_status()
            if refused != BLK_STS_OK:
                return refused
            status = faults.io_status()
            delay = faults.io_delay_ns()
        slot = self.slots[rq.hctx.index * self.queue_depth + rq.tag]
        slot.rq = rq
        slot.status = status
        slot.cpu = self.irq_cpu(rq)
        store = self.store
        if store is not None and rq.op == REQ_OP_FLUSH:
            slot.flush_serial = store.serial
        self.in_device += 1
        machine.events.at(slot, self.done_at_ns(rq, machine.local_ns) + delay)
        return BLK_STS_OK

    def irq_cpu(self, rq: Request) -> int:
        """Return the CPU that gets the interrupt: the queue's own, or one of the host's irq_cpus in turn."""
        cpus = rq.hctx.cpus
        if len(cpus) == 1:
            return cpus[0]
        given = self.machine.spec.irq_cpus
        if not given:
            return self.machine.current.cpu
        self.irq_turn = (self.irq_turn + 1) % len(given)
        return given[self.irq_turn]

    def done_at_ns(self, rq: Request, now_ns: i64) -> i64:
        """Return when rq, which arrives now, is done."""
        raise NotImplementedError

    def interrupt(self, slot: Slot) -> None:
        """Complete a slot's request in an interrupt."""
        done = slot.rq
        assert done is not None
        rq: Request = done
        slot.rq = None
        self.in_device -= 1
        store = self.store
        if store is not None and slot.status == BLK_STS_OK:
            store.complete(rq, slot.flush_serial)
        machine = self.machine
        cost_ns = machine.costs.irq_ns
        if machine.cpus[slot.cpu].irq_free_at_ns > machine.events.now_ns:
            cost_ns -= machine.costs.irq_shared_ns
        machine.enter_irq(slot.cpu, cost_ns)
        if self.has_irq_hop:
            rq.q.complete_request(rq, slot.status)
        else:
            rq.q.complete_here(rq, slot.status)
        machine.leave_irq()

    def crash(self, rng: Rng) -> Image:
        """Return the image that a power cut now leaves behind; the device itself goes on."""
        store = self.store
        assert store is not None, "a device that keeps no bytes"
        return store.crash(rng, [slot.rq for slot in self.slots if slot.rq is not None])
