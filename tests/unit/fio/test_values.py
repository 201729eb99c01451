"""Values as fio 3.33 reads them: numbers, units, times, triples, ranges, lists, arithmetic, little languages."""

from __future__ import annotations

import pytest

from blktwin.errors import ConfigError
from blktwin.fio import compound
from blktwin.fio.arithmetic import evaluate
from blktwin.fio.option import Option
from blktwin.fio.options import find
from blktwin.fio.spec import Distribution
from blktwin.fio.values import Number, byte_multiplier, is_default, parse, read_bytes, read_time_us, split_parts


def option(name: str) -> Option:
    """Give a row that is known to exist."""
    found = find(name)
    assert found is not None
    return found


@pytest.mark.parametrize(
    ("text", "kb_base", "want"),
    [
        ("4096", 1024, 4096),
        ("4k", 1024, 4096),
        ("4K", 1024, 4096),
        ("4kB", 1024, 4096),
        ("4KiB", 1024, 4000),
        ("4k", 1000, 4000),
        ("4KiB", 1000, 4096),
        ("2m", 1024, 2 << 20),
        ("1g", 1024, 1 << 30),
        ("1t", 1024, 1 << 40),
        ("1p", 1024, 1 << 50),
        ("0x10", 1024, 16),
        ("010", 1024, 10),
        ("+4k", 1024, 4096),
        ("8b", 1024, 8),
        ("(2*4k+1)", 1024, 8193),
    ],
)
def test_bytes(text: str, kb_base: int, want: int) -> None:
    """Plain numbers carry no remark."""
    assert read_bytes(text, kb_base) == (Number(want), "")


@pytest.mark.parametrize(
    ("text", "want"),
    [("4x", 4), ("4ki", 4096), ("4 k", 4), (" 8k", 8), ("4kx", 4096), ("4.5k", 4), ("0x10k", 16), ("1e3", 1)],
)
def test_bytes_that_surprise(text: str, want: int) -> None:
    """What fio takes in silence is taken, with a remark."""
    number, odd = read_bytes(text, 1024)
    assert number == Number(want)
    assert odd


def test_percent_and_zones() -> None:
    """% and z make another kind of number."""
    assert read_bytes("50%", 1024)[0] == Number(50, percent=True)
    assert read_bytes("3z", 1024)[0] == Number(3, zones=True)


@pytest.mark.parametrize("text", ["", "k", "abc", "-", "%", "99999999999999999999", "9" * 5000, "(1+", "(4q)", "()"])
def test_not_a_number(text: str) -> None:
    """No digits, or too many of them, or no whole expression."""
    with pytest.raises(ConfigError):
        read_bytes(text, 1024)


@pytest.mark.parametrize(
    ("text", "default_us", "want"),
    [
        ("5", 1_000_000, 5_000_000),
        ("5", 1, 5),
        ("5s", 1, 5_000_000),
        ("5m", 1, 300_000_000),
        ("2h", 1_000_000, 7_200_000_000),
        ("1d", 1, 86_400_000_000),
        ("7ms", 1_000_000, 7_000),
        ("7msec", 1_000_000, 7_000),
        ("7USEC", 1_000_000, 7),
        ("(2*500000)", 1_000_000, 1_000_000),
        ("(1s+500ms)", 1_000_000, 1_500_000),
    ],
)
def test_time(text: str, default_us: int, want: int) -> None:
    """Units are not case sensitive; a bare number counts in the option's unit, an expression in us."""
    assert read_time_us(text, default_us) == (want, "")


@pytest.mark.parametrize(("text", "want"), [("5sec", 5), ("1m5", 1), ("5x", 5), ("1.5", 1_000_000), ("1 s", 1_000_000)])
def test_time_that_surprises(text: str, want: int) -> None:
    """fio reads an unknown unit as us, and stops at the first thing that is no letter."""
    us, odd = read_time_us(text, 1_000_000)
    assert us == want
    assert odd


@pytest.mark.parametrize(
    ("text", "want"),
    [
        ("4k", ["4k"]),
        ("4k,8k", ["4k", "8k"]),
        ("4k,", ["4k", ""]),
        (",8k", ["", "8k"]),
        ("4k,,16k", ["4k", "", "16k"]),
        ("1-4", ["1-4", "4"]),
        ("1s:5s", ["1s:5s", "5s"]),
        ("-5", ["-5", "5"]),
        ("(8k-4k),4k", ["(8k-4k)", "4k"]),
        ("((1+1)-1)", ["((1+1)-1)"]),
    ],
)
def test_split(text: str, want: list[str]) -> None:
    """Commas first, then : and -, and nothing inside parentheses."""
    assert split_parts(text) == want


