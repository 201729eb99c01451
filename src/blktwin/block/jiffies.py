"""Jiffies: the kernel's coarse clock, on which elevators' deadlines and delayed work run; its rate is Machine.hz."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from mypy_extensions import i64

if TYPE_CHECKING:
    from blktwin.block.machine import Machine

NSEC_PER_SEC: Final = 1_000_000_000


def jiffies(machine: Machine) -> i64:
    """Return the time in jiffies."""
    return machine.now_ns() * machine.hz // NSEC_PER_SEC


def msecs_to_jiffies(msecs: int, hz: int) -> int:
    """Return how many jiffies hold msecs, rounded up.

    Kernel: msecs_to_jiffies(), kernel/time/time.c, v6.12.
    """
    return (msecs * hz + 999) // 1000


def jiffies_to_msecs(value: int, hz: int) -> int:
    """Return a number of jiffies in ms, rounded down."""
    return value * 1000 // hz


def delay_of_jiffies_ns(machine: Machine, nr: i64) -> i64:
    """Return the ns until a timer of nr jiffies fires: at the tick after the nr-th, so that it is never early.

    Kernel: calc_index(), kernel/time/timer.c, v6.12.
    """
    now_ns = machine.now_ns()
    hz: i64 = machine.hz
    tick = now_ns * hz // NSEC_PER_SEC + nr + 1
    return (tick * NSEC_PER_SEC + hz - 1) // hz - now_ns
