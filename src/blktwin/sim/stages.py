"""The tracepoints as a stop-watch: charges like CostTrace, and keeps when each bio and request passed which one.

Times are those of the end of a step, as RecordingTrace writes them. btt counts Q2G, Q2M, D2C and Q2C per bio, G2I per
insertion, I2D and M2D per issue; so do we, down to requeues, merged requests and what the driver gives back.
Differs from btt: a bio that was merged in front has an M2D; parts of a split bio count as bios of their own, queued
when the whole was; the last part of a bio that completes in parts ends it.
"""

from __future__ import annotations

from mypy_extensions import i64, mypyc_attr

from blktwin.block.bio import Bio
from blktwin.block.machine import Task
from blktwin.block.queue import RequestQueue
from blktwin.block.request import RQF_FLUSH_RQ, Request
from blktwin.block.stats import stat_group
from blktwin.sim.costs import Costs
from blktwin.sim.stage_device import (
    D2C,
    D2W,
    FLUSH,
    G2D,
    G2I,
    I2D,
    LC2C,
    LQ2LC,
    M2D,
    Q2C,
    Q2G,
    Q2M,
    W2X,
    X2C,
    X2LQ,
    DeviceStages,
)
from blktwin.sim.stage_loop import Runner
from blktwin.sim.trace import CostTrace

FOREVER_NS = 9_000_000_000_000_000_000


class BioTimes:
    """When one bio passed the tracepoints (ns), -1 where it did not."""

    def __init__(self) -> None:
        self.q_ns: i64 = -1
        self.g_ns: i64 = -1
        self.i_ns: i64 = -1
        """The insertion of its request, which was merged into another one since."""
        self.m_ns: i64 = -1
        self.is_merged: bool = False


class RequestTimes:
    """When one request passed the tracepoints (ns), -1 where it did not (yet)."""

    def __init__(self, device: DeviceStages) -> None:
        self.device: DeviceStages = device
        self.g_ns: i64 = -1
        self.i_ns: i64 = -1
        self.d_ns: i64 = -1
        self.w_ns: i64 = -1
        self.x_ns: i64 = -1
        self.lq_ns: i64 = -1
        self.lc_ns: i64 = -1
        self.rest_sectors: i64 = -1
        """What is left after a part has completed; -1 before the first issue."""
        self.key: i64 = -1
        """Of a loop device's request that is on its way to the device below (stage_watch.py)."""
        self.runner: Runner | None = None
        """Who has begun to execute it, and how deep in files below loop devices."""
        self.depth: i64 = 0

    def reset(self) -> None:
        """Forget the request that has ended."""
        self.g_ns = -1
        self.i_ns = -1
        self.rest_sectors = -1
        self.reset_pass()

    def last_step_ns(self) -> i64:
        """Return the last step of this stay at the driver, -1 before it."""
        if self.lc_ns >= 0:
            return self.lc_ns
        if self.lq_ns >= 0:
            return self.lq_ns
        if self.x_ns >= 0:
            return self.x_ns
        return self.w_ns if self.w_ns >= 0 else self.d_ns

    def reset_pass(self) -> None:
        """Forget the last stay at the driver."""
        self.d_ns = -1
        self.w_ns = -1
        self.x_ns = -1
        self.lq_ns = -1
        self.lc_ns = -1


