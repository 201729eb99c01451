"""The summary of an explanation: what BFQ did and why, in sentences, the dearest first."""

from __future__ import annotations

from blktwin.block.bfq.inject import WHY_LIMIT, WHY_NAMES
from blktwin.block.bfq.log import IDLE_GROUPS, IDLE_NOT, IDLE_STRICT
from blktwin.block.rules import BFQ_GROUPS_ACTIVATED, BFQ_GROUPS_PENDING
from blktwin.lab.explain_data import Decision, Facts, Who
from blktwin.lab.explain_log import TOGETHER, DecisionLog
from blktwin.lab.explain_rules import GROUPS_RULES, IDLES, RULE_NAMES, counters_text
from blktwin.lab.explain_shares import Sample
from blktwin.units import NSEC_PER_MSEC, NSEC_PER_SEC

NEGLIGIBLE = 0.005
"""Shares of time below this are not told."""
INJECTED_MUCH = 0.1
WEIGHTS_OFF = 0.15
SAMPLE_MIN = 0.2
"""Of the run; what each got in less says nothing of weights."""
DEEP = 1.5
"""With so many requests of its own in the driver a kept queue is limited by its job."""
RAISED_MUCH = 0.1
STARVED_NS = 500 * NSEC_PER_MSEC
STARVED_ROUNDS = 1.5
"""A queue that waits for so many rounds of full slots of all queues, by their weights, starves."""


class Totals:
    """Sums over the whole run."""

    def __init__(self, log: DecisionLog) -> None:
        self.span_ns = max(1, log.ended_ns - log.began_ns)
        self.decisions: dict[int, Decision] = {}
        self.paths: dict[int, list[str]] = {}
        """Whom each rule idled for, or did not."""
        self.gave = [0] * len(WHY_NAMES)
        self.limit_max = 0
        self.idle_ns = self.nothing_ns = self.depth_ns = 0
        for second in log.seconds:
            self.idle_ns += second.idle_ns
            self.nothing_ns += second.nothing_ns
            self.depth_ns += second.depth_ns
            for row in second.rows.values():
                self.limit_max = max(self.limit_max, row.limit_max)
                self.gave = [a + b for a, b in zip(self.gave, row.gave, strict=True)]
                for rule, decision in row.decisions.items():
                    self.decisions.setdefault(rule, Decision()).add(decision)
                    paths = self.paths.setdefault(rule, [])
                    if row.path not in paths:
                        paths.append(row.path)
        self.requests = sum(who.requests for who in log.whos.values())
        self.injected = sum(who.injected for who in log.whos.values())

    def share(self, ns: float) -> float:
        """Return a time as a fraction of the run."""
        return ns / self.span_ns

    def cost_ns(self, rule: int) -> int:
        """Return for how long a rule kept others waiting."""
        return self.decisions[rule].cost_ns


def summarize(log: DecisionLog) -> list[str]:
    """Return the summary of one device, a sentence or two a line."""
    totals = Totals(log)
    queues = [who for who in log.whos.values() if who.requests]
    if not queues:
        return [f"{log.path}: BFQ saw no request."]
    waited_ns = sum(decision.idle_ns for decision in totals.decisions.values())
    idle_ns, nothing_ns = totals.idle_ns, totals.nothing_ns
    idle, waited, nothing, rest = (
        percent(totals.share(ns)) for ns in (idle_ns, waited_ns, nothing_ns, idle_ns - waited_ns - nothing_ns)
    )
    lines = [
        f"{log.path}, rules {log.bfqd.q.rules.name}: BFQ served {counted(totals.requests, 'request')} of "
        f"{counted(len(queues), 'queue')} in {seconds(totals.span_ns)}; {totals.depth_ns / totals.span_ns:.1f} in "
        f"flight on average, none {idle} of the time: {waited} while BFQ idled, {nothing} with nothing to do, {rest} "
        "while a request was on its way."
    ]
    lines += idle_lines(log, totals)
    lines += shared_lines(queues, log)
    lines += injection_lines(totals)
    lines += weight_lines(log, totals, queues)
    lines += raising_lines(log, totals, queues)
    lines += starving_lines(log, queues)
    return lines


