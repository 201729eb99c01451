"""The event core: all pending events in the order of (time, serial), in integer ns.

Most events come in that order (a device of constant latency, CPUs in step) or before all others (a CPU that goes on),
and stand in the lane, a ring; the others are in a binary heap, whose fired event stays at the root as a hole that the
next one fills. Nothing is allocated per event.
"""

from __future__ import annotations

from typing import Final

from librt.vecs import vec
from mypy_extensions import i64, mypyc_attr

LANE_STEPS: Final = 4
"""So far from its head an event may enter the lane."""


@mypyc_attr(allow_interpreted_subclasses=True)
class Event:
    """Something that happens at a time; subclasses override fire(). An event is queued at most once."""

    def __init__(self) -> None:
        self.time_ns: i64 = 0
        self.serial: i64 = 0
        self.is_queued: bool = False

    def fire(self) -> None:
        """Happen; is_queued is already False."""
        raise NotImplementedError


class EventQueue:
    """All pending events; now_ns is the time of the event that fires."""

    def __init__(self) -> None:
        self.now_ns: i64 = 0
        self.serial: i64 = 0
        self.heap: vec[Event] = vec[Event]()
        self.nr_heap: i64 = 0
        self.has_hole: bool = False
        self.lane: vec[Event] = vec[Event]()
        self.lane_mask: i64 = -1
        """The ring's capacity, a power of two, less one."""
        self.lane_first: i64 = 0
        self.nr_lane: i64 = 0
        self.lane_end_ns: i64 = 0
        """Time and serial of the last event in the lane."""
        self.lane_end_serial: i64 = 0
        self.nr_fired: i64 = 0

    @property
    def size(self) -> i64:
        """Pending events, and the hole."""
        return self.nr_heap + self.nr_lane

    def next_serial(self) -> i64:
        """Take a place among equal times, for an event that is queued later by at_serial()."""
        self.serial += 1
        return self.serial

    def at(self, event: Event, time_ns: i64) -> None:
        """Queue event for time_ns; equal times fire in the order of queueing."""
        self.serial += 1
        self.at_serial(event, time_ns, self.serial)

    def at_serial(self, event: Event, time_ns: i64, serial: i64) -> None:
        """Queue event for time_ns, among equal times where serial stands."""
        assert not event.is_queued, "the event is queued already"
        if time_ns < self.now_ns:
            time_ns = self.now_ns
        event.time_ns = time_ns
        event.serial = serial
        event.is_queued = True
        nr = self.nr_lane
        end_ns = self.lane_end_ns
        if nr > self.lane_mask:
            self.grow_lane(event)
        if nr > 0 and (time_ns < end_ns or (time_ns == end_ns and serial < self.lane_end_serial)):
            self.insert(event)
            return
        self.lane[(self.lane_first + nr) & self.lane_mask] = event
        self.nr_lane = nr + 1
        self.lane_end_ns = time_ns
        self.lane_end_serial = serial

    def insert(self, event: Event) -> None:
        """Queue an event that belongs before the lane's last: near either end, or else in the heap."""
        lane = self.lane
        mask = self.lane_mask
        first = self.lane_first
        nr = self.nr_lane
        time_ns = event.time_ns
        serial = event.serial
        at = nr - 1
        if at >= LANE_STEPS:
            at = LANE_STEPS - 1
        other = lane[(first + at) & mask]
        if other.time_ns > time_ns or (other.time_ns == time_ns and other.serial > serial):
            at = (first - 1) & mask
            self.lane_first = at
            self.nr_lane = nr + 1
            other = lane[first]
            while other.time_ns < time_ns or (other.time_ns == time_ns and other.serial < serial):
                # It comes before, and makes room.
                lane[at] = other
                at = first
                first = (first + 1) & mask
                other = lane[first]
            lane[at] = event
            return
        last = (first + nr - 1) & mask
        before = lane[(last - 1) & mask]
        if time_ns < before.time_ns or (time_ns == before.time_ns and serial < before.serial):
            self.push(event)
            return
        # The last one is far ahead: it would keep all others out.
        far = lane[last]
        lane[last] = event
        self.lane_end_ns = time_ns
        self.lane_end_serial = serial
        self.push(far)

    def grow_lane(self, event: Event) -> None:
        """Double the lane; event fills the places that are free."""
        nr = int(self.nr_lane)
        kept = [self.lane[(self.lane_first + at) & self.lane_mask] for at in range(nr)]
        self.lane = vec[Event](kept + [event] * max(16, nr))
        self.lane_first = 0
        self.lane_mask = len(self.lane) - 1

    def push(self, event: Event) -> None:
        """Put event into the heap."""
        if self.has_hole:
            self.has_hole = False
            self.sift_down(event, 0)
            return
        size = self.nr_heap
        if size == len(self.heap):
            self.heap = vec[Event](list(self.heap) + [event] * (int(size) + 16))
        self.nr_heap = size + 1
        self.sift_up(event, size)

    def sift_up(self, event: Event, at: i64) -> None:
        """Place event at index `at` or above."""
        heap = self.heap
        time_ns = event.time_ns
        serial = event.serial
        while at > 0:
            parent = (at - 1) >> 1
            other = heap[parent]
            if other.time_ns < time_ns or (other.time_ns == time_ns and other.serial < serial):
                break
            heap[at] = other
            at = parent
        heap[at] = event

    def sift_down(self, event: Event, at: i64) -> None:
        """Place event at index `at` or below."""
        heap = self.heap
        size = self.nr_heap
        time_ns = event.time_ns
        serial = event.serial
        while True:
            child = 2 * at + 1
            if child >= size:
                break
            other = heap[child]
            if child + 1 < size:
                right = heap[child + 1]
                if right.time_ns < other.time_ns or (right.time_ns == other.time_ns and right.serial < other.serial):
                    other = right
                    child += 1
            if time_ns < other.time_ns or (time_ns == other.time_ns and serial < other.serial):
                break
            heap[at] = other
            at = child
        heap[at] = event

    def remove(self, event: Event) -> None:
        """Take a queued event out; linear, for the rare cancel or move to an earlier time."""
        assert event.is_queued, "the event is not queued"
        event.is_queued = False
        if self.remove_from_lane(event):
            return
        self.close_hole()
        heap = self.heap
        at: i64 = 0
        while heap[at] is not event:
            at += 1
        self.nr_heap -= 1
        last = heap[self.nr_heap]
        if last is not event:
            self.sift_down(last, at)
            if heap[at] is last:
                self.sift_up(last, at)

    def remove_from_lane(self, event: Event) -> bool:
        """Take event out of the lane if it is there."""
        lane = self.lane
        first = self.lane_first
        mask = self.lane_mask
        nr = self.nr_lane
        at: i64 = 0
        while at < nr and lane[(first + at) & mask] is not event:
            at += 1
        if at == nr:
            return False
        nr -= 1
        self.nr_lane = nr
        while at < nr:
            lane[(first + at) & mask] = lane[(first + at + 1) & mask]
            at += 1
        if nr > 0:
            last = lane[(first + nr - 1) & mask]
            self.lane_end_ns = last.time_ns
            self.lane_end_serial = last.serial
        return True

    def close_hole(self) -> None:
        """Fill the root that the fired event left."""
        if not self.has_hole:
            return
        self.has_hole = False
        self.nr_heap -= 1
        if self.nr_heap > 0:
            self.sift_down(self.heap[self.nr_heap], 0)

    def heap_is_next(self) -> bool:
        """Say whether the next event is the heap's, not the lane's; there must be one, and no hole."""
        if self.nr_heap == 0:
            return False
        if self.nr_lane == 0:
            return True
        first = self.lane[self.lane_first]
        root = self.heap[0]
        return root.time_ns < first.time_ns or (root.time_ns == first.time_ns and root.serial < first.serial)

    def next_time_ns(self) -> i64:
        """Return the time of the next event, -1 if there is none."""
        self.close_hole()
        if self.heap_is_next():
            return self.heap[0].time_ns
        return self.lane[self.lane_first].time_ns if self.nr_lane > 0 else -1

    def is_due(self, time_ns: i64) -> bool:
        """Say whether an event is queued for before time_ns; the hole stays open."""
        if self.nr_lane > 0 and self.lane[self.lane_first].time_ns < time_ns:
            return True
        nr = self.nr_heap
        if not self.has_hole:
            return nr > 0 and self.heap[0].time_ns < time_ns
        # Below the hole its two children are the first.
        return (nr > 1 and self.heap[1].time_ns < time_ns) or (nr > 2 and self.heap[2].time_ns < time_ns)

    def run(self, until_ns: i64, max_events: i64) -> i64:
        """Fire events up to until_ns, at most max_events; return how many fired."""
        fired: i64 = 0
        while fired < max_events:
            if self.heap_is_next():
                event = self.heap[0]
                if event.time_ns > until_ns:
                    break
                self.has_hole = True
            else:
                if self.nr_lane == 0:
                    break
                event = self.lane[self.lane_first]
                if event.time_ns > until_ns:
                    break
                self.lane_first = (self.lane_first + 1) & self.lane_mask
                self.nr_lane -= 1
            self.now_ns = event.time_ns
            event.is_queued = False
            fired += 1
            event.fire()
            if self.has_hole:
                self.close_hole()
        self.nr_fired += fired
        return fired
