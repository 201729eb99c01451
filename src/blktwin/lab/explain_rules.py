"""BFQ's reasons in words, with the counters that they looked at."""

from __future__ import annotations

from blktwin.block.bfq.data import BfqData
from blktwin.block.bfq.log import (
    IDLE_BOOSTS,
    IDLE_CLASSES,
    IDLE_GROUPS,
    IDLE_NOT,
    IDLE_ONLY,
    IDLE_RAISED,
    IDLE_STRICT,
    IDLE_WEIGHTS,
    NOT_ASYNC,
    NOT_GONE,
    NOT_OFF,
)
from blktwin.block.bfq.queue import BfqQueue
from blktwin.block.bfq.raising import MAX_SERVICE_FROM_WR, WR_COEFF
from blktwin.block.jiffies import jiffies_to_msecs
from blktwin.block.rules import BFQ_GROUPS_ACTIVATED, BFQ_GROUPS_PENDING, BFQ_GROUPS_SERIES
from blktwin.lab.explain_data import Facts

IDLES = (IDLE_STRICT, IDLE_BOOSTS, IDLE_RAISED, IDLE_WEIGHTS, IDLE_CLASSES, IDLE_GROUPS, IDLE_ONLY)
"""The rules that make BFQ idle; the others say why it does not."""
ASYMMETRIC = "bfq_asymmetric_scenario"
RULE_NAMES: dict[int, str] = {
    IDLE_NOT: "no reason to idle",
    IDLE_STRICT: "strict_guarantees",
    IDLE_BOOSTS: "idling_boosts_thr_without_issues",
    IDLE_RAISED: "weight-raised",
    IDLE_WEIGHTS: f"{ASYMMETRIC}: weights",
    IDLE_CLASSES: f"{ASYMMETRIC}: classes",
    IDLE_GROUPS: f"{ASYMMETRIC}: num_groups_with_pending_reqs",
    IDLE_ONLY: "the only busy queue",
    NOT_OFF: "slice_idle = 0",
    NOT_ASYNC: "async or idle class",
    NOT_GONE: "no process",
}
GROUPS_RULES: dict[int, str] = {
    BFQ_GROUPS_ACTIVATED: "counts every cgroup with I/O in or below it, but not the root, and one is enough",
    BFQ_GROUPS_PENDING: "counts cgroups whose own processes have requests, the root too, and it takes two",
    BFQ_GROUPS_SERIES: "counts cgroups with active processes of their own, the root too, and it takes two",
}


def counters_text(rule: int, facts: Facts, is_short: bool = False) -> str:
    """Return what the rule saw, in the kernel's names; is_short: for tables."""
    sign = ">" if facts.num_groups > facts.threshold else "<="
    groups = f"num_groups_with_pending_reqs = {facts.num_groups} {sign} {facts.threshold}"
    weights = weights_text(facts)
    if rule == IDLE_NOT and is_short:
        return f"groups {facts.num_groups} {sign} {facts.threshold}, {weights}, {classes_text(facts)}"
    texts: dict[int, str] = {
        IDLE_STRICT: "strict_guarantees = 1",
        IDLE_BOOSTS: f"it makes this device faster ({facts.habits}, wr_busy_queues = 0)",
        IDLE_RAISED: (
            f"the queue is weight-raised (wr_coeff = {facts.wr_coeff}), and not all are: wr_busy_queues = "
            f"{facts.wr_busy}, tot_busy_queues = {facts.tot_busy}"
        ),
        IDLE_WEIGHTS: f"pending queues differ in weight ({weights}), and this one's is not the smallest",
        IDLE_CLASSES: f"queues of several classes are busy ({classes_text(facts)})",
        IDLE_GROUPS: groups,
        IDLE_ONLY: "no other queue is busy (tot_busy_queues = 1)",
        NOT_OFF: "slice_idle = 0",
        NOT_ASYNC: "it is async, or of the idle class",
        NOT_GONE: f"no process uses the queue any more (process_refs = {facts.process_refs})",
        IDLE_NOT: f"{groups}, {weights}, {classes_text(facts)}, tot_busy_queues = {facts.tot_busy}",
    }
    if rule == IDLE_RAISED and facts.wr_busy >= facts.tot_busy:
        return (
            f"the queue is weight-raised (wr_coeff = {facts.wr_coeff}), and the driver has 4 or more requests of others"
        )
    return texts[rule]


def weights_text(facts: Facts) -> str:
    """Return the weights tree as text; raised queues are not in it."""
    if not facts.weights:
        return "no weights counted"
    inside = ", ".join(f"{weight} x{count}" for weight, count in facts.weights)
    return f"weight {inside}" if len(facts.weights) == 1 else f"weights {inside}"


def classes_text(facts: Facts) -> str:
    """Return the busy queues by class as text."""
    names = ("real time", "best effort", "idle class")
    parts = [f"{count} {name}" for count, name in zip(facts.busy, names, strict=True) if count]
    return "busy: " + (", ".join(parts) or "none")


def why_raised(bfqd: BfqData, bfqq: BfqQueue, before: int) -> str:
    """Return why the coefficient has just changed from `before`; called while the old times still stand."""
    coeff = int(bfqq.wr_coeff)
    period_ms = jiffies_to_msecs(int(bfqq.wr_cur_max_jif), int(bfqd.hz))
    if coeff == WR_COEFF:
        if before > coeff:
            return "soft real-time no more, its interactive period goes on"
        if not bfqq.is_sync:
            return "its async requests come rarely"
        return f"taken for interactive (new, or without I/O for 2 s), for {period_ms} ms"
    if coeff > 1:
        return "taken for soft real-time (little I/O at intervals)"
    if bfqq.in_large_burst:
        return "one of a large burst of new queues"
    if bfqq.last_wr_start_finish_jif + bfqq.wr_cur_max_jif < bfqd.jif():
        return f"its time is over ({period_ms} ms)"
    if not bfqd.low_latency:
        return "low_latency is off"
    if bfqq.wr_cur_max_jif == bfqd.wr_rt_max_jif:
        return "soft real-time no more, it seeks"
    if bfqq.service_from_wr > MAX_SERVICE_FROM_WR:
        return f"it has had more than {MAX_SERVICE_FROM_WR} sectors"
    return "its state from before it shared a queue"