# -- idling


def idle_lines(log: DecisionLog, totals: Totals) -> list[str]:
    """Say why the device was idle, or why not."""
    rules = [rule for rule in totals.decisions if rule in IDLES]
    rules.sort(key=lambda rule: (-totals.cost_ns(rule), -totals.decisions[rule].idle_ns, rule))
    told = []
    for rule in rules:
        decision = totals.decisions[rule]
        if totals.share(totals.cost_ns(rule)) >= NEGLIGIBLE:
            told.append(costly(log, totals, rule, decision))
        elif totals.share(decision.idle_ns) >= NEGLIGIBLE:
            told.append(
                f"device idle {percent(totals.share(decision.idle_ns))} of the time: idling for "
                f"{places(totals.paths[rule])} because {reason(rule, decision)}; harmless, nobody else waited."
            )
    if any(totals.share(totals.cost_ns(rule)) >= NEGLIGIBLE for rule in rules):
        return told
    return told + not_idle_lines(log, totals)


def costly(log: DecisionLog, totals: Totals, rule: int, decision: Decision) -> str:
    """Say what a rule cost those who waited."""
    parts = []
    if totals.share(decision.idle_ns) >= NEGLIGIBLE / 10 or not decision.kept_ns:
        parts.append(f"idle {percent(totals.share(decision.idle_ns))} of the time")
    if decision.kept_ns:
        depth = decision.depth_ns / decision.kept_ns
        own = decision.own_ns / decision.kept_ns
        another = "another " if parts else ""
        of_time = "" if parts else " of the time"
        text = f"kept at {depth:.1f} in flight for {another}{percent(totals.share(decision.kept_ns))}{of_time}"
        if own >= DEEP:
            text += f" ({own:.1f} are the kept queue's own: only the depth of its own job limits it)"
        parts.append(text)
    others = "requests waited" if rule == IDLE_STRICT else "requests of others waited"
    text = (
        f"device {' and '.join(parts)}, while {decision.waiting_ns / totals.cost_ns(rule):.1f} {others}: "
        f"idling for {places(totals.paths[rule])} because {reason(rule, decision)}"
    )
    if rule == IDLE_STRICT:
        text += ": BFQ gives nothing while anything is in the driver"
    if rule == IDLE_GROUPS:
        text += f" ({groups_text(log, decision)})"
    return text + "."


def groups_text(log: DecisionLog, decision: Decision) -> str:
    """Say how groups are counted, and what the other way to count would say."""
    rule = int(log.bfqd.groups_rule)
    facts = commonest(decision)
    text = f"{log.bfqd.q.rules.name} {GROUPS_RULES[rule]}: here {places(list(log.group_ns))}"
    if facts is None or rule != BFQ_GROUPS_ACTIVATED:
        return text
    would = "so it would idle too" if facts.other_count > 1 else "so it would not idle"
    return f"{text}; since 6.2 it {GROUPS_RULES[BFQ_GROUPS_PENDING]}: here {facts.other_count}, {would}"


def not_idle_lines(log: DecisionLog, totals: Totals) -> list[str]:
    """Say why BFQ did not keep the device for anybody."""
    rules = [rule for rule, decision in totals.decisions.items() if rule not in IDLES and decision.refused]
    if not rules and sum(who.requests > 0 for who in log.whos.values()) == 1:
        return ["BFQ kept nobody waiting: there is only one queue."]
    if not rules:
        return ["BFQ kept nobody waiting: a queue in service never ran empty while others waited."]
    rules.sort(key=lambda rule: (-totals.decisions[rule].refused, rule))
    lines = []
    for rule in rules[:2]:
        decision = totals.decisions[rule]
        text = (
            f"BFQ did not idle for {places(totals.paths[rule])} ({decision.refused} times asked) because "
            f"{reason(rule, decision)}"
        )
        facts = commonest(decision)
        is_counted = rule == IDLE_NOT and int(log.bfqd.groups_rule) != BFQ_GROUPS_ACTIVATED
        if is_counted and facts is not None and facts.other_count > 0:
            text += f" (until 6.1 BFQ {GROUPS_RULES[BFQ_GROUPS_ACTIVATED]}: {facts.other_count} > 0, it would idle)"
        if RULE_NAMES[rule] == "slice_idle = 0":
            text += ": it never waits, so weights and latencies of queues that run empty are not kept"
        lines.append(text + ".")
    return lines


