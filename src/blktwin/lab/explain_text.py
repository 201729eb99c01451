"""An explanation as text to be read, and as data for the JSON formats."""

from __future__ import annotations

from blktwin.block.bfq.inject import WHY_NAMES
from blktwin.block.bfq.log import REASON_NAMES
from blktwin.lab.explain_data import Decision, Facts, Row, Second, Who
from blktwin.lab.explain_log import DecisionLog
from blktwin.lab.explain_rules import IDLES, RULE_NAMES, counters_text
from blktwin.lab.explain_words import Totals, commonest, percent
from blktwin.units import NSEC_PER_MSEC, NSEC_PER_SEC

MAX_INTERVALS = 20
WIDTHS_S = (1, 2, 5, 10, 30, 60, 300, 600, 3600)
SHORT_NS = 10 * NSEC_PER_MSEC
"""What is shorter, at the end of a run, has no table of its own."""
MAX_ROWS = 16
MAX_EVENTS_SHOWN = 24
Json = dict[str, object]


# -- text


def render(log: DecisionLog, summary: list[str]) -> str:
    """Return one device's explanation, the summary last."""
    lines = ["", f"BFQ on {log.path}: decisions"]
    lines += interval_lines(log)
    lines += slot_lines(log)
    lines += event_lines(log)
    lines += ["", "Summary"]
    lines += [f"  - {line}" for line in summary]
    return "\n".join(lines) + "\n"


def interval_lines(log: DecisionLog) -> list[str]:
    """Return what each queue got per second; in a long run, per interval of several seconds."""
    width = width_of(log)
    lines = [
        "  idle: nothing was in the driver, and BFQ waited for this queue; kept: something was, and BFQ held back",
        "  requests of other queues for it; service: the length of its slots; idled Nx: its timer was armed N times;",
        "  kept Nx: so often was nothing given while something was in the driver",
    ]
    if width > 1:
        lines.append(f"  (intervals of {width} s; the JSON formats have single seconds)")
    told = [second for second in log.seconds if second.span_ns >= SHORT_NS] or log.seconds
    for first, seconds in grouped(told, width):
        lines += ["", interval_head(first, seconds, width)]
        lines.append(
            f"    {'queue':28} {'requests':>8} {'injected':>8} {'slots':>6} {'service':>8} {'idle':>8} {'kept':>8}  why"
        )
        rows, left = busiest(merged_rows(seconds))
        for row in rows:
            lines += row_lines(row)
        lines += left
    return lines


def interval_head(first: int, seconds: list[Second], width: int) -> str:
    """Return what the device did in an interval."""
    span = sum(second.span_ns for second in seconds)
    groups: dict[int, int] = {}
    for second in seconds:
        for value, ns in second.groups.items():
            groups[value] = groups.get(value, 0) + ns
    counts = ", ".join(f"{value} ({percent(ns / span)})" for value, ns in sorted(groups.items()) if ns * 1000 >= span)
    idle = sum(second.idle_ns for second in seconds)
    depth = sum(second.depth_ns for second in seconds)
    name = f"second {first}" if width == 1 else f"seconds {first} to {first + width - 1}"
    return (
        f"  {name}: {depth / span:.1f} in flight, device idle {percent(idle / span)}; "
        f"num_groups_with_pending_reqs {counts}"
    )


def row_lines(row: Row) -> list[str]:
    """Return a queue's line, one more for each further rule that decided."""
    ranked = sorted(row.decisions.items(), key=lambda pair: (-weight_of(pair[1]), pair[0]))
    idle_ns = sum(decision.idle_ns for decision in row.decisions.values())
    kept_ns = sum(decision.kept_ns for decision in row.decisions.values())
    numbers = (
        f"    {label_of(row):28} {row.requests:8} {row.injected:8} {row.slots:6} {ms(row.service_ns):>8} "
        f"{ms(idle_ns):>8} {ms(kept_ns):>8}  "
    )
    whys = [decision_text(rule, decision) for rule, decision in ranked] or ["-"]
    return [numbers + whys[0], *(" " * len(numbers) + why for why in whys[1:2])]


