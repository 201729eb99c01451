"""The one table of fio's options: look-up by name or alias, nearest name, and docs/fio-compatibility.md.

`python -m blktwin.fio.options` prints that page.
"""

from __future__ import annotations

import difflib

from blktwin.fio.option import KINDS, LATER, MODELLED, NO_EFFECT, REFUSED, STATUSES, Option
from blktwin.fio.options_engine import ENGINE_OPTIONS
from blktwin.fio.options_io import IO_OPTIONS
from blktwin.fio.options_run import RUN_OPTIONS

TABLE: tuple[Option, ...] = IO_OPTIONS + RUN_OPTIONS + ENGINE_OPTIONS
"""Every option, in the order of `fio --cmdhelp=all`, then those of engines, then newer ones."""

MODELLED_ENGINES = ("psync", "pvsync2", "sync", "libaio", "io_uring", "posixaio", "null")
OTHER_ENGINES = tuple(
    "cpuio mmap vsync pvsync net netsplice ftruncate filecreate filestat filedelete exec falloc e4defrag splice gfapi"
    " gfapi_async mtd sg io_uring_cmd nbd rdma rados rbd pmemblk dev-dax libpmem external http libhdfs dfs nfs"
    " librpma_apm_server librpma_apm_client librpma_gpspm_server librpma_gpspm_client libcufile xnvme libblkio libzbc"
    " libiscsi ime_psync ime_psyncv ime_aio windowsaio solarisaio guasi dircreate dirstat dirdelete filexattr".split()
)
"""Engines that fio has and blktwin does not model."""

_BY_NAME: dict[str, Option] = {}
for _option in TABLE:
    _BY_NAME[_option.name] = _option
    if _option.alias:
        _BY_NAME.setdefault(_option.alias, _option)


def find(name: str) -> Option | None:
    """Give the option of that name or alias, None if fio has none."""
    return _BY_NAME.get(name)


def nearest(name: str) -> str:
    """Give the option name or alias that looks most like name, "" if none does."""
    if len(name) > 64:
        return ""
    matches = difflib.get_close_matches(name, _BY_NAME, n=1, cutoff=0.6)
    return matches[0] if matches else ""


def nearest_engine(name: str) -> str:
    """Give the modelled engine that looks most like name, "" if none does."""
    matches = difflib.get_close_matches(name[:64], MODELLED_ENGINES, n=1, cutoff=0.6)
    return matches[0] if matches else ""


_INTRO = """# fio options

What `blktwin` does with each option of fio. Facts are those of fio 3.33 (newer options say since when); where fio's
manual and fio 3.33 differ, a job is read as fio 3.33 reads it. This page is made from the table in
`src/blktwin/fio/options_*.py` by `python -m blktwin.fio.options`.

| status | what happens |
|---|---|
| modelled | it does what it does in fio |
| no effect | accepted and listed once on stderr: it cannot change a simulated run |
| not yet | stops the run and says what to do, unless the value is fio's default |
| refused | stops the run: it makes no sense on a model, or belongs to an engine that is not modelled |

An option that fio does not know is an error with file, line and the nearest name. Engines: `{engines}`; any other
one stops the run. `direct=0` (fio's default) stops the run, but for the null engine and for psync, pvsync2 and sync
jobs that only write and have `fsync=` or `fdatasync=`: other buffered I/O comes later.

## Reading a job as fio 3.33 does, also where it surprises

A remark on stderr says how fio reads such a value, and that reading is used.

- Units: `4k` is 4096, `4ki` is 4096 too (against fio's manual), `4kib` is 4000; `kb_base=1000` turns that round.
  What follows a unit is not looked at: `4x` is 4 bytes, `8 k` and (a blank after `=`) ` 8k` are 8 bytes.
- Times: `1s`, `1ms`, `1msec`, `1us`, `1m`, `1h`, `1d`; any other word counts as us, so `1sec` is 1 us.
- `a,b,c` are read, write and trim; the last one given counts for the rest, an empty slot changes nothing, `8k,` is
  the read size only. `:` and `-` part values as `,` does: `bs=1k-4k` is 1k for reads and 4k for the others.
- `;` and `#` end a line of a job file anywhere, not only in front. On the command line nothing is cut or replaced.
- A section whose name starts with `global` sets defaults. Names may repeat. Engine options apply after the others,
  `kb_base` before, `filename` last.
- Options on the command line before the first `--name`, and `--section`, count for the first job file only; every
  further file starts from fio's defaults, in a new group, behind a stonewall.
- `bsrange=` and `bssplit=` win over `bs=`, also over a later one.
- Every `filename=` adds files: a job that has one uses the files of `[global]` too.
- Clones of a job are numbered 0, n-1, ..., 1: so are their files and offsets. Only the first one is a wall.
- JSON lists options by canonical name, as written, and leaves bare ones (`group_reporting`) out.

## Where we differ from fio 3.33 on purpose

- `[name` without `]`, `[]`, negative sizes, numbers that do not fit, percentages above 100: errors here, silence there.
- An option error stops the run; fio drops that job and those below. An `include` that cannot be read is an error; fio
  forgets the options read so far and starts the job.
- Arithmetic in parentheses works (it is in fio's manual, but not in Debian's build), and separators inside
  parentheses do not part values. `$pagesize`, `$mb_memory` and `$ncpus` are those of the machine that runs blktwin,
  as in fio; a remark says what they were.
- `random_distribution=zoned:60/10:40/90,100/100` (zones per direction) works; 3.33 documents and rejects it.
- A line may be longer than 8 KiB; job files and what they include are at most 16 MiB and 1000 inclusions together.
- Errors here, silence there: a `--section` that no job has, jobs that `wait_for` each other in a circle, two values of
  `ioscheduler` for one device, `iodepth` above 65536, rates above 8 TiB/s, zipf above 16, pareto below 1e-9.
- Options that are not modelled are named all at once.

"""


def compatibility_page() -> str:
    """Write docs/fio-compatibility.md."""
    counts = ", ".join(f"{sum(1 for o in TABLE if o.status == status)} {status}" for status in STATUSES)
    out = [_INTRO.format(engines=" ".join(MODELLED_ENGINES)), f"{len(TABLE)} options: {counts}.\n"]
    for status in (MODELLED, NO_EFFECT, LATER, REFUSED):
        out.append(f"\n## {status.capitalize()}\n\n| option | value | default | |\n|---|---|---|---|\n")
        out.extend(_row(option) for option in TABLE if option.status == status)
    return "".join(out)


def _row(option: Option) -> str:
    names = f"`{option.name}`" + (f", `{option.alias}`" if option.alias else "")
    value = KINDS[option.kind]
    if option.choices:
        value = " ".join(option.choices) if option.kind == "choice" else f"{value}: {' '.join(option.choices)}"
    if option.parts == 3:
        value += ", up to 3"
    if option.low is not None or option.high is not None:
        high = "" if option.high is None else f"{option.high:g}"
        value += f", {option.low or 0:g}..{high}"
    extra = [option.reason]
    if option.engines and option.status != REFUSED:
        extra.append(f"({' '.join(option.engines)})")
    elif option.engines:
        extra = [f"engine {' '.join(option.engines)} is not modelled"]
    if option.since:
        extra.append(f"(fio {option.since})")
    cells = [names, value, f"`{option.default}`" if option.default else "", " ".join(extra)]
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |\n"


if __name__ == "__main__":
    print(compatibility_page(), end="")
