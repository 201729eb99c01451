"""`--stages`: where the time of every device's I/Os goes, in btt's stages, and inside D2C of a loop device.

stages = Stages()
simulate(plan, stack, stages=stages)
print(stages.text())
"""

from __future__ import annotations

from blktwin.errors import BlktwinError
from blktwin.fio.hist import LatencyStat
from blktwin.sim.costs import Costs
from blktwin.sim.stage_device import (
    D2C,
    DIRECTION_NAMES,
    FLUSH,
    G2D,
    G2I,
    I2D,
    LOOP_STAGES,
    M2D,
    Q2C,
    Q2G,
    Q2M,
    Q2Q,
    STAGE_NAMES,
    DeviceStages,
)
from blktwin.sim.stage_watch import WatchTrace
from blktwin.sim.stages import StageTrace

PERCENTILES = (50.0, 90.0, 99.0, 99.9)
ORDER = (Q2Q, Q2G, Q2M, G2I, I2D, M2D, G2D, D2C, *LOOP_STAGES, Q2C)
NAMING = "I2C in the Android mail is D2C here (btt)"
SAME = "I2C (mail) = D2C (btt)"
ADDING = "D2C = D2W + W2X + X2Q' + Q'2C' + C'2C, or D2W + W2X + X2C without I/O below: exactly, in each request"
Json = dict[str, object]


class Stages:
    """The stages of one run; simulate() fills it."""

    def __init__(self) -> None:
        self.trace: StageTrace | None = None

    def make_trace(self, costs: Costs, watches_loops: bool = False) -> StageTrace:
        """Return the trace that keeps them, for the machine; it may keep more of loop devices (--explain loop)."""
        self.trace = WatchTrace(costs) if watches_loops else StageTrace(costs)
        return self.trace

    def finish(self) -> None:
        """Close the books at the end of the run."""
        self.running().finish()

    def running(self) -> StageTrace:
        """Return the trace."""
        if self.trace is None:
            raise BlktwinError("nothing has run with these stages")
        return self.trace

    def devices(self) -> dict[str, DeviceStages]:
        """Return what is kept of each device, by its path; those without I/O are not there."""
        return {f"/dev/{device.q.name}": device for device in self.running().devices}

    def stat(self, path: str, stage: str, direction: str = "") -> LatencyStat:
        """Return a stage ("D2C") of a device ("/dev/loop0"), of all directions or one; empty if there was none."""
        device = self.devices().get(path)
        if device is None:
            return LatencyStat()
        number = STAGE_NAMES.index(stage)
        if not direction:
            return device.total(number)
        return device.stat(number, DIRECTION_NAMES.index(direction)) or LatencyStat()

    def document(self) -> Json:
        """Return all of it for JSON, by device."""
        return {"naming": NAMING, **{path: document(device) for path, device in self.devices().items()}}

    def text(self) -> str:
        """Return all of it to be read."""
        devices = self.devices()
        naming = f"\n{NAMING}\n" if any(device.is_loop for device in devices.values()) else ""
        return naming + "".join(render(path, device) for path, device in devices.items())


# -- numbers


def rows_of(device: DeviceStages, direction: str) -> dict[str, LatencyStat]:
    """Return the stages of a direction, or of "total", that have samples, in the order of an I/O's way."""
    rows: dict[str, LatencyStat] = {}
    for stage in ORDER:
        if direction == "total":
            stat: LatencyStat | None = device.total(stage)
        else:
            # Any two arrivals follow each other, whatever they want.
            stat = None if stage == Q2Q else device.stat(stage, DIRECTION_NAMES.index(direction))
        if stat is not None and stat.count:
            rows[STAGE_NAMES[stage]] = stat
    return rows


def directions_of(device: DeviceStages) -> list[str]:
    """Return the directions that the device has seen."""
    return [name for at, name in enumerate(DIRECTION_NAMES) if device.stat(D2C, at) or device.stat(Q2C, at)]


def percentiles_of(stat: LatencyStat) -> list[int]:
    """Return the percentiles (ns) of a stage with samples: fio's bins, within what was seen."""
    return [min(max(value, int(stat.low)), int(stat.high)) for value in stat.percentiles(list(PERCENTILES))]


def share_of(rows: dict[str, LatencyStat], name: str) -> float | None:
    """Return a stage's part of all the time from Q to C, in percent; None where it is no part of it."""
    whole = rows.get("Q2C")
    if whole is None or name == "Q2Q" or not whole.total:
        return None
    return 100.0 * int(rows[name].total) / int(whole.total)


def mean_depth(device: DeviceStages) -> float:
    """Return how many requests were with the driver on average, from the first arrival to the last completion."""
    span = int(device.last_ns) - int(device.first_ns)
    return int(device.in_flight_ns) / span if span > 0 else 0.0


