"""The command: one request on its way through a file, from its preparation to its end.

NEW -> PREPARED -> NOWAIT (in the issuer's context) or QUEUED -> BLOCKING (in a worker) -> DONE. It is prepared once in
a pass, whichever way it goes; a short read that is requeued begins a new pass.
Kernel: struct loop_cmd, lo_rw_aio(), lo_rw_aio_complete() and lo_complete_rq(), drivers/block/loop.c, v6.12.
Differs: a short write is never acknowledged (KernelCompat.short_write_ok); a short read is accounted where the file
ends, not in the softirq behind it; a read that ends within a sector ends before it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from mypy_extensions import i64

from blktwin.block import complete
from blktwin.block.bio import (
    BLK_STS_IOERR,
    BLK_STS_OK,
    REQ_OP_FLUSH,
    REQ_OP_READ,
    REQ_OP_WRITE,
    Bio,
)
from blktwin.block.machine import Task
from blktwin.block.request import Request
from blktwin.drivers.backing import (
    EAGAIN,
    EIOCBQUEUED,
    EOPNOTSUPP,
    FILE_FSYNC,
    FILE_READ,
    FILE_WRITE,
    IOCB_DIRECT,
    FileCall,
)
from blktwin.drivers.loop.fallocate import fallocate_failed, file_op_of
from blktwin.drivers.loop.outcome import status_of_errno, status_of_other
from blktwin.drivers.loop.reasons import REASON_BLOCKED, REASON_EAGAIN_ASYNC, REASON_INLINE, REASON_SHORT

if TYPE_CHECKING:
    from blktwin.drivers.loop.driver import LoopDriver
    from blktwin.drivers.loop.worker import CommandWork

CMD_NEW: Final = 0
CMD_PREPARED: Final = 1
CMD_NOWAIT: Final = 2
CMD_QUEUED: Final = 3
CMD_BLOCKING: Final = 4
CMD_DONE: Final = 5


class LoopCommand(FileCall):
    """What the driver keeps of one request, in Request.pdu."""

    def __init__(self, driver: LoopDriver, rq: Request) -> None:
        super().__init__()
        self.driver: LoopDriver = driver
        self.rq: Request = rq
        self.phase: i64 = CMD_NEW
        self.use_aio: bool = False
        """Fixed when the request arrives: a read or write of a device in direct mode."""
        self.is_prepared: bool = False
        self.refs: i64 = 0
        """Who still has it: the one that submits, and the operation in flight."""
        self.ret: i64 = 0
        self.reason: i64 = REASON_INLINE
        self.is_counted: bool = False
        """It is one of the driver's nr_blocking_writes."""
        self.is_charged: bool = False
        """It holds a reference on its memory cgroup."""
        self.is_retry: bool = False
        """The rest of a write that the file took a part of, or nothing."""
        self.has_copy: bool = False
        """data is a copy of what is in several bios."""
        self.nr_frozen: i64 = 0
        """How often it has taken the file system's freeze protection."""
        self.queued_at_ns: i64 = 0
        """When it was given to a worker, on the clock of who did."""
        self.next: LoopCommand | None = None
        self.work: CommandWork | None = None

    # -- preparation

    def prepare(self) -> bool:
        """Fill in the operation; False when there was no memory for it.

        Kernel: lo_rw_aio(), drivers/block/loop.c, v6.12.
        """
        driver = self.driver
        rq = self.rq
        op = rq.op
        assert not self.is_prepared, "a command is prepared twice in one pass"
        if driver.nr_failing_preps > 0:
            driver.nr_failing_preps -= 1
            return False
        self.pos = (rq.sector << 9) + driver.offset_bytes
        self.nbytes = rq.nr_sectors << 9
        self.flags = IOCB_DIRECT if self.use_aio else 0
        self.ioprio = rq.ioprio
        self.is_retry = False
        if op == REQ_OP_READ:
            self.op = FILE_READ
        elif op == REQ_OP_WRITE:
            self.op = FILE_WRITE
            if not driver.freezes_at_submit:
                self.start_write()
        elif op == REQ_OP_FLUSH:
            self.op = FILE_FSYNC
        else:
            self.op = file_op_of(rq)
        bio = rq.bio
        if bio is not None:
            if bio.next is None and bio.data is None:
                self.data = None
            else:
                self.gather(bio)
        else:
            self.data = None
        self.is_prepared = True
        self.phase = CMD_PREPARED
        return True

    def start_write(self) -> None:
        """Keep the file system from being frozen until the write has ended.

        Kernel: kiocb_start_write(), include/linux/fs.h, v6.12.
        """
        driver = self.driver
        if driver.is_frozen_by_file:
            driver.nr_freeze_starts += 1
            self.nr_frozen += 1

    def gather(self, first: Bio) -> None:
        """Take the request's payload as one piece: that of its only bio itself, or a copy of several."""
        data = first.data
        nbytes = int(self.nbytes)
        if first.next is None and data is not None and first.data_at == 0 and len(data) == nbytes:
            self.data = data
            self.has_copy = False
            return
        has_data = False
        bio: Bio | None = first
        while bio is not None:
            if bio.data is not None:
                has_data = True
            bio = bio.next
        self.data = None
        self.has_copy = False
        if not has_data or self.op > FILE_WRITE:
            return
        whole = bytearray(nbytes)
        self.has_copy = True
        self.data = whole
        if self.op == FILE_READ:
            return
        at = 0
        bio = first
        while bio is not None:
            size = int(bio.nr_sectors << 9)
            data = bio.data
            if data is not None:
                begin = int(bio.data_at)
                whole[at : at + size] = data[begin : begin + size]
            at += size
            bio = bio.next

    # -- submission

    def begin(self, task: Task, flags: i64, phase: i64) -> None:
        """Get ready for the first step of an attempt by task; flags: IOCB_NOWAIT, or 0."""
        driver = self.driver
        self.flags = (IOCB_DIRECT if self.use_aio else 0) | flags
        self.task = task
        self.step = 0
        self.refs = 2
        self.phase = phase
        if driver.freezes_at_submit and self.op == FILE_WRITE:
            self.start_write()

    def submitted(self) -> None:
        """Take what advance() returned; an operation that has ended already ends here.

        Kernel: lo_rw_aio(), drivers/block/loop.c, v6.12.
        """
        result = self.result
        if result != -EIOCBQUEUED:
            self.ret = result
            self.refs -= 1
        self.put()

    def ki_complete(self, result: i64) -> None:
        """Take the result of an operation that was in flight."""
        self.ret = result
        self.put()

    def lower_queued(self) -> None:
        """Trace Q'."""
        self.driver.trace.loop_lower_queue(self.rq)

    def lower_ended(self) -> None:
        """Trace C'."""
        self.driver.trace.loop_lower_done(self.rq)

    def put(self) -> None:
        """Drop a reference; the last one ends the command, or gives it to a worker when it would have slept.

        Kernel: lo_rw_aio_do_completion(), drivers/block/loop.c, v6.12.
        """
        self.refs -= 1
        if self.refs != 0:
            return
        result = self.ret
        if result == -EAGAIN or result == -EOPNOTSUPP:
            driver = self.driver
            if self.phase == CMD_NOWAIT:
                if result == -EAGAIN or not driver.compat.eopnotsupp_is_error:
                    driver.enqueue(self, REASON_EAGAIN_ASYNC)
                    return
            elif result == -EAGAIN and self.use_aio and driver.compat.eagain_requeues_forever:
                driver.enqueue(self, REASON_BLOCKED)
                return
        self.finish(result)

    # -- the end

    def finish(self, result: i64) -> None:
        """End the request with what the file says, or see to the part that is missing.

        Kernel: lo_rw_aio_do_completion() and lo_complete_rq(), drivers/block/loop.c, v6.12.
        """
        driver = self.driver
        rq = self.rq
        op = self.op
        driver.trace.loop_end(rq, result)
        status: i64 = BLK_STS_OK
        if op == FILE_WRITE:
            if result < 0:
                status = status_of_errno(-result)
            elif result < self.nbytes and not driver.compat.short_write_ok:
                if result > 0 or not self.is_retry:
                    self.retry_write(result)
                    return
                status = BLK_STS_IOERR
            if self.nr_frozen > 0:
                driver.nr_freeze_ends += 1
                self.nr_frozen = 0
        elif op == FILE_READ:
            if result < 0:
                status = status_of_errno(-result)
            elif result < self.nbytes:
                if self.read_ended_early(result):
                    return
                status = self.ret
            elif self.has_copy:
                self.scatter(self.nbytes)
        else:
            status = status_of_other(result)
            if status != BLK_STS_OK and op != FILE_FSYNC:
                fallocate_failed(driver, op, result)
        self.end(status)

    def end(self, status: i64) -> None:
        """Complete the request."""
        self.phase = CMD_DONE
        self.is_prepared = False
        self.data = None
        rq = self.rq
        rq.q.complete_request(rq, status)

    def retry_write(self, nbytes: i64) -> None:
        """Give the rest of a write that the file took nbytes of to a worker."""
        self.pos += nbytes
        self.nbytes -= nbytes
        data = self.data
        if data is not None:
            self.data = data[int(nbytes) :]
        self.is_retry = True
        self.driver.enqueue(self, REASON_SHORT)

    def read_ended_early(self, nbytes: i64) -> bool:
        """Account the part that was read and requeue the rest: True; at the end of the file fill with zeros: False.

        The status for the latter is left in ret. Kernel: lo_complete_rq(), drivers/block/loop.c, v6.12; until 6.14
        buffered reads had lo_read_simple().
        """
        rq = self.rq
        if self.driver.compat.eof_read_zero_success and not self.use_aio:
            zero_fill(rq)
            self.ret = BLK_STS_OK
            return False
        nr_sectors = nbytes >> 9
        if nr_sectors == 0:
            zero_fill(rq)
            self.ret = BLK_STS_IOERR
            return False
        if self.has_copy:
            self.scatter(nr_sectors << 9)
        self.phase = CMD_DONE
        self.is_prepared = False
        self.data = None
        complete.end_part(rq.q, rq, nr_sectors)
        rq.q.requeue_request(rq)
        return True

    def scatter(self, nbytes: i64) -> None:
        """Give the first nbytes that were read to the bios."""
        whole = self.data
        assert whole is not None
        at = 0
        left = int(nbytes)
        bio = self.rq.bio
        while bio is not None and left > 0:
            size = min(int(bio.nr_sectors << 9), left)
            data = bio.data
            if data is not None:
                begin = int(bio.data_at)
                data[begin : begin + size] = whole[at : at + size]
            at += size
            left -= size
            bio = bio.next


def zero_fill(rq: Request) -> None:
    """Fill what the request's bios have not got yet with zeros.

    Kernel: zero_fill_bio(), block/bio.c, v6.12.
    """
    bio = rq.bio
    while bio is not None:
        data = bio.data
        if data is not None:
            begin = int(bio.data_at)
            size = int(bio.nr_sectors << 9)
            data[begin : begin + size] = bytes(size)
        bio = bio.next