def reason(rule: int, decision: Decision) -> str:
    """Return a rule's reason with the counters that it saw most often."""
    facts = commonest(decision)
    return RULE_NAMES[rule] if facts is None else counters_text(rule, facts)


def commonest(decision: Decision) -> Facts | None:
    """Return what was seen most often; of equals the first."""
    seen = decision.facts.most_common(1)
    return seen[0][0] if seen else None


# -- injection, weights


def injection_lines(totals: Totals) -> list[str]:
    """Say how much was injected."""
    if not totals.injected:
        return []
    whys = [f"{n} {WHY_NAMES[why]}" for why, n in enumerate(totals.gave) if n and why != WHY_LIMIT]
    by_limit = totals.gave[WHY_LIMIT]
    if by_limit:
        whys.insert(0, f"{by_limit} by inject_limit, up to {totals.limit_max}")
    return [
        f"injected: {totals.injected} requests ({percent(totals.injected / totals.requests)}) were served in the slot "
        f"of another queue ({'; '.join(whys)})."
    ]


def weight_lines(log: DecisionLog, totals: Totals, queues: list[Who]) -> list[str]:
    """Compare what groups, or the queues of the only group, got with their weights, if these differ."""
    shares = log.shares
    by_group = len({who.path for who in queues}) > 1
    sample = shares.groups if by_group else shares.queues
    weights: dict[str, int] = {}
    for who in queues:
        if by_group and who.group_weight:
            weights[who.path] = who.group_weight
        elif who.is_sync and (f"#{who.serial}" if by_group else str(who.serial)) in sample.members:
            name = who.path if by_group else who.label
            weights[name] = weights.get(name, 0) + who.weight
    head, since = "weights", ""
    if shares.changed_ns >= 0:
        head = f"weights (they, or cgroups, changed in the run, last at {seconds(shares.changed_ns)})"
        since = " since then"
    if len(set(weights.values())) < 2 or any(path.count("/") > 1 for path in weights if by_group):
        return [f"{head}: not compared with what each got."] if since else []
    part = totals.share(sample.ns)
    covered = f"{seconds(sample.ns)} ({percent(part)} of the run){since} in which all had requests"
    got = sectors_by_name(log, sample, by_group)
    if part < SAMPLE_MIN or not sum(got.values()):
        return [f"{head}: not compared with what each got, because there are only {covered}."]
    parts, is_off = compared(weights, got)
    text = f"{head}, in the {covered}: " + ", ".join(parts)
    injected = totals.injected / totals.requests
    if is_off and injected > INJECTED_MUCH:
        text += (
            f"; not held, because {percent(injected)} of the requests were injected, and those are taken from the "
            "queue that became busy last, not by weight"
        )
    elif is_off and not any(totals.cost_ns(rule) for rule in totals.decisions):
        text += "; not held, because no queue was made to wait for another"
    return [text + "."]


def compared(weights: dict[str, int], sectors: dict[str, int]) -> tuple[list[str], bool]:
    """Return each one's share with what is due to it, and whether one is off."""
    all_weights, all_sectors = sum(weights.values()), sum(sectors.values())
    parts = []
    is_off = False
    for name, weight in weights.items():
        due, got = weight / all_weights, sectors.get(name, 0) / all_sectors
        is_off = is_off or abs(got - due) > WEIGHTS_OFF * due
        parts.append(f"{name} (weight {weight}) {percent(got)} instead of {percent(due)}")
    return parts, is_off


def sectors_by_name(log: DecisionLog, sample: Sample, by_group: bool) -> dict[str, int]:
    """Return what each got in the sample: cgroups by path, queues by label."""
    out: dict[str, int] = {}
    for key, sectors in sample.sectors.items():
        name = ("/" if key.startswith("#") else key) if by_group else log.whos[int(key)].label
        out[name] = out.get(name, 0) + sectors
    return out