def mean_waiting(device: DeviceStages) -> float:
    """Return how many waited on average when another one came."""
    return int(device.waiting_seen) / int(device.nr_queued) if device.nr_queued else 0.0


def document(device: DeviceStages) -> Json:
    """Return one device's stages for JSON; times in ns."""
    out: Json = {"is_loop": bool(device.is_loop)}
    if device.is_loop:
        out["i2c_zh"] = SAME
    for direction in ["total", *directions_of(device)]:
        rows = rows_of(device, direction)
        out[direction] = {name: stat_data(rows, name) for name in rows}
    sectors = device.sectors
    out["requests"] = {
        "queued": int(device.nr_queued),
        "issued": int(device.nr_issued),
        "sectors_min": int(sectors.low) if sectors.count else 0,
        "sectors_mean": sectors.mean(),
        "sectors_max": int(sectors.high),
        "sectors": int(sectors.total - device.sectors_returned),
        "merged_bios": int(device.nr_merged_bios),
        "merged_requests": int(device.nr_merged_requests),
        "splits": int(device.nr_splits),
        "requeued": int(device.nr_requeued),
        "partial_completions": int(device.nr_parts),
        "waiting_mean": round(mean_waiting(device), 3),
        "in_flight_mean": round(mean_depth(device), 3),
        "in_flight_max": int(device.in_flight_max),
        "out_of_order": int(device.nr_early),
    }
    return out


def stat_data(rows: dict[str, LatencyStat], name: str) -> Json:
    """Return one stage."""
    stat = rows[name]
    out: Json = {
        "count": int(stat.count),
        "mean_ns": round(stat.mean(), 3),
        "min_ns": int(stat.low),
        "max_ns": int(stat.high),
    }
    for percent, value in zip(PERCENTILES, percentiles_of(stat), strict=True):
        out[f"p{percent:g}_ns"] = value
    share = share_of(rows, name)
    if share is not None:
        out["q2c_percent"] = round(share, 3)
    return out


# -- text


def render(path: str, device: DeviceStages) -> str:
    """Return one device's stages as text."""
    lines = ["", f"Stages, {path} (us)"]
    directions = directions_of(device)
    counted = [name for name in directions if name != DIRECTION_NAMES[FLUSH]]
    shown = [*counted, *directions[len(counted) :]] if len(counted) == 1 else ["total", *directions]
    for direction in shown:
        lines += table(direction, rows_of(device, "total" if [direction] == counted else direction))
    if device.is_loop:
        lines += [f"  {SAME}", f"  {ADDING}"]
    lines += count_lines(device)
    return "\n".join(lines) + "\n"


def table(title: str, rows: dict[str, LatencyStat]) -> list[str]:
    """Return the table of one direction."""
    heads = ["count", "mean", "min", "p50", "p90", "p99", "p99.9", "max"]
    lines = [f"  {title:9}" + "".join(f"{head:>11}" for head in heads) + "   of Q2C"]
    inside = {STAGE_NAMES[stage] for stage in LOOP_STAGES}
    for name, stat in rows.items():
        label = f"  {name}" if name in inside else name
        values = [stat.mean(), int(stat.low), *percentiles_of(stat), int(stat.high)]
        share = share_of(rows, name)
        cells = "".join(f"{us(value):>11}" for value in values)
        tail = "" if share is None else f"{share:8.1f}%"
        lines.append(f"    {label:7}{int(stat.count):11}{cells}{tail}")
    return lines


def us(ns: float) -> str:
    """Write a time in us: three decimals as far as they mean anything."""
    value = ns / 1000
    return f"{value:.3f}" if value < 1000 else f"{value:.1f}"


def count_lines(device: DeviceStages) -> list[str]:
    """Return what btt says of queue depth and merges."""
    sectors = device.sectors
    lines = []
    if device.nr_issued:
        low, high = int(sectors.low), int(sectors.high)
        ratio = int(device.nr_queued) / int(device.nr_issued)
        lines.append(
            f"  #Q {device.nr_queued}, #D {device.nr_issued}, ratio {ratio:.2f}; sectors per request: "
            f"min {low}, avg {sectors.mean():.1f}, max {high}, total {sectors.total - device.sectors_returned}"
        )
    counts = {
        "bios merged": device.nr_merged_bios,
        "requests merged": device.nr_merged_requests,
        "bios split": device.nr_splits,
        "requeued": device.nr_requeued,
        "completed in parts": device.nr_parts,
    }
    told = [f"{what} {int(count)}" for what, count in counts.items() if count or what == "bios merged"]
    lines.append("  " + ", ".join(told))
    lines.append(
        f"  waiting when another one comes: {mean_waiting(device):.1f} on average; with the driver: "
        f"{mean_depth(device):.1f} on average, {int(device.in_flight_max)} at most"
    )
    return lines
