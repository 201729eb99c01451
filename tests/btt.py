"""Real btt as an oracle: tracepoints recorded as they pass, written as blktrace's binary, and btt's tables read."""

from __future__ import annotations

import struct
import subprocess
from pathlib import Path

from blktwin.block.bio import REQ_OP_READ, Bio
from blktwin.block.request import Request
from blktwin.sim.costs import Costs
from blktwin.sim.stages import StageTrace

MAGIC = 0x65617400 | 7
DEVICE = 259 << 20
NOTIFY_PROCESS = 1 << 26
# letter -> blktrace's action and category
ACTIONS = {
    "Q": (1, 1 << 4),
    "M": (2, 1 << 4),
    "F": (3, 1 << 4),
    "G": (4, 1 << 4),
    "R": (6, 1 << 5),
    "D": (7, 1 << 6),
    "C": (8, 1 << 7),
    "I": (12, 1 << 4),
}
READ, WRITE = 1, 2
ROW = struct.Struct("<IIQQIIIIIHH")
Row = tuple[int, str, int, int, int]
"""Time in ns, letter, first sector, sectors, READ or WRITE."""


class BttTrace(StageTrace):
    """Keeps the stages, and besides a row of each tracepoint that blktrace has."""

    def __init__(self, costs: Costs) -> None:
        super().__init__(costs)
        self.rows: list[Row] = []

    def row(self, letter: str, at: Bio | Request, nr_sectors: int) -> None:
        """Keep a row."""
        way = READ if at.op == REQ_OP_READ else WRITE
        self.rows.append((int(self.machine.local_ns), letter, int(at.sector), nr_sectors, way))

    def bio_queue(self, bio: Bio) -> None:
        """Q."""
        super().bio_queue(bio)
        self.row("Q", bio, int(bio.nr_sectors))

    def getrq(self, bio: Bio) -> None:
        """G."""
        super().getrq(bio)
        self.row("G", bio, int(bio.nr_sectors))

    def bio_backmerge(self, bio: Bio, rq: Request) -> None:
        """M."""
        super().bio_backmerge(bio, rq)
        self.row("M", bio, int(bio.nr_sectors))

    def rq_merge(self, rq: Request) -> None:
        """M, of a whole request."""
        super().rq_merge(rq)
        self.row("M", rq, int(rq.nr_sectors))

    def rq_insert(self, rq: Request) -> None:
        """I."""
        super().rq_insert(rq)
        self.row("I", rq, int(rq.nr_sectors))

    def rq_issue(self, rq: Request) -> None:
        """D."""
        super().rq_issue(rq)
        self.row("D", rq, int(rq.nr_sectors))

    def rq_requeue(self, rq: Request) -> None:
        """R."""
        super().rq_requeue(rq)
        self.row("R", rq, int(rq.nr_sectors))

    def rq_complete(self, rq: Request, status: int, nr_bytes: int) -> None:
        """C."""
        super().rq_complete(rq, status, nr_bytes)
        self.row("C", rq, int(nr_bytes) >> 9)


def binary(rows: list[Row]) -> bytes:
    """Return rows as one CPU's blktrace file, in order of time."""
    serial = 1
    name = b"blktwin".ljust(16, b"\0")
    out = [ROW.pack(MAGIC, serial, 0, 0, 0, NOTIFY_PROCESS, 100, DEVICE, 0, 0, len(name)), name]
    for time_ns, letter, sector, nr_sectors, way in sorted(rows, key=lambda row: row[0]):
        serial += 1
        action, category = ACTIONS[letter]
        code = action | (category | way) << 16
        out.append(ROW.pack(MAGIC, serial, time_ns, sector, nr_sectors << 9, code, 100, DEVICE, 0, 0, 0))
    return b"".join(out)


class BttReport:
    """btt's numbers: stages as (min, avg, max in s, count), and the device's line of each table by its title."""

    def __init__(self, text: str) -> None:
        self.stages: dict[str, tuple[float, float, float, int]] = {}
        self.tables: dict[str, list[str]] = {}
        title = ""
        for line in text.splitlines():
            cells = line.split()
            if line.startswith("====="):
                title = line.strip("= ")
            elif title == "All Devices" and len(cells) == 5 and "2" in cells[0]:
                self.stages[cells[0]] = (float(cells[1]), float(cells[2]), float(cells[3]), int(cells[4]))
            elif line.startswith(" (259,") and title not in self.tables:
                self.tables[title] = line.partition(")")[2].replace("|", " ").split()


def run_btt(rows: list[Row], folder: Path) -> BttReport:
    """Return what btt makes of the rows."""
    (folder / "t.blktrace.0").write_bytes(binary(rows))
    subprocess.run(["blkparse", "-q", "-O", "-i", "t", "-d", "t.bin"], cwd=folder, check=True, capture_output=True)
    subprocess.run(["btt", "-i", "t.bin", "-o", "t"], cwd=folder, check=True, capture_output=True)
    return BttReport((folder / "t.avg").read_text())
