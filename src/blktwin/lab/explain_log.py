"""What BFQ decided on one device, added up per second of simulated time and queue while it runs.

Memory grows with seconds, queues and rules, not with I/Os; of events (merges, raising, moves) the first MAX_EVENTS
are kept.
"""

from __future__ import annotations

from blktwin.block.bfq.data import BfqData
from blktwin.block.bfq.idle import idle_rule
from blktwin.block.bfq.log import IDLE_STRICT, PREEMPTED, BfqLog
from blktwin.block.bfq.queue import BfqQueue
from blktwin.lab.explain_data import Decision, Happening, Row, Second, Who, facts_of
from blktwin.lab.explain_rules import IDLES, why_raised
from blktwin.lab.explain_shares import Shares
from blktwin.units import NSEC_PER_SEC

MAX_EVENTS = 200
QUIET_SECONDS_MAX = 60
"""A longer time without decisions is told as one piece."""
SAMPLE_MASK = 15
"""Every 16th decision of a kind is looked at in full."""
FACTS_MAX = 32
TOGETHER = "created together"


class DecisionLog(BfqLog):
    """Adds up one device's decisions; names: job names by pid."""

    def __init__(self, path: str, names: dict[int, str], bfqd: BfqData) -> None:
        self.path = path
        self.names = names
        self.bfqd = bfqd
        self.at_ns = int(bfqd.q.machine.now_ns())
        self.began_ns = self.at_ns
        self.ended_ns = self.at_ns
        self.seconds: list[Second] = []
        self.whos: dict[int, Who] = {}
        self.events: list[Happening] = []
        self.dropped = 0
        self.group_ns: dict[str, int] = {}
        self.group_since_ns: dict[str, int] = {}
        self.group_changes = 0
        self.shares = Shares()
        # the state between two hooks
        self.second = Second(-1)
        self.until_ns = -1
        self.in_driver = 0
        self.queued = 0
        self.waiting = 0
        self.own = 0
        self.num_groups = 0
        self.serving: BfqQueue | None = None
        self.row: Row | None = None
        self.holder: BfqQueue | None = None
        self.rule = 0
        self.decision: Decision | None = None
        self.armed: tuple[int, int] = (-1, 0)
        self.raised_ns = 0
        self.split_ns = -1
        self.merging: tuple[int, int, int] = (-1, -1, -1)
        self.begin_second()

    # -- time

    def begin_second(self) -> None:
        """Open the second that at_ns is in."""
        number = self.at_ns // NSEC_PER_SEC
        self.second = Second(number)
        self.seconds.append(self.second)
        self.until_ns = (number + 1) * NSEC_PER_SEC
        self.row = None if self.serving is None else self.row_of(self.serving)
        self.decision = None if self.holder is None else self.decision_of(self.holder, self.rule)

    def advance(self) -> None:
        """Account for the time since the last hook."""
        now_ns = int(self.bfqd.q.machine.now_ns())
        self.pass_seconds(now_ns)
        if now_ns > self.at_ns:
            self.account(now_ns)

    def pass_seconds(self, now_ns: int) -> None:
        """Close the seconds that have ended; many in which nothing was decided become one that is so long."""
        while now_ns >= self.until_ns:
            self.account(self.until_ns)
            self.begin_second()
            ahead = (now_ns - self.at_ns) // NSEC_PER_SEC
            if ahead > QUIET_SECONDS_MAX:
                self.until_ns = self.at_ns + ahead * NSEC_PER_SEC

    def account(self, now_ns: int) -> None:
        """Add the time until now_ns to what goes on."""
        ns = now_ns - self.at_ns
        self.at_ns = now_ns
        second = self.second
        second.span_ns += ns
        self.shares.account(ns)
        second.depth_ns += self.in_driver * ns
        second.groups[self.num_groups] = second.groups.get(self.num_groups, 0) + ns
        decision = self.decision
        if self.in_driver == 0:
            second.idle_ns += ns
            if decision is None and self.queued == 0:
                second.nothing_ns += ns
        if decision is not None:
            if self.in_driver == 0:
                decision.idle_ns += ns
            if decision.seen is not None:
                decision.facts[decision.seen] += ns
            if self.waiting > 0:
                decision.waiting_ns += self.waiting * ns
                if self.in_driver == 0:
                    decision.lost_ns += ns
                else:
                    decision.kept_ns += ns
                    decision.depth_ns += self.in_driver * ns
                    decision.own_ns += self.own * ns
        row = self.row
        if row is not None:
            row.service_ns += ns
            if row.who.raised_since_ns >= 0:
                self.raised_ns += ns

    def note(self) -> None:
        """Remember what the time from now on belongs to."""
        self.queued = int(self.bfqd.queued)
        holder = self.holder
        if holder is None:
            self.waiting = self.own = 0
            return
        self.own = int(holder.dispatched)
        # strict_guarantees keeps the queue's own requests waiting too.
        self.waiting = self.queued if self.rule == IDLE_STRICT else self.queued - int(holder.nr_queued)

    def finish(self, now_ns: int) -> None:
        """Close everything at the end of the run."""
        self.pass_seconds(now_ns)
        if now_ns > self.at_ns:
            self.account(now_ns)
        self.ended_ns = self.at_ns
        for who in self.whos.values():
            self.end_wait(who)
            if who.raised_since_ns >= 0:
                who.raised_ns += self.at_ns - who.raised_since_ns
        for path, since in self.group_since_ns.items():
            self.group_ns[path] = self.group_ns.get(path, 0) + self.at_ns - since
        self.seconds = [second for second in self.seconds if second.span_ns]

    # -- queues

    def name_of(self, pid: int) -> str:
        """Return the name of the job that has a pid."""
        return self.names.get(pid, f"pid {pid}")

    def who(self, bfqq: BfqQueue) -> Who:
        """Return what is known of a queue, which is named after its process when first seen."""
        serial = int(bfqq.serial)
        who = self.whos.get(serial)
        if who is None:
            jobs = [self.name_of(int(bfqq.pid))] if bfqq.is_sync and bfqq.pid >= 0 else []
            who = Who(serial, jobs, bfqq.group_path, bool(bfqq.is_sync), seen_ns=self.at_ns)
            who.raised_since_ns = self.at_ns if bfqq.wr_coeff > 1 else -1
            self.weigh(who, bfqq)
            self.came_from(who)
            self.whos[serial] = who
        return who

    def came_from(self, who: Who) -> None:
        """See whether a new queue is that of a process which left a shared one behind in another cgroup."""
        before = [one for one in self.whos.values() if who.jobs and who.jobs[0] in one.jobs]
        if before and before[-1].path != who.path:
            self.shares.changed(self.at_ns)
            self.happened("move", who.label, f"from {before[-1].path}, where others keep the queue that it shared")

    def weigh(self, who: Who, bfqq: BfqQueue) -> None:
        """Note the weights of a queue and its group."""
        who.weight = int(bfqq.orig_weight)
        parent = bfqq.parent
        who.group_weight = 0 if parent is None else int(parent.weight)
        for path, before, after in self.shares.weigh(bfqq, self.at_ns):
            self.happened("weight", path or who.label, f"{before} -> {after}, in force from now on")

    def row_of(self, bfqq: BfqQueue) -> Row:
        """Return the row of a queue in this second."""
        key = (int(bfqq.serial), bfqq.group_path)
        row = self.second.rows.get(key)
        if row is None:
            row = Row(self.who(bfqq), bfqq.group_path)
            self.second.rows[key] = row
        return row

    def decision_of(self, bfqq: BfqQueue, rule: int) -> Decision:
        """Return the decisions of a rule on a queue in this second."""
        decisions = self.row_of(bfqq).decisions
        decision = decisions.get(rule)
        if decision is None:
            decision = Decision()
            decisions[rule] = decision
        return decision

    def sample(self, decision: Decision, bfqq: BfqQueue) -> None:
        """Look at the counters behind a decision."""
        if (decision.held + decision.timers + decision.refused) & SAMPLE_MASK == 0:
            facts = facts_of(self.bfqd, bfqq)
            if facts in decision.facts or len(decision.facts) < FACTS_MAX:
                decision.facts[facts] += 1
                decision.seen = facts

    def end_wait(self, who: Who) -> None:
        """See the oldest request of a queue served, or the run end."""
        if who.waiting_since_ns >= 0:
            wait_ns = self.at_ns - who.waiting_since_ns
            if wait_ns > who.longest_wait_ns:
                who.longest_wait_ns = wait_ns
                who.wait_ended_ns = self.at_ns
                who.raised_in_wait_ns = self.raised_ns - who.raised_before_ns
        who.waiting_since_ns = -1

    def happened(self, kind: str, who: str, text: str) -> None:
        """Keep an event, unless there are too many."""
        if len(self.events) < MAX_EVENTS:
            self.events.append(Happening(self.at_ns, kind, who, text))
        else:
            self.dropped += 1

    def hold(self, bfqq: BfqQueue | None, rule: int) -> None:
        """Keep the device for bfqq from now on, None for nobody."""
        self.holder = bfqq
        self.rule = rule
        self.decision = None if bfqq is None else self.decision_of(bfqq, rule)

    # -- slots

    def in_service(self, bfqd: BfqData, bfqq: BfqQueue) -> None:
        """A slot begins."""
        self.advance()
        self.serving = bfqq
        self.row = row = self.row_of(bfqq)
        row.slots += 1
        row.limit_max = max(row.limit_max, int(bfqq.inject_limit))
        who = row.who
        self.weigh(who, bfqq)
        who.in_burst = who.in_burst or bool(bfqq.in_large_burst)
        self.hold(None, 0)
        self.note()

    def expired(self, bfqd: BfqData, bfqq: BfqQueue, reason: int, is_slow: bool, charged: int) -> None:
        """A slot ends."""
        self.advance()
        row = self.row_of(bfqq)
        row.expired[reason] += 1
        row.slow += is_slow
        row.charged += charged
        if reason == PREEMPTED and bfqq.nr_queued == 0:
            rule = int(idle_rule(bfqd, bfqq))
            if rule not in IDLES:
                self.refuse(bfqq, rule)
        self.end_slot()

    def exited(self, bfqd: BfqData, bfqq: BfqQueue) -> None:
        """A slot ends with its process."""
        self.advance()
        self.end_slot()

    def end_slot(self) -> None:
        """Leave nothing in service."""
        self.serving = None
        self.row = None
        self.hold(None, 0)
        self.note()

    # -- idling

    def held(self, bfqd: BfqData, bfqq: BfqQueue, rule: int) -> None:
        """A dispatch gets nothing."""
        self.advance()
        if rule not in IDLES and self.armed[0] == bfqq.serial:
            # Its timer still runs, armed by a rule that holds no more.
            rule = self.armed[1]
        self.hold(bfqq, rule)
        decision = self.decision
        assert decision is not None
        self.sample(decision, bfqq)
        decision.held += 1
        decision.kept += self.in_driver > 0
        self.note()

    def idling(self, bfqd: BfqData, bfqq: BfqQueue, rule: int, ns: int) -> None:
        """The idle timer starts."""
        self.advance()
        self.armed = (int(bfqq.serial), rule)
        self.hold(bfqq, rule)
        decision = self.decision
        assert decision is not None
        self.sample(decision, bfqq)
        decision.timers += 1
        self.note()

    def not_idling(self, bfqd: BfqData, bfqq: BfqQueue, rule: int) -> None:
        """BFQ does not wait."""
        self.advance()
        self.refuse(bfqq, rule)

    def refuse(self, bfqq: BfqQueue, rule: int) -> None:
        """Count that BFQ does not wait."""
        decision = self.decision_of(bfqq, rule)
        self.sample(decision, bfqq)
        decision.refused += 1

    # -- requests

    def injected(self, bfqd: BfqData, in_service: BfqQueue, bfqq: BfqQueue, why: int) -> None:
        """A request is served in another queue's slot."""
        self.advance()
        self.row_of(in_service).gave[why] += 1
        row = self.row_of(bfqq)
        row.injected += 1
        row.who.injected += 1

    def inject_limit(self, bfqd: BfqData, bfqq: BfqQueue, before: int) -> None:
        """The injection limit changes."""
        self.advance()
        row = self.row_of(bfqq)
        row.limit_max = max(row.limit_max, int(bfqq.inject_limit))

    def dispatched(self, bfqd: BfqData, bfqq: BfqQueue, sectors: int) -> None:
        """A request goes to the driver."""
        self.advance()
        self.in_driver += 1
        row = self.row_of(bfqq)
        row.requests += 1
        row.sectors += sectors
        self.shares.see(bfqq)
        self.shares.served(bfqq, sectors)
        who = row.who
        who.requests += 1
        who.sectors += sectors
        who.last_ns = self.at_ns
        self.end_wait(who)
        if bfqq.nr_queued > 0:
            self.begin_wait(who)
        if self.holder is bfqq:
            self.hold(None, 0)
        self.note()

    def completed(self, bfqd: BfqData, bfqq: BfqQueue) -> None:
        """A request has completed."""
        self.advance()
        self.in_driver -= 1
        self.shares.see(bfqq)
        self.note()

    def inserted(self, bfqd: BfqData, bfqq: BfqQueue) -> None:
        """A request arrives; the one that BFQ waits for ends the waiting."""
        self.advance()
        who = self.who(bfqq)
        self.shares.see(bfqq)
        if who.waiting_since_ns < 0:
            self.begin_wait(who)
        if self.holder is bfqq:
            self.hold(None, 0)
        self.note()

    def begin_wait(self, who: Who) -> None:
        """See a queue wait for its turn."""
        who.waiting_since_ns = self.at_ns
        who.raised_before_ns = self.raised_ns

    # -- what happens rarely

    def raised(self, bfqd: BfqData, bfqq: BfqQueue, before: int) -> None:
        """The weight-raising coefficient changes."""
        self.advance()
        who = self.who(bfqq)
        coeff = int(bfqq.wr_coeff)
        if who.raised_since_ns >= 0:
            who.raised_ns += self.at_ns - who.raised_since_ns
        who.raised_since_ns = self.at_ns if coeff > 1 else -1
        at, source, into = self.merging
        is_merge = at == self.at_ns and who.serial in (source, into)
        if is_merge:
            text = "merged with a raised queue"
        elif self.split_ns == self.at_ns:
            text = "as before it shared a queue"
        else:
            text = why_raised(bfqd, bfqq, int(before))
        self.happened("raising", who.label, f"wr_coeff {before} -> {coeff}: {text}")

    def groups(self, bfqd: BfqData, path: str) -> None:
        """A group is counted, or no more."""
        self.advance()
        self.group_changes += 1
        if bfqd.num_groups_with_pending_reqs > self.num_groups:
            self.group_since_ns[path] = self.at_ns
        else:
            since_ns = self.group_since_ns.pop(path, self.at_ns)
            self.group_ns[path] = self.group_ns.get(path, 0) + self.at_ns - since_ns
        self.num_groups = int(bfqd.num_groups_with_pending_reqs)

    def merged(self, bfqd: BfqData, bfqq: BfqQueue, into: BfqQueue, why: str) -> None:
        """A process goes over to a queue that is shared from now on."""
        self.advance()
        source, target = self.who(bfqq), self.who(into)
        self.merging = (self.at_ns, source.serial, target.serial)
        self.shares.left(bfqq)
        name = self.name_of(int(bfqd.q.machine.current.pid))
        if name in source.jobs and len(source.jobs) > 1:
            source.jobs.remove(name)
        if name not in target.jobs:
            target.jobs.append(name)
        bic = bfqq.bic
        if bic is not None and bic.stably_merged:
            # Put off for 600 ms, where the device does not queue commands.
            why = TOGETHER
        self.happened("merge", name, f"into the queue of {target.label}: {why}")

    def split(self, bfqd: BfqData, bfqq: BfqQueue) -> None:
        """A process leaves a shared queue; the last one keeps it."""
        self.advance()
        self.split_ns = self.at_ns
        who = self.who(bfqq)
        name = self.name_of(int(bfqd.q.machine.current.pid))
        if name in who.jobs and len(who.jobs) > 1:
            who.jobs.remove(name)
        self.happened("split", name, f"leaves the queue of {who.label}: it seeks")

    def moved(self, bfqd: BfqData, bfqq: BfqQueue, path: str) -> None:
        """A queue changes its group; path: the former one."""
        self.advance()
        who = self.who(bfqq)
        who.path = bfqq.group_path
        self.shares.moved(bfqq, self.at_ns)
        self.happened("move", who.label, f"from {path}")

    def woken_by(self, bfqd: BfqData, bfqq: BfqQueue, waker: BfqQueue) -> None:
        """A waker is found."""
        self.advance()
        self.happened("waker", self.who(bfqq).label, f"is woken by {self.who(waker).label}")
