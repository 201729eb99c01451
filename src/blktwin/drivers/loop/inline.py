"""Execution in the context of whoever issues the request, without sleeping; what would sleep goes to a worker.

No release of the kernel has it: the series "loop: improve loop aio perf by IOCB_NOWAIT" of 2025 was applied for 6.19
and taken back before.
Differs: the issuer's plug is put aside, no file system is entered from another's code, and EOPNOTSUPP is as EAGAIN;
KernelCompat has the posted code's bugs.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from mypy_extensions import i64

from blktwin.block.bio import BLK_STS_IOERR, BLK_STS_OK, REQ_OP_READ
from blktwin.block.machine import Task
from blktwin.block.unplug import flush_plug
from blktwin.drivers.backing import EAGAIN, EIOCBQUEUED, EOPNOTSUPP, IOCB_NOWAIT
from blktwin.drivers.loop.command import CMD_NOWAIT, LoopCommand
from blktwin.drivers.loop.config import POLICY_SYNC_READ
from blktwin.drivers.loop.reasons import (
    REASON_CTX_FORBIDDEN,
    REASON_EAGAIN_SYNC,
    REASON_HINT_SKIP,
    REASON_INLINE,
    REASON_NO_FMODE,
    REASON_NOT_AIO,
    REASON_POLICY,
    REASON_WRITE,
)
from blktwin.errors import LoopViolation

if TYPE_CHECKING:
    from blktwin.drivers.loop.driver import LoopDriver


def dispatch(driver: LoopDriver, cmd: LoopCommand) -> i64:
    """Execute cmd here if policy, file and context allow it and it need not sleep; else give it to a worker."""
    task = driver.machine.current
    reason = refusal(driver, cmd, task)
    if reason == REASON_INLINE:
        if not cmd.prepare():
            return prep_failed(driver, cmd)
        if driver.has_hint and not is_worth_it(driver, cmd):
            reason = REASON_HINT_SKIP
        elif attempt(driver, cmd, task):
            driver.nr_inline += 1
            return BLK_STS_OK
        else:
            reason = REASON_EAGAIN_SYNC
    driver.enqueue(cmd, reason)
    return BLK_STS_OK


def refusal(driver: LoopDriver, cmd: LoopCommand, task: Task) -> i64:
    """Return why cmd is not even prepared for an attempt, REASON_INLINE when it is."""
    if not cmd.use_aio:
        return REASON_NOT_AIO
    if cmd.rq.op != REQ_OP_READ:
        if driver.policy == POLICY_SYNC_READ:
            return REASON_WRITE
        if driver.is_read_only:
            return REASON_POLICY
    backing = driver.backing
    assert backing is not None
    if not backing.can_nowait and not driver.tries_any_file:
        return REASON_NO_FMODE
    if not may_enter(driver, task):
        return REASON_CTX_FORBIDDEN
    return REASON_INLINE


def may_enter(driver: LoopDriver, task: Task) -> bool:
    """Say whether task may run file system code here: no interrupt, and not too deep in such code already."""
    # A CPU's idle task is who runs in an interrupt.
    return task.pid != 0 and (task.fs_depth < driver.inline_depth or driver.compat.inline_nests)


def is_worth_it(driver: LoopDriver, cmd: LoopCommand) -> bool:
    """Give the hint: a write would most likely fail, or be in the way, while others wait for a worker."""
    if driver.nr_blocking_writes == 0 or cmd.rq.op == REQ_OP_READ:
        return True
    backing = driver.backing
    return backing is not None and backing.is_block_device


def prep_failed(driver: LoopDriver, cmd: LoopCommand) -> i64:
    """End a command for which there was no memory."""
    if not driver.compat.prep_failure_completes:
        return BLK_STS_IOERR
    # The count that this drops was left at 0 by the command before.
    cmd.ret = -EAGAIN
    cmd.put()
    return BLK_STS_OK


def attempt(driver: LoopDriver, cmd: LoopCommand, task: Task) -> bool:
    """Submit cmd without sleeping; False when a worker has to do it."""
    backing = driver.backing
    assert backing is not None
    cmd.cgroup = task.cgroup
    cmd.is_counted = False
    cmd.is_charged = False
    driver.trace.loop_begin(cmd.rq, task, REASON_INLINE)
    cmd.begin(task, IOCB_NOWAIT if backing.can_nowait else 0, CMD_NOWAIT)
    outer = task.plug
    if not driver.compat.plug_shared:
        task.plug = driver.plug if driver.batches else None
    task.fs_depth += 1
    is_done = backing.advance(cmd)
    task.fs_depth -= 1
    task.plug = outer
    if not is_done:
        raise LoopViolation(slept(driver, cmd))
    result = cmd.result
    if result == -EAGAIN:
        return False
    if result == -EOPNOTSUPP:
        compat = driver.compat
        if compat.eopnotsupp_completes_twice:
            cmd.finish(result)
            return False
        if not compat.eopnotsupp_is_error:
            return False
        cmd.finish(result)
        return True
    if result != -EIOCBQUEUED:
        cmd.ret = result
        cmd.refs -= 1
    cmd.put()
    return True


def slept(driver: LoopDriver, cmd: LoopCommand) -> str:
    """Name the violation of a file that makes its caller sleep in queue_rq()."""
    return f"slept inside queue_rq: {driver.name} waits in its file for the request at sector {cmd.rq.sector}"


def fail(driver: LoopDriver, cmd: LoopCommand) -> None:
    """End a started request for which there was no memory, later, as any other."""
    cmd.rq.q.complete_request(cmd.rq, BLK_STS_IOERR)


def flush_batch(driver: LoopDriver) -> None:
    """Hand over what inline I/O has collected for the device below."""
    machine = driver.machine
    task = machine.current
    outer = task.plug
    plug = driver.plug
    task.plug = plug
    flush_plug(machine, task, False)
    task.plug = outer
    plug.reset()