@mypyc_attr(allow_interpreted_subclasses=True)
class StageTrace(CostTrace):
    """Charges like CostTrace and adds up the stages of every device."""

    def __init__(self, costs: Costs) -> None:
        super().__init__(costs)
        self.devices: list[DeviceStages] = []
        """In the order of their first I/O."""

    def finish(self) -> None:
        """Count what waits for a later event; after the run."""
        for device in self.devices:
            device.settle(FOREVER_NS)

    def device_of(self, q: RequestQueue) -> DeviceStages:
        """Return what is kept of a queue."""
        slot = q.trace_slot
        if slot is None:
            device = DeviceStages(q)
            q.trace_slot = device
            self.devices.append(device)
            return device
        assert isinstance(slot, DeviceStages)
        return slot

    def times_of(self, rq: Request) -> RequestTimes:
        """Return the times of a request."""
        slot = rq.trace_slot
        if slot is None:
            times = RequestTimes(self.device_of(rq.q))
            rq.trace_slot = times
            return times
        assert isinstance(slot, RequestTimes)
        return slot

    # -- bios

    def bio_queue(self, bio: Bio) -> None:
        """Q."""
        super().bio_queue(bio)
        times = bio_times(bio)
        if times is None:
            times = BioTimes()
            bio.trace_slot = times
        now_ns = self.machine.local_ns
        times.q_ns = now_ns
        times.g_ns = -1
        times.i_ns = -1
        times.m_ns = -1
        times.is_merged = False
        if bio.nr_sectors > 0:
            self.bio_device(bio).arrive(now_ns, self.machine.events.now_ns)

    def bio_device(self, bio: Bio) -> DeviceStages:
        """Return what is kept of the device that a bio was submitted to."""
        q = bio.owner
        assert isinstance(q, RequestQueue)
        return self.device_of(q)

    def split(self, bio: Bio, sector: i64) -> None:
        """X: the front is a bio of its own, which was queued when the whole was."""
        super().split(bio, sector)
        whole = bio.parent
        assert whole is not None
        from_times = bio_times(whole)
        assert from_times is not None
        times = BioTimes()
        times.q_ns = from_times.q_ns
        bio.trace_slot = times
        device = self.bio_device(bio)
        device.nr_splits += 1
        device.waiting += 1

    def getrq(self, bio: Bio) -> None:
        """G."""
        super().getrq(bio)
        times = bio_times(bio)
        assert times is not None
        now_ns = self.machine.local_ns
        times.g_ns = now_ns
        if bio.nr_sectors > 0:
            self.bio_device(bio).add(Q2G, stat_group(bio.op), now_ns - times.q_ns)

    def bio_backmerge(self, bio: Bio, rq: Request) -> None:
        """M."""
        super().bio_backmerge(bio, rq)
        self.merged(bio, rq)

    def bio_frontmerge(self, bio: Bio, rq: Request) -> None:
        """F."""
        super().bio_frontmerge(bio, rq)
        self.merged(bio, rq)

    def merged(self, bio: Bio, rq: Request) -> None:
        """Count a bio that needs no request."""
        times = bio_times(bio)
        assert times is not None
        now_ns = self.machine.local_ns
        times.m_ns = now_ns
        times.is_merged = True
        device = self.times_of(rq).device
        device.nr_merged_bios += 1
        device.waiting -= 1
        device.add(Q2M, stat_group(bio.op), now_ns - times.q_ns)

    # -- requests

    def since(self, times: RequestTimes, before_ns: i64) -> i64:
        """Return the time of a step that comes after another one; a CPU may be behind the one that did that."""
        now_ns = self.machine.local_ns
        if now_ns >= before_ns:
            return now_ns
        times.device.nr_early += 1
        return before_ns

    def rq_merge(self, rq: Request) -> None:
        """Note (m): what was inserted has its I2D when the whole is issued, the rest an M2D."""
        super().rq_merge(rq)
        now_ns = self.machine.local_ns
        mine = self.times_of(rq)
        way = stat_group(rq.op)
        device = mine.device
        device.nr_merged_requests += 1
        device.waiting -= 1
        bio = rq.bio
        last = rq.bio_tail
        while bio is not None:
            times = bio_times(bio)
            assert times is not None
            if not times.is_merged:
                times.is_merged = True
                device.add(Q2M, way, now_ns - times.q_ns)
                if mine.i_ns < 0:
                    times.m_ns = now_ns
                else:
                    times.i_ns = mine.i_ns
            if bio is last:
                break
            bio = bio.next
        mine.reset()

    def rq_insert(self, rq: Request) -> None:
        """I."""
        super().rq_insert(rq)
        if rq.nr_sectors == 0:
            return
        times = self.times_of(rq)
        if times.g_ns < 0:
            times.g_ns = got_ns(rq)
        now_ns = self.since(times, times.g_ns)
        times.i_ns = now_ns
        times.device.add(G2I, stat_group(rq.op), now_ns - times.g_ns)

    def rq_issue(self, rq: Request) -> None:
        """D."""
        super().rq_issue(rq)
        times = self.times_of(rq)
        device = times.device
        if times.g_ns < 0 and rq.nr_sectors > 0:
            times.g_ns = got_ns(rq)
        now_ns = self.since(times, times.g_ns if times.i_ns < 0 else times.i_ns)
        times.reset_pass()
        times.d_ns = now_ns
        device.in_flight += 1
        if device.in_flight > device.in_flight_max:
            device.in_flight_max = device.in_flight
        if rq.nr_sectors == 0:
            return
        assert times.rest_sectors < 0 or times.rest_sectors == rq.nr_sectors, (
            f"{rq.q.name}: {rq.nr_sectors} sectors are issued again, {times.rest_sectors} are left"
        )
        times.rest_sectors = rq.nr_sectors
        device.issue(rq.nr_sectors)
        way = stat_group(rq.op)
        if times.i_ns >= 0:
            device.add(I2D, way, now_ns - times.i_ns)
        else:
            device.add(G2D, way, now_ns - times.g_ns)
        bio = rq.bio
        if bio is rq.bio_tail:
            return
        while bio is not None:
            self.issued(bio, device, way, now_ns)
            bio = bio.next

    def issued(self, bio: Bio, device: DeviceStages, way: i64, now_ns: i64) -> None:
        """Count the wait of a bio that was merged into the request that is issued now (again)."""
        times = bio_times(bio)
        assert times is not None
        if times.m_ns >= 0:
            device.add(M2D, way, now_ns - times.m_ns)
        elif times.i_ns >= 0:
            device.add(I2D, way, now_ns - times.i_ns)

    def rq_requeue(self, rq: Request) -> None:
        """R."""
        super().rq_requeue(rq)
        times = self.times_of(rq)
        if times.d_ns < 0:
            return
        device = times.device
        self.leave(times)
        times.reset_pass()
        if rq.nr_sectors > 0:
            device.give_back(rq.nr_sectors)

    def leave(self, times: RequestTimes) -> None:
        """Count the end of a stay at the driver."""
        device = times.device
        device.in_flight -= 1
        device.in_flight_ns += self.since(times, times.d_ns) - times.d_ns

    def rq_complete(self, rq: Request, status: i64, nr_bytes: i64) -> None:
        """C: of all bios that end with it."""
        super().rq_complete(rq, status, nr_bytes)
        times = self.times_of(rq)
        device = times.device
        now_ns = self.since(times, times.last_step_ns())
        if now_ns > device.last_ns:
            device.last_ns = now_ns
        nr_sectors = nr_bytes >> 9
        if nr_sectors == 0:
            if rq.rq_flags & RQF_FLUSH_RQ and times.d_ns >= 0:
                self.ended(times, FLUSH, now_ns)
                self.leave(times)
                device.nr_completed += 1
            times.reset()
            return
        is_part = nr_sectors < rq.nr_sectors
        way = stat_group(rq.op)
        bio = rq.bio
        left = nr_sectors
        while bio is not None and left >= bio.nr_sectors:
            left -= bio.nr_sectors
            ended = bio_times(bio)
            assert ended is not None
            device.add(Q2C, way, now_ns - ended.q_ns)
            if times.d_ns >= 0:
                self.ended(times, way, now_ns)
            bio = bio.next
        if is_part:
            device.nr_parts += 1
            times.rest_sectors = rq.nr_sectors - nr_sectors
            return
        assert left == 0, f"{rq.q.name}: {nr_sectors} sectors complete, {left} of them no bio's"
        assert times.d_ns < 0 or times.rest_sectors == nr_sectors, (
            f"{rq.q.name}: {nr_sectors} sectors complete, {times.rest_sectors} are in flight"
        )
        if times.d_ns < 0:
            device.waiting -= 1
        else:
            self.leave(times)
            device.nr_completed += 1
        times.reset()

    def ended(self, times: RequestTimes, way: i64, now_ns: i64) -> None:
        """Count D2C, and inside it the stages of a loop device, which add up to it."""
        device = times.device
        d2c_ns = now_ns - times.d_ns
        device.add(D2C, way, d2c_ns)
        if not device.is_loop:
            return
        worked_ns = times.w_ns
        begun_ns = times.x_ns
        if worked_ns < 0:
            # Executed by who submitted it.
            worked_ns = times.d_ns
            begun_ns = worked_ns
        assert begun_ns >= 0, f"{device.q.name}: a request ends that its worker has not begun"
        assert times.d_ns <= worked_ns <= begun_ns <= now_ns, device.q.name
        assert times.lq_ns <= times.lc_ns, device.q.name
        total_ns = worked_ns - times.d_ns + (begun_ns - worked_ns)
        device.add(D2W, way, worked_ns - times.d_ns)
        device.add(W2X, way, begun_ns - worked_ns)
        if times.lq_ns < 0:
            device.add(X2C, way, now_ns - begun_ns)
            total_ns += now_ns - begun_ns
        else:
            device.add(X2LQ, way, times.lq_ns - begun_ns)
            device.add(LQ2LC, way, times.lc_ns - times.lq_ns)
            device.add(LC2C, way, now_ns - times.lc_ns)
            total_ns += times.lq_ns - begun_ns + (times.lc_ns - times.lq_ns) + (now_ns - times.lc_ns)
        assert total_ns == d2c_ns, f"{device.q.name}: D2C is {d2c_ns} ns, its stages {total_ns}"

    # -- inside a loop device

    def loop_dispatch(self, rq: Request) -> None:
        """Learn that the device is a loop device."""
        super().loop_dispatch(rq)
        self.times_of(rq).device.is_loop = True

    def loop_work(self, rq: Request, reason: i64) -> None:
        """W: whatever was tried before belongs to D2W."""
        super().loop_work(rq, reason)
        times = self.times_of(rq)
        times.device.is_loop = True
        times.w_ns = self.since(times, times.last_step_ns())
        times.x_ns = -1
        times.lq_ns = -1
        times.lc_ns = -1

    def loop_begin(self, rq: Request, task: Task, reason: i64) -> None:
        """X."""
        super().loop_begin(rq, task, reason)
        times = self.times_of(rq)
        times.device.is_loop = True
        times.x_ns = self.since(times, times.last_step_ns())

    def loop_lower_queue(self, rq: Request) -> None:
        """Q': the first one."""
        super().loop_lower_queue(rq)
        times = self.times_of(rq)
        if times.lq_ns < 0:
            times.lq_ns = self.since(times, times.last_step_ns())

    def loop_lower_done(self, rq: Request) -> None:
        """C': the last one."""
        super().loop_lower_done(rq)
        times = self.times_of(rq)
        times.lc_ns = self.since(times, times.last_step_ns())


def bio_times(bio: Bio) -> BioTimes | None:
    """Return the times of a bio, None for one that this trace has not seen."""
    slot = bio.trace_slot
    if slot is None:
        return None
    assert isinstance(slot, BioTimes)
    return slot


def got_ns(rq: Request) -> i64:
    """Return when the request was allocated: its bios say it, for G comes before they are its own."""
    bio = rq.bio
    while bio is not None:
        times = bio_times(bio)
        assert times is not None
        if times.g_ns >= 0 and not times.is_merged:
            return times.g_ns
        bio = bio.next
    raise AssertionError(f"{rq.q.name}: a request without the bio that it was allocated for")
