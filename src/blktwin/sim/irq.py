"""What the event queue fires in interrupt context: timers, softirqs, the first waking of a task."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mypy_extensions import i64

from blktwin.block.machine import Task, Timer, Work
from blktwin.sim.events import Event

if TYPE_CHECKING:
    from blktwin.sim.machine import SimMachine


class SimTimer(Event):
    """A timer's place in the event queue, made once; moving the deadline later costs nothing."""

    def __init__(self, machine: SimMachine, timer: Timer, cpu: int) -> None:
        super().__init__()
        self.machine: SimMachine = machine
        self.timer: Timer = timer
        self.cpu: int = cpu
        self.expires_ns: i64 = -1
        self.arm_serial: i64 = 0
        """Its place among timers of the same time: arming order, however often the entry was moved."""

    def fire(self) -> None:
        """Fire the timer, or wait on when its time was moved or it was cancelled."""
        machine = self.machine
        expires_ns = self.expires_ns
        if expires_ns < 0:
            return
        if expires_ns > machine.events.now_ns:
            machine.events.at_serial(self, expires_ns, self.arm_serial)
            return
        self.expires_ns = -1
        machine.enter_irq(self.cpu, machine.costs.timer_ns)
        self.timer.fire()
        machine.leave_irq()


class TaskStart(Event):
    """A task's first waking, at a time to come."""

    def __init__(self, machine: SimMachine, task: Task, cpu: int) -> None:
        super().__init__()
        self.machine: SimMachine = machine
        self.task: Task = task
        self.cpu: int = cpu

    def fire(self) -> None:
        """Make the task runnable."""
        machine = self.machine
        machine.start_task(self.task, self.cpu, machine.events.now_ns)


class Softirq(Event):
    """One raised softirq on its way to a CPU."""

    def __init__(self, machine: SimMachine, work: Work, cpu: int) -> None:
        super().__init__()
        self.machine: SimMachine = machine
        self.work: Work = work
        self.cpu: int = cpu

    def fire(self) -> None:
        """Run the softirq."""
        machine = self.machine
        self.work.is_pending = False
        machine.enter_irq(self.cpu, machine.costs.softirq_ns)
        self.work.run()
        machine.leave_irq()