@pytest.mark.parametrize(
    ("text", "want"),
    [
        ("4k", (4096, 4096, 4096)),
        ("4k,64k", (4096, 65536, 65536)),
        ("4k,8k,16k", (4096, 8192, 16384)),
        (",8k", (None, 8192, 8192)),
        ("8k,", (8192, None, None)),
        ("8k,,16k", (8192, None, 16384)),
        ("8k:16k", (8192, 16384, 16384)),
        ("1k-4k", (1024, 4096, 4096)),
    ],
)
def test_triples(text: str, want: tuple[int | None, ...]) -> None:
    """One value counts for all, the last given one for the rest, an empty slot changes nothing."""
    assert parse(option("bs"), text).value == want


@pytest.mark.parametrize(
    ("name", "text", "want"),
    [
        ("bsrange", "1k-4k", ((1024, 4096),) * 3),
        ("bsrange", "8k:1k,8k-16k", ((1024, 8192), (8192, 16384), (8192, 16384))),
        ("bsrange", "4k-8k,,1k-2k", ((4096, 8192), None, (1024, 2048))),
        ("startdelay", "5", (5_000_000, 5_000_000)),
        ("startdelay", "1-5", (1_000_000, 5_000_000)),
        ("startdelay", "900ms:1200ms", (900_000, 1_200_000)),
        ("filesize", "4k", (4096, 4096)),
        ("size", "10%", Number(10, percent=True)),
        ("nice", "-5", -5),
        ("direct", "1", 1),
        ("group_reporting", "0", 0),
        ("stonewall", "2", 1),
        ("percentile_list", "50:99.9", (50.0, 99.9)),
        ("rwmixread", "30", 30),
        ("thinktime", "3", 3),
        ("thinktime_iotime", "3", 3_000_000),
        ("rw", "randread:8", "randread:8"),
    ],
)
def test_kinds(name: str, text: str, want: object) -> None:
    """Each kind has its shape."""
    assert parse(option(name), text).value == want


@pytest.mark.parametrize(("name", "want"), [("group_reporting", 1), ("write_bw_log", "")])
def test_bare(name: str, want: object) -> None:
    """These may stand without a value."""
    assert parse(option(name), None).value == want


@pytest.mark.parametrize(
    ("name", "text", "fragment"),
    [
        ("direct", None, "needs a value"),
        ("direct", "2", "not 0 or 1"),
        ("direct", "yes", "not 0 or 1"),
        ("bs", "0", "at least 1"),
        ("bs", "-4k", "too small"),
        ("bs", "10%", "percentage"),
        ("bs", ",", "needs a value"),
        ("prio", "8", "at most 7"),
        ("nice", "20", "at most 19"),
        ("nice", "-21", "at least -20"),
        ("iodepth", "5g", "too big"),
        ("size", "120%", "at most 100"),
        ("percentile_list", "101", "out of range"),
        ("percentile_list", "50:", "not a number"),
        ("percentile_list", ":".join("1" * 21), "too many"),
        ("bsrange", "4k", "not a range"),
        ("bsrange", "0-4k", "at least 1"),
        ("rate_process", "poison", "not one of linear poisson"),
        ("filename", "", "needs a value"),
    ],
)
def test_refused_values(name: str, text: str | None, fragment: str) -> None:
    """The message says what is wrong and what is possible."""
    with pytest.raises(ConfigError, match=fragment):
        parse(option(name), text)


def test_only_one_value_counts() -> None:
    """fio takes one of several values in silence; a remark says so."""
    parsed = parse(option("iodepth"), "4,8")
    assert parsed.value == 4
    assert "one of these values" in parsed.odd


@pytest.mark.parametrize(
    ("name", "text", "want"),
    [
        ("verify", "0", True),
        ("verify", "md5", False),
        ("continue_on_error", "none", True),
        ("nrfiles", "1", True),
        ("nrfiles", "2", False),
        ("serialize_overlap", "0", True),
        ("read_iolog", "x", False),
        ("zonesize", "0", True),
        ("max_latency", "0", True),
    ],
)
def test_is_default(name: str, text: str, want: bool) -> None:
    """A value that changes nothing does no harm."""
    assert is_default(option(name), parse(option(name), text).value) is want


