"""Whatever a job file holds, reading it ends soon: in jobs, or in one ConfigError. Nothing else is ever raised."""

from __future__ import annotations

import time
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from blktwin.errors import ConfigError
from blktwin.fio.arithmetic import evaluate
from blktwin.fio.jobfile import load
from blktwin.fio.options import TABLE
from blktwin.fio.showcmd import render

ROOT = Path(__file__).parents[2]
SEEDS = [
    path.read_bytes() for folder in ("examples", "tests/data/jobs") for path in sorted((ROOT / folder).glob("*.fio"))
]
SECONDS_MAX = 10.0

NAMES = st.sampled_from([name for option in TABLE for name in (option.name, option.alias) if name])
PIECES = st.sampled_from(
    "0 1 -1 4k 64k 1m 50% 3z 0x10 5s 7ms 1-5 1k-4k , : / - ( ) + * ^ ${A} $ncpus $pagesize $mb_memory zipf:1.2 zoned:"
    ' 60/10:40 4k/50:8k/50 randrw:4 libaio null psync net \\ ; # [ ] = include x 99999999999999999999 % " \x00 é'.split(
        " "
    )
)
VALUES = st.one_of(
    st.lists(PIECES, max_size=5).map("".join),
    st.integers(-(2**70), 2**70).map(str),
    st.text(max_size=12),
    NAMES,
)
LINES = st.one_of(
    st.tuples(NAMES, VALUES).map("=".join),
    NAMES,
    st.sampled_from(["[global]", "[a]", "[b]", "[", "[]", "; c", "", "include nope.fio", "ioengine=null", "size=1m"]),
    st.text(max_size=20),
)
FILES = st.lists(LINES, max_size=12).map(lambda lines: "[j]\nioengine=null\nsize=1m\n" + "\n".join(lines))


def read(path: Path, data: bytes, *, strict: bool) -> None:
    """Load and show a file, in time; an error is one line."""
    path.write_bytes(data)
    started = time.process_time()
    error = ""
    try:
        render([str(path)], env={"A": "4k"})
        load([str(path)], [], env={"A": "4k"}, require_runnable=strict)
    except ConfigError as caught:
        error = str(caught)
    assert time.process_time() - started < SECONDS_MAX
    assert error.isprintable()
    assert len(error) < 800


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Give one file that all examples reuse."""
    return tmp_path_factory.mktemp("fuzz") / "f.fio"


@given(data=st.binary(max_size=400))
@example(data=b"[a]\n\xff\xfe=\xff\n")
@example(data=b"[\xff]\nioengine=null\n")
def test_random_bytes(path: Path, data: bytes) -> None:
    """Bytes of any kind."""
    read(path, data, strict=True)


@given(text=FILES, strict=st.booleans())
@example(text="[j]\nioengine=null\nsize=1m\nrunstreams", strict=True)
@example(text="[j]\nbs=" + "(" * 5000, strict=True)
@example(text="[j]\nbs=" + "9" * 10000, strict=True)
@example(text="[j]\nsize=$ncpus^$mb_memory^9", strict=True)
@example(text="[j]\nbssplit=" + ":".join(["4k/1"] * 5000), strict=False)
@example(text="[j]\nrate=" + "," * 20000, strict=False)
@example(text="[j]\nstartdelay=" + "-" * 20000, strict=False)
@example(text="[j]\nnumjobs=4096\n" * 2, strict=False)
@example(text="[j]\nbs=5²", strict=False)
@example(text="[j]\nbs=٤k", strict=False)
def test_random_options(path: Path, text: str, strict: bool) -> None:
    """Real option names with values of all sorts."""
    read(path, text.encode("utf-8", "surrogatepass"), strict=strict)


@given(
    seed=st.sampled_from(SEEDS),
    cuts=st.lists(st.tuples(st.integers(0, 2000), st.integers(0, 40), st.binary(max_size=8)), max_size=6),
)
def test_mutations(path: Path, seed: bytes, cuts: list[tuple[int, int, bytes]]) -> None:
    """Real job files with bytes cut out and put in."""
    data = seed
    for at, length, new in cuts:
        at %= len(data) + 1
        data = data[:at] + new + data[at + length :]
    read(path, data, strict=True)


@given(args=st.lists(st.one_of(LINES.map(lambda line: f"--{line}"), VALUES), max_size=6))
def test_random_arguments(args: list[str]) -> None:
    """Jobs on the command line."""
    with suppress(ConfigError):
        load([], ["--name=j", "--ioengine=null", *args], env={}, require_runnable=False)


EXPRESSIONS = st.recursive(
    st.integers(0, 99).map(str),
    lambda inner: st.tuples(inner, st.sampled_from(["+", "-", "*"]), inner).map(lambda parts: f"({''.join(parts)})"),
    max_leaves=8,
)


@given(text=EXPRESSIONS)
def test_arithmetic_is_pythons(text: str) -> None:
    """On + - * and parentheses the answer is Python's (8 numbers below 100 stay below 63 bits)."""
    assert evaluate(text, lambda unit: None if unit else 1) == eval(text)
