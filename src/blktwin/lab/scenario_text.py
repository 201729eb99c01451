"""A scenario's results to be read: one table, what others have reported, and the caveats; and the same as JSON."""

from __future__ import annotations

import json
import textwrap

import blktwin
from blktwin.lab.scenario import Comparison, Expected, Outcome, Scenario
from blktwin.lab.scenario_expect import METRICS, TIMES

WIDTH = 110
ERRORS_MAX = 3
WORDS = {
    "Q2G": "waiting for a tag",
    "G2I": "on the way to the scheduler",
    "I2D": "waiting in the scheduler",
    "G2D": "waiting in a plug or queue",
    "D2W": "on the way to a worker",
    "W2X": "waiting for a worker to run",
    "X2Q'": "work of the file below",
    "Q'2C'": "the device below",
    "C'2C": "on the way back",
    "X2C": "in the file, without I/O below",
    "D2C": "the device",
}
SAME = "no significant difference"
SHOWN = ("lat", "lat-p50", "lat-p99", "d2c", "d2c-p99")
Json = dict[str, object]


def render_text(scenario: Scenario) -> str:
    """Return everything to be read."""
    lines = head_lines(scenario) + table_lines(scenario) + expected_lines(scenario)
    for outcome in scenario.outcomes:
        if outcome.stopped:
            lines += ["", *wrap(f"{name_of(outcome)} was stopped: {outcome.stopped}")]
        lines += [f"{name_of(outcome)}: {error}" for error in outcome.errors[:ERRORS_MAX]]
        if len(outcome.errors) > ERRORS_MAX:
            lines.append(f"{name_of(outcome)}: and {len(outcome.errors) - ERRORS_MAX} jobs more ended in errors")
    caveats = scenario.outcomes[0].said.caveats
    if caveats:
        lines += ["", "Caveats:"]
        for caveat in caveats:
            lines += textwrap.wrap(caveat, WIDTH, initial_indent="  - ", subsequent_indent="    ")
    if scenario.is_partial:
        lines += ["", "Interrupted: the figures are those of the runs that had ended."]
    return "\n".join(lines) + "\n"


def wrap(text: str) -> list[str]:
    """Return text in lines."""
    return textwrap.wrap(text, WIDTH)


def name_of(outcome: Outcome) -> str:
    """Return a variant's name; a file without variants has one."""
    return outcome.said.variant or "(the file)"


def head_lines(scenario: Scenario) -> list[str]:
    """Return the title, and what was run."""
    said = scenario.outcomes[0].said
    seeds = scenario.seeds
    text = f"seed {seeds[0]}" if len(seeds) == 1 else f"means over seeds {seeds[0]} to {seeds[-1]}"
    runtime = scenario.runtime or said.runtime
    line = f"{scenario.source.toml.file}: {', '.join(said.jobs)}; {text}" + (f"; {runtime} each" if runtime else "")
    return [*wrap(said.title or "Scenario"), line, ""]


def table_lines(scenario: Scenario) -> list[str]:
    """Return the table of all variants."""
    width = max(len(name_of(outcome)) for outcome in scenario.outcomes)
    devices = {one.device for outcome in scenario.outcomes for one in outcome.measures if one.device}
    where = f"D2C of {devices.pop()}" if len(devices) == 1 else "D2C"
    blank = " " * width
    tail = "  against " + name_of(scenario.outcomes[0]) if len(scenario.outcomes) > 1 else ""
    lines = [
        f"{blank}{'':9}{'MiB/s':>16}{'latency of an I/O':>27} {where:>19}",
        f"{blank}{'IOPS':>9}{'read':>8}{'write':>8}{'mean':>9}{'p50':>9}{'p99':>9}{'mean':>10}{'p99':>10}"
        f"  most of Q2C{tail}",
    ]
    for outcome in scenario.outcomes:
        lines.append(row(scenario, outcome, width))
    used = {outcome.dominant()[0] for outcome in scenario.outcomes} - {""}
    words = [f"{stage} is {WORDS[stage]}" for stage in WORDS if stage in used]
    if words:
        lines += ["", *wrap("; ".join(words) + ". I2C (mail) = D2C (btt).")]
    return lines


def row(scenario: Scenario, outcome: Outcome, width: int) -> str:
    """Return one variant's row."""
    name = f"{name_of(outcome):{width}}"
    if not outcome.measures:
        return f"{name}   {'stopped' if outcome.stopped else 'has not run'}"
    cells = f"{number(outcome.mean('iops'), 0):>9}"
    cells += "".join(f"{number(outcome.mean(metric), 1):>8}" for metric in ("read-mib-s", "write-mib-s"))
    for metric in SHOWN:
        cells += f"{time_text(outcome.mean(metric)):>{10 if metric.startswith('d2c') else 9}}"
    stage, share = outcome.dominant()
    cells += f"  {stage:6} {share:3.0f}%" if stage else " " * 12
    first = scenario.outcomes[0]
    return f"{name}{cells}" + (f"  {difference(scenario, outcome)}" if outcome is not first else "")


