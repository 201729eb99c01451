"""Instructions per simulated I/O, counted by callgrind: the speed gate that a busy machine cannot disturb.

Each case runs for two lengths; the difference of the counts over the difference of the I/Os leaves out start-up.
Compares with instructions.json and exits 1 when a case needs 5 % more than recorded; --record rewrites the file.
Another Python, compiler or mypyc gives other counts: then the bound is 25 %, and the output says so.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import re
import shutil
import subprocess
import sys
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path

from benchmarks.product import ROOT, run_apart
from blktwin.buildinfo import describe, is_compiled

RECORD = Path(__file__).with_name("instructions.json")
LENGTHS_MS: Mapping[str, tuple[int, int]] = {
    "none": (300, 800),
    "mq-deadline": (300, 800),
    "bfq": (300, 800),
    "bfq-serial": (300, 800),
    "libaio": (80, 200),
    "null-engine": (20, 40),
    "loop-workqueue": (300, 800),
    "loop-nowait": (300, 800),
}
"""Per case of product.CASES: both beyond the first touch of the random maps."""
TOLERANCE = 0.05
OTHER_TOOLS_TOLERANCE = 0.25
COLLECTED = re.compile(r"Collected : (\d+)")


class GateError(Exception):
    """The gate cannot run here; the text says why."""


@dataclass(frozen=True, slots=True)
class Recorded:
    """What a release needed, and what it was built with."""

    release: str
    tools: dict[str, str]
    per_io: dict[str, float]


def count(name: str, runtime_ms: int) -> tuple[int, int]:
    """Run one case under callgrind; return (instructions, I/Os)."""
    command = ["valgrind", "--tool=callgrind", "--callgrind-out-file=/dev/null", sys.executable]
    command += ["-m", "benchmarks.product", name, str(runtime_ms)]
    env = {**os.environ, "PYTHONHASHSEED": "0"}
    done = subprocess.run(command, cwd=ROOT, env=env, capture_output=True, text=True)
    found = COLLECTED.search(done.stderr)
    if done.returncode != 0 or found is None:
        raise GateError(f"callgrind failed on {name}: {done.stderr.strip()[-400:]}")
    return int(found[1]), int(json.loads(done.stdout)["ios"])


def per_io(name: str) -> float:
    """Return the instructions that one more simulated I/O needs."""
    short_ms, long_ms = LENGTHS_MS[name]
    instructions, ios = count(name, short_ms)
    more_instructions, more_ios = count(name, long_ms)
    return round((more_instructions - instructions) / (more_ios - ios), 1)


def measure() -> dict[str, float]:
    """Count every case; two at a time, since counts do not depend on load."""
    if not is_compiled():
        raise GateError("blktwin is interpreted here: the gate counts the compiled build")
    if shutil.which("valgrind") is None:
        raise GateError("valgrind is not installed: apt-get install valgrind")
    # Writes the .pyc files, which would else be made within the first count.
    run_apart("none", 10)
    with ThreadPoolExecutor(2) as pool:
        return dict(zip(LENGTHS_MS, pool.map(per_io, LENGTHS_MS), strict=True))


def tools() -> dict[str, str]:
    """Name what decides the counts apart from our source."""
    compiler = subprocess.run(["cc", "-dumpversion"], capture_output=True, text=True) if shutil.which("cc") else None
    return {
        "python": platform.python_version(),
        "machine": platform.machine(),
        "compiler": compiler.stdout.strip() if compiler else "none",
        "mypy": version("mypy"),
    }


def load(path: Path) -> Recorded:
    """Read the record."""
    if not path.exists():
        raise GateError(f"{path.name} does not exist: --record writes it")
    return Recorded(**json.loads(path.read_text()))


def save(path: Path, per_io_now: Mapping[str, float]) -> None:
    """Write the record."""
    data = {"release": describe().split()[1], "tools": tools(), "per_io": dict(per_io_now)}
    path.write_text(json.dumps(data, indent=2) + "\n")


def compare(recorded: Recorded, per_io_now: Mapping[str, float], tools_now: Mapping[str, str]) -> tuple[str, bool]:
    """Return the table of recorded and present counts, and whether all are within the bound."""
    before_and_now = [(key, recorded.tools.get(key), value) for key, value in tools_now.items()]
    other = [f"{key} {before} -> {value}" for key, before, value in before_and_now if before != value]
    tolerance = OTHER_TOOLS_TOLERANCE if other else TOLERANCE
    lines = [f"{'case':14}{'recorded':>10}{'now':>10}{'change':>9}"]
    is_fine = True
    for name in sorted({*recorded.per_io, *per_io_now}):
        before, now = recorded.per_io.get(name), per_io_now.get(name)
        if before is None or now is None:
            lines.append(f"{name:14} is {'not recorded' if before is None else 'recorded but not measured'}: --record")
            is_fine = False
            continue
        change = now / before - 1
        verdict = ""
        if change > tolerance:
            verdict = f"  more than {tolerance:.0%} above the record"
            is_fine = False
        elif change < -tolerance:
            verdict = "  better: --record keeps it"
        lines.append(f"{name:14}{before:10.1f}{now:10.1f}{change:+9.1%}{verdict}")
    if other:
        lines.append(f"built with other tools than the record ({'; '.join(other)}): the bound is {tolerance:.0%}")
    return "\n".join(lines) + "\n", is_fine


def main() -> int:
    """Measure, then compare or record."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.instructions", description=__doc__)
    parser.add_argument("--record", action="store_true", help="make the present counts the record")
    options = parser.parse_args()
    try:
        per_io_now = measure()
        if options.record:
            save(RECORD, per_io_now)
        text, is_fine = compare(load(RECORD), per_io_now, tools())
    except GateError as error:
        print(f"bench-instructions: {error}", file=sys.stderr)
        return 1
    print(f"instructions per simulated I/O ({describe()})")
    sys.stdout.write(text)
    return 0 if is_fine else 1


if __name__ == "__main__":
    raise SystemExit(main())
