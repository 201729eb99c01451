"""The event core: a binary heap ordered by (time, serial), in integer ns.

The fired event stays at the root as a hole that the next at() fills. Nothing is allocated per event.
"""

from __future__ import annotations

from librt.vecs import vec
from mypy_extensions import i64, mypyc_attr


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
        self.size: i64 = 0
        self.has_hole: bool = False
        self.nr_fired: i64 = 0

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
        if self.has_hole:
            self.has_hole = False
            self.sift_down(event, 0)
            return
        size = self.size
        if size == len(self.heap):
            self.heap = vec[Event](list(self.heap) + [event] * (int(size) + 16))
        self.size = size + 1
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
        size = self.size
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
        self.close_hole()
        heap = self.heap
        at: i64 = 0
        while heap[at] is not event:
            at += 1
        self.size -= 1
        last = heap[self.size]
        if last is not event:
            self.sift_down(last, at)
            if heap[at] is last:
                self.sift_up(last, at)

    def close_hole(self) -> None:
        """Fill the root that the fired event left."""
        if not self.has_hole:
            return
        self.has_hole = False
        self.size -= 1
        if self.size > 0:
            self.sift_down(self.heap[self.size], 0)

    def next_time_ns(self) -> i64:
        """Return the time of the next event, -1 if there is none."""
        self.close_hole()
        return self.heap[0].time_ns if self.size > 0 else -1

    def run(self, until_ns: i64, max_events: i64) -> i64:
        """Fire events up to until_ns, at most max_events; return how many fired."""
        fired: i64 = 0
        while self.size > 0 and fired < max_events:
            event = self.heap[0]
            if event.time_ns > until_ns:
                break
            self.now_ns = event.time_ns
            event.is_queued = False
            self.has_hole = True
            fired += 1
            event.fire()
            if self.has_hole:
                self.close_hole()
        self.nr_fired += fired
        return fired