def difference(scenario: Scenario, outcome: Outcome) -> str:
    """Say how a variant compares with the first one."""
    rates, times = scenario.against_first(outcome, "iops"), scenario.against_first(outcome, "lat")
    if rates is None or times is None:
        return ""
    if not rates.is_significant and not times.is_significant:
        return SAME
    return f"IOPS {times_text(rates)}, latency {times_text(times)}"


def times_text(comparison: Comparison) -> str:
    """Return a ratio."""
    return f"x{comparison.ratio:.2f}" if comparison.is_significant else "the same"


def number(value: float | None, digits: int) -> str:
    """Return a number, "-" for none."""
    return "-" if value is None else f"{value:.{digits}f}"


def time_text(ns: float | None) -> str:
    """Return a time with its unit, in three digits or four."""
    if ns is None:
        return "-"
    value, unit = (ns / 1000, "us") if ns < 999_500 else (ns / 1e6, "ms")
    if ns >= 9_999_500_000:
        value, unit = ns / 1e9, "s"
    digits = 2 if value < 99.95 else 1 if value < 999.5 else 0
    return f"{value:.{digits}f}{unit}"


def figure(metric: str, value: float | None) -> str:
    """Return a figure in its unit."""
    if metric in TIMES:
        return time_text(value)
    return number(value, 2 if metric == "ratio" else 0 if metric == "iops" else 1)


def expected_lines(scenario: Scenario) -> list[str]:
    """Return what others have reported, beside ours."""
    found = [(outcome, row) for outcome in scenario.outcomes for row in scenario.expected(outcome)]
    if not found:
        return []
    width = max(len(name_of(outcome)) for outcome, _ in found)
    lines = ["", f"{'Reported':{width}}{'':13}{'reported':>12}{'here':>12}{'deviation':>12}"]
    for outcome, row in found:
        deviation = "-" if row.deviation is None else f"{row.deviation:+.1f}%"
        text = f"{name_of(outcome):{width}} {row.metric:12}{figure(row.metric, row.reported):>12}"
        text += f"{figure(row.metric, row.ours):>12}{deviation:>12}"
        if row.is_missed:
            text += f"  beyond {row.within:g}%"
        lines.append(text + (f"  {row.source}" if row.source else ""))
    return lines


# -- JSON


def render_json(scenario: Scenario) -> str:
    """Return everything as JSON; times in ns."""
    said = scenario.outcomes[0].said
    document: Json = {
        "blktwin version": blktwin.__version__,
        "scenario": {
            "file": scenario.source.toml.file,
            "title": said.title,
            "jobs": said.jobs,
            "seeds": scenario.seeds,
            "runtime": scenario.runtime or said.runtime,
            "variants": [outcome_data(scenario, outcome) for outcome in scenario.outcomes],
            "caveats": said.caveats,
            "partial": scenario.is_partial,
        },
    }
    return json.dumps(document, indent=2) + "\n"


def outcome_data(scenario: Scenario, outcome: Outcome) -> Json:
    """Return one variant."""
    stage, share = outcome.dominant()
    figures = {metric: outcome.values(metric) for metric in METRICS if outcome.values(metric)}
    data: Json = {
        "variant": outcome.said.variant,
        "figures": {
            metric: {"mean": sum(values) / len(values), "by_seed": values} for metric, values in figures.items()
        },
        "device": outcome.measures[0].device if outcome.measures else "",
        "dominant_stage": {"stage": stage, "percent_of_q2c": round(share, 3)} if stage else None,
        "against_first": {metric: comparison_data(scenario.against_first(outcome, metric)) for metric in figures},
        "expect": [expected_data(row) for row in scenario.expected(outcome)],
        "notes": outcome.notes,
        "errors": outcome.errors,
    }
    if outcome.stopped:
        data["stopped"] = outcome.stopped
    return data


def comparison_data(comparison: Comparison | None) -> Json | None:
    """Return a comparison."""
    if comparison is None:
        return None
    return {"ratio": round(comparison.ratio, 6), "significant": comparison.is_significant}


def expected_data(row: Expected) -> Json:
    """Return a reported figure beside ours."""
    return {
        "metric": row.metric,
        "reported": row.reported,
        "here": row.ours,
        "deviation_percent": None if row.deviation is None else round(row.deviation, 3),
        "within_percent": row.within,
        "missed": row.is_missed,
        "source": row.source,
    }