def decision_text(rule: int, decision: Decision) -> str:
    """Return a decision with how often it was made and what it saw."""
    facts = commonest(decision)
    why = RULE_NAMES[rule] if facts is None else counters_text(rule, facts, is_short=True)
    if rule in IDLES:
        return f"{verdicts_text(decision)}: {why}"
    return f"did not idle {decision.refused}x: {why}"


def verdicts_text(decision: Decision) -> str:
    """Return how often a rule idled and kept, what took longer first."""
    parts = []
    if decision.timers:
        parts.append(f"idled {decision.timers}x")
    if decision.kept_ns:
        parts.insert(0 if decision.kept_ns > decision.idle_ns else 1, f"kept {decision.kept}x")
    return ", ".join(parts) or f"kept {decision.held}x"


def label_of(row: Row) -> str:
    """Name a row's queue where it was then."""
    return row.who.label if row.who.path == row.path else row.who.label.removesuffix(row.who.path) + row.path


def slot_lines(log: DecisionLog) -> list[str]:
    """Return how the slots ended, and what the queues were charged."""
    lines = ["", "  Slots, by queue: how they ended; slow ones were charged for time (sectors on top of those served)"]
    rows, left = busiest(merged_rows(log.seconds))
    used = [at for at in range(len(REASON_NAMES)) if any(row.expired[at] for row in rows)]
    head = "".join(f"{REASON_NAMES[at]:>18}" for at in used)
    tail = f"{'slow':>6} {'served':>9} {'charged':>9} {'inject_limit':>12} {'max wait':>9}"
    lines.append(f"    {'queue':28}{head} {tail}")
    for row in rows:
        ends = "".join(f"{row.expired[at]:18}" for at in used)
        lines.append(
            f"    {label_of(row):28}{ends} {row.slow:6} {row.sectors:9} {row.charged:9} {row.limit_max:12} "
            f"{ms(row.who.longest_wait_ns):>9}"
        )
    return lines + left


def event_lines(log: DecisionLog) -> list[str]:
    """Return the first rare events, and how long each group was counted."""
    lines = []
    if log.group_ns:
        span = max(1, log.ended_ns - log.began_ns)
        parts = [f"{path} {percent(ns / span)}" for path, ns in sorted(log.group_ns.items())]
        lines += ["", f"  Groups counted as pending ({log.group_changes} changes), of the run: {', '.join(parts)}"]
    if log.events:
        lines += ["", "  Merges, splits, moves, wakers, weights, weight raising"]
        for event in log.events[:MAX_EVENTS_SHOWN]:
            lines.append(f"    {event.at_ns / NSEC_PER_SEC:9.3f} s  {event.kind:8} {event.who}: {event.text}")
        rest = len(log.events) - MAX_EVENTS_SHOWN + log.dropped
        if rest > 0:
            lines.append(f"    and {rest} more")
    return lines


def ms(ns: int) -> str:
    """Return a time in ms."""
    return f"{ns / NSEC_PER_MSEC:.0f} ms" if ns else "-"


# -- adding up


def busiest(rows: list[Row]) -> tuple[list[Row], list[str]]:
    """Return the rows with most requests, and a line about the others if there are any."""
    if len(rows) <= MAX_ROWS:
        return rows, []
    least = sorted((row.requests for row in rows), reverse=True)[MAX_ROWS - 1]
    shown = [row for row in rows if row.requests >= least][:MAX_ROWS]
    return shown, [f"    and {len(rows) - len(shown)} queues with no more requests than these"]


def width_of(log: DecisionLog) -> int:
    """Return how many seconds an interval of the text has."""
    span = log.seconds[-1].number - log.seconds[0].number + 1 if log.seconds else 1
    for width in WIDTHS_S:
        if span <= width * MAX_INTERVALS:
            return width
    return span


