"""The RFC of September 2025, "loop: synchronized read": whoever issues a read with a plug executes all that it holds.

rfc_exact is the code as posted: what it does wrong ends the run with a LoopViolation that says so. rfc_safe takes
only reads of its own device from the plug, starts them, and gives to a worker what would sleep.
The plug's list is consumed in place in the kernel; here it is detached while it is flushed (unplug.py), and that
detached list is what the RFC sees.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from mypy_extensions import i64

from blktwin.block.bio import BLK_STS_OK, REQ_OP_READ, REQ_OP_WRITE
from blktwin.block.machine import Task
from blktwin.block.plug import Plug
from blktwin.block.request import MQ_RQ_IDLE, MQ_RQ_IN_FLIGHT, NO_TAG, RQF_USE_SCHED, Request, RequestList
from blktwin.drivers.loop import inline
from blktwin.drivers.loop.command import CMD_BLOCKING, LoopCommand
from blktwin.drivers.loop.config import POLICY_RFC_EXACT
from blktwin.drivers.loop.reasons import (
    REASON_EAGAIN_SYNC,
    REASON_INLINE,
    REASON_NO_PLUG,
    REASON_NOT_AIO,
    REASON_WRITE,
)
from blktwin.errors import LoopViolation

if TYPE_CHECKING:
    from blktwin.drivers.loop.driver import LoopDriver


def dispatch(driver: LoopDriver, cmd: LoopCommand) -> i64:
    """Execute cmd and what else the issuer's plug holds, if cmd is a direct read and there is a plug."""
    task = driver.machine.current
    plug = task.plug
    reason: i64 = REASON_INLINE
    if not cmd.use_aio:
        reason = REASON_NOT_AIO
    elif cmd.rq.op != REQ_OP_READ:
        reason = REASON_WRITE
    elif plug is None:
        reason = REASON_NO_PLUG
    elif driver.policy != POLICY_RFC_EXACT:
        reason = inline.refusal(driver, cmd, task)
    if reason != REASON_INLINE or plug is None:
        driver.enqueue(cmd, reason)
    elif driver.policy == POLICY_RFC_EXACT:
        dispatch_exact(driver, cmd, task, plug)
    else:
        dispatch_safe(driver, cmd, task, plug)
    return BLK_STS_OK


def plugged(plug: Plug) -> RequestList:
    """Return what the kernel's plug list holds now: what is left of a flush under way, else the plug's requests."""
    return plug.spare_list if plug.nr_flushing > 0 else plug.mq_list


# -- without the defects


def dispatch_safe(driver: LoopDriver, cmd: LoopCommand, task: Task, plug: Plug) -> None:
    """Execute cmd and the reads of this device that come next in the plug."""
    q = cmd.rq.q
    waiting = plugged(plug)
    execute_or_queue(driver, cmd, task)
    rq = waiting.head
    while rq is not None and rq.q is q and rq.op == REQ_OP_READ and rq.tag != NO_TAG:
        if rq.rq_flags & RQF_USE_SCHED:
            break
        waiting.pop()
        q.start_request(rq)
        driver.trace.loop_dispatch(rq)
        execute_or_queue(driver, driver.command_for(rq), task)
        rq = waiting.head
    if driver.plug.mq_list.count > 0:
        inline.flush_batch(driver)


def execute_or_queue(driver: LoopDriver, cmd: LoopCommand, task: Task) -> None:
    """Execute a read without sleeping, or give it to a worker."""
    if not cmd.prepare():
        inline.fail(driver, cmd)
    elif inline.attempt(driver, cmd, task):
        driver.nr_inline += 1
    else:
        driver.enqueue(cmd, REASON_EAGAIN_SYNC)


# -- as posted


def dispatch_exact(driver: LoopDriver, cmd: LoopCommand, task: Task, plug: Plug) -> None:
    """Execute everything on the plug as a read of this device.

    With a scheduler most plugs are inserted before anything is dispatched, and the list is empty by luck only: what
    it may hold has no driver tag. So that ends the run at once.
    """
    if cmd.rq.rq_flags & RQF_USE_SCHED:
        raise LoopViolation(
            f"scheduler bypassed, driver tag missing: {driver.name} has a scheduler, and rfc_exact executes what a "
            f"plug holds, which no scheduler has seen (at sector {cmd.rq.sector})"
        )
    cgroup = cmd.rq.cgroup
    if cgroup is not None and cgroup.parent is not None:
        # Taken for the first command and never given back.
        driver.nr_memcg_gets += 1
    waiting = plugged(plug)
    task.plug = None
    execute_blocking(driver, cmd, task)
    rq = waiting.pop()
    while rq is not None:
        diagnose(driver, cmd.rq, rq)
        # Nobody starts it: no tracepoint, no place in the table of tags in flight.
        rq.state = MQ_RQ_IN_FLIGHT
        rq.q.nr_started += 1
        execute_blocking(driver, driver.command_for(rq), task)
        rq = waiting.pop()
    task.plug = plug


def diagnose(driver: LoopDriver, first: Request, rq: Request) -> None:
    """Say what is wrong with executing rq, found on the plug of whoever issued first."""
    where = f"{driver.name}: rfc_exact takes a request of {rq.q.name} at sector {rq.sector} from the plug"
    if rq.q is not first.q:
        raise LoopViolation(f"foreign queue's request: {where}, and reads its private data as its own command")
    if rq.op == REQ_OP_WRITE:
        raise LoopViolation(f"write issued as read: {where}, and reads into what was to be written")
    if rq.op != REQ_OP_READ:
        raise LoopViolation(f"request without data issued as read: {where}")
    if rq.state == MQ_RQ_IDLE and not driver.compat.rfc_unstarted_ok:
        raise LoopViolation(f"request issued but never started: {where}, and it ends while it is idle")


def execute_blocking(driver: LoopDriver, cmd: LoopCommand, task: Task) -> None:
    """Read in the context of the issuer, who must not sleep here."""
    rq = cmd.rq
    backing = driver.backing
    assert backing is not None
    if not cmd.prepare():
        raise LoopViolation(f"request lost: {driver.name} had no memory for it at sector {rq.sector} and tells nobody")
    cmd.cgroup = task.cgroup
    cmd.is_counted = False
    cmd.is_charged = False
    driver.nr_inline += 1
    driver.trace.loop_begin(rq, task, REASON_INLINE)
    cmd.begin(task, 0, CMD_BLOCKING)
    task.fs_depth += 1
    is_done = backing.advance(cmd)
    task.fs_depth -= 1
    if not is_done:
        raise LoopViolation(inline.slept(driver, cmd))
    cmd.submitted()