# -- raising, starvation, sharing


def raising_lines(log: DecisionLog, totals: Totals, queues: list[Who]) -> list[str]:
    """Say who was weight-raised, and why the others were not."""
    raised = [who for who in queues if who.raised_ns]
    bursts = [who for who in queues if who.in_burst]
    lines = []
    if raised:
        total = sum(who.raised_ns for who in raised)
        lines.append(
            f"weight-raised (low_latency): {listed(raised)}, {seconds(total // len(raised))} each on average; raised "
            f"queues were in service {percent(totals.share(log.raised_ns))} of the time."
        )
    if bursts:
        lines.append(f"not raised, or no longer, because they are a large burst of new queues: {listed(bursts)}.")
    return lines


def starving_lines(log: DecisionLog, queues: list[Who]) -> list[str]:
    """Name the queues that waited much longer than a round of all of them takes."""
    slot_ns = int(log.bfqd.default_timeout_ms) * NSEC_PER_MSEC
    shares = due_shares(queues)
    lines = []
    for who in sorted(queues, key=lambda who: -who.longest_wait_ns):
        if not who.is_sync or who.longest_wait_ns < max(STARVED_NS, STARVED_ROUNDS * slot_ns / shares[who.serial]):
            continue
        from_ns = who.wait_ended_ns - who.longest_wait_ns
        text = f"starved: {who.label} waited {seconds(who.longest_wait_ns)} for one request, from {seconds(from_ns)} on"
        raised = who.raised_in_wait_ns / who.longest_wait_ns
        if raised > RAISED_MUCH:
            text += f"; weight-raised queues (low_latency) were in service {percent(raised)} of that time"
        lines.append(text + ".")
    return lines


def due_shares(queues: list[Who]) -> dict[int, float]:
    """Return each sync queue's share by weight if all are busy: groups and root's queues, then inside the group."""
    inside: dict[str, int] = {}
    weights: dict[str, int] = {}
    for who in queues:
        if who.is_sync:
            name = who.path if who.group_weight else str(who.serial)
            inside[name] = inside.get(name, 0) + who.weight
            weights[name] = who.group_weight or who.weight
    total = sum(weights.values())
    shares = {}
    for who in queues:
        if who.is_sync:
            name = who.path if who.group_weight else str(who.serial)
            shares[who.serial] = weights[name] * who.weight / (total * inside[name]) if total else 1.0
    return shares


def shared_lines(queues: list[Who], log: DecisionLog) -> list[str]:
    """Say which processes share a queue: BFQ cannot tell them apart."""
    lines = []
    together = {event.who for event in log.events if event.kind == "merge" and event.text.endswith(TOGETHER)}
    for who in queues:
        if len(who.jobs) < 2:
            continue
        text = f"{len(who.jobs)} processes share one queue ({who.label})"
        if together & set(who.jobs):
            text += (
                ", created within 180 ms of each other: to BFQ they are one process, so it never makes one wait for "
                "another; with starts more than 600 ms apart each has its own queue"
            )
        else:
            text += ": merged because they read or wrote close to each other"
        lines.append(text + ".")
    return lines


# -- text


def listed(whos: list[Who]) -> str:
    """Name up to four queues."""
    names = [who.label for who in whos[:4]]
    rest = len(whos) - len(names)
    return ", ".join(names) + (f" and {rest} more" if rest else "")


def places(paths: list[str]) -> str:
    """Name cgroups."""
    if not paths:
        return "none"
    return ", ".join("the root" if path == "/" else path for path in sorted(paths))


def counted(number: int, word: str) -> str:
    """Return a number with its word."""
    return f"{number} {word}" if number == 1 else f"{number} {word}s"


def percent(share: float) -> str:
    """Return a share in percent, whole above 10."""
    value = 100 * share
    return f"{value:.0f}%" if value >= 9.95 or value == 0 else f"{value:.1f}%"


def seconds(ns: int) -> str:
    """Return a time in seconds."""
    return f"{ns / NSEC_PER_SEC:.3f} s"