def grouped(seconds: list[Second], width: int) -> list[tuple[int, list[Second]]]:
    """Return the seconds by interval, with its first second."""
    out: dict[int, list[Second]] = {}
    for second in seconds:
        out.setdefault(second.number // width * width, []).append(second)
    return list(out.items())


def merged_rows(seconds: list[Second]) -> list[Row]:
    """Return the rows of several seconds added up, the oldest queue first."""
    rows: dict[tuple[int, str], Row] = {}
    for second in seconds:
        for key, row in second.rows.items():
            rows.setdefault(key, Row(row.who, row.path)).add(row)
    return [rows[key] for key in sorted(rows)]


def weight_of(decision: Decision) -> int:
    """Return how much a decision matters: what it cost, else how often it was made."""
    return decision.cost_ns * 1000 + decision.held + decision.timers + decision.refused


# -- data


def document(log: DecisionLog, summary: list[str]) -> Json:
    """Return one device's explanation as JSON data; times in ms."""
    totals = Totals(log)
    return {
        "summary": list(summary),
        "from_ms": millis(log.began_ns),
        "until_ms": millis(log.ended_ns),
        "requests": totals.requests,
        "injected": totals.injected,
        "idle_ms": millis(totals.idle_ns),
        "decisions": [decision_data(rule, one) for rule, one in sorted(totals.decisions.items())],
        "queues": [who_data(who) for who in log.whos.values()],
        "groups": [{"cgroup": path, "counted_ms": millis(ns)} for path, ns in sorted(log.group_ns.items())],
        "events": [
            {"at_ms": millis(event.at_ns), "kind": event.kind, "queue": event.who, "text": event.text}
            for event in log.events
        ],
        "events_left_out": log.dropped,
        "seconds": [second_data(second) for second in log.seconds],
    }


def second_data(second: Second) -> Json:
    """Return one second."""
    return {
        "second": second.number,
        "span_ms": millis(second.span_ns),
        "idle_ms": millis(second.idle_ns),
        "in_flight": round(second.depth_ns / second.span_ns, 3),
        "num_groups_with_pending_reqs_ms": {str(value): millis(ns) for value, ns in sorted(second.groups.items())},
        "queues": [row_data(second.rows[key]) for key in sorted(second.rows)],
    }


def row_data(row: Row) -> Json:
    """Return one queue in one second."""
    return {
        "queue": label_of(row),
        "requests": row.requests,
        "sectors": row.sectors,
        "injected": row.injected,
        "slots": row.slots,
        "service_ms": millis(row.service_ns),
        "expired": {name: count for name, count in zip(REASON_NAMES, row.expired, strict=True) if count},
        "slow": row.slow,
        "charged_sectors": row.charged,
        "gave": {name: count for name, count in zip(WHY_NAMES, row.gave, strict=True) if count},
        "inject_limit_max": row.limit_max,
        "decisions": [decision_data(rule, decision) for rule, decision in sorted(row.decisions.items())],
    }


def decision_data(rule: int, decision: Decision) -> Json:
    """Return one rule's verdicts."""
    facts = commonest(decision)
    return {
        "rule": RULE_NAMES[rule],
        "idles": rule in IDLES,
        "held": decision.held,
        "timers": decision.timers,
        "refused": decision.refused,
        "idle_ms": millis(decision.idle_ns),
        "idle_while_others_wait_ms": millis(decision.lost_ns),
        "kept_while_others_wait_ms": millis(decision.kept_ns),
        "counters": None if facts is None else facts_data(facts),
    }


def facts_data(facts: Facts) -> Json:
    """Return the counters that were seen most often."""
    return {
        "num_groups_with_pending_reqs": facts.num_groups,
        "threshold": facts.threshold,
        "weights": [list(pair) for pair in facts.weights],
        "busy_queues": list(facts.busy),
        "tot_busy_queues": facts.tot_busy,
        "wr_busy_queues": facts.wr_busy,
        "wr_coeff": facts.wr_coeff,
        "slice_idle_us": facts.slice_idle_us,
        "process_refs": facts.process_refs,
    }


def who_data(who: Who) -> Json:
    """Return one queue's life."""
    return {
        "queue": who.label,
        "jobs": list(who.jobs),
        "cgroup": who.path,
        "sync": who.is_sync,
        "requests": who.requests,
        "injected": who.injected,
        "sectors": who.sectors,
        "raised_ms": millis(who.raised_ns),
        "longest_wait_ms": millis(who.longest_wait_ns),
    }


def millis(ns: int) -> float:
    """Return a time in ms."""
    return round(ns / NSEC_PER_MSEC, 3)