@pytest.mark.parametrize(
    ("text", "want"),
    [("1+2*3", 7), ("(1+2)*3", 9), ("2^3^2", 512), ("7/2", 3), ("-7/2", -3), ("7%4", 3), ("-3+5", 2), ("0x10*2", 32)],
)
def test_arithmetic(text: str, want: int) -> None:
    """Usual precedence; division cuts towards zero."""
    assert evaluate(text, lambda unit: None if unit else 1) == want


@pytest.mark.parametrize("text", ["", "1+", "1/0", "(1", "1)", "2^64", "9^63", "1 2", "(" * 100 + "1", "-" * 100, "k"])
def test_arithmetic_errors(text: str) -> None:
    """Each gives one error, quickly."""
    with pytest.raises(ConfigError):
        evaluate(text, lambda unit: None if unit else 1)


def test_decimal_with_unit() -> None:
    """1.5k is 1536."""
    assert evaluate("1.5k", lambda unit: byte_multiplier(unit, 1024)[0]) == 1536


@pytest.mark.parametrize(
    ("text", "want"),
    [
        ("randread", ("randread", 0, 0)),
        ("randread:8", ("randread", 8, 0)),
        ("readwrite", ("rw", 0, 0)),
        ("read:8k", ("read", 0, 8192)),
        ("write:", ("write", 0, 0)),
    ],
)
def test_pattern(text: str, want: tuple[str, int, int]) -> None:
    """A random pattern counts I/Os, a sequential one skips bytes."""
    assert compound.pattern(text, 1024) == want


@pytest.mark.parametrize(
    ("text", "want"),
    [
        ("4k/50:8k/50", ((4096, 50), (8192, 50))),
        ("4k/60:8k", ((8192, 40), (4096, 60))),
        ("4k:8k", ((4096, 50), (8192, 50))),
        ("4k", ((4096, 100),)),
        ("4k/10:8k/30", ((4096, 10), (8192, 90))),
        ("4k/50:8k/70", ((4096, 50), (8192, 50))),
        ("4k/0:8k/40", ((8192, 40), (4096, 60))),
        ("", ()),
    ],
)
def test_block_split(text: str, want: compound.Split) -> None:
    """Shares add to 100 and stand in fio's order."""
    assert compound.block_split(text, 1024) == want


def test_distributions() -> None:
    """Kinds with their parameters; zones for all directions or one after the other."""
    assert compound.distributions("zipf", 1024)[0] == Distribution("zipf", 1.1)
    assert compound.distributions("pareto:0.3:0.5", 1024)[1] == Distribution("pareto", 0.3, 0.5)
    assert compound.distributions("normal:12.5", 1024)[2] == Distribution("normal", 12.5)
    same = compound.distributions("zoned:60/10:40/90", 1024)
    assert same == (Distribution("zoned", zones=((60, 10), (40, 90))),) * 3
    read, write, trim = compound.distributions("zoned:60/10:40,100/20", 1024)
    assert read.zones == ((60, 10), (40, 90))
    assert write == trim == Distribution("zoned", zones=((100, 20),))
    assert compound.distributions("zoned_abs:60/1m:40/2m", 1024)[0].zones == ((60, 1 << 20), (40, 2 << 20))


@pytest.mark.parametrize(
    "text",
    ["zipf:1", "zipf:x", "pareto:1.5", "pareto:0", "normal:100", "zipf:1.2:2", "zoned", "zoned:50/5:30/15"]
    + ["zoned:60/60:40/50", "bad", "zoned:50/5:-50/5:100/1", ""],
)
def test_bad_distributions(text: str) -> None:
    """Out of range, or percentages that do not add up."""
    with pytest.raises(ConfigError):
        compound.distributions(text, 1024)


@pytest.mark.parametrize(
    ("text", "want"),
    [("a", ("a",)), ("a:b", ("a", "b")), ("a\\:b:c", ("a:b", "c")), (":a::b:", ("a", "b")), ("", ())],
)
def test_file_names(text: str, want: tuple[str, ...]) -> None:
    """Colons part names; a backslash keeps one."""
    assert compound.file_names(text) == want
