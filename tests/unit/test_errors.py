"""Errors are one line whatever they speak of, and no line is endless."""

from __future__ import annotations

import time

import pytest

from blktwin.errors import BlktwinError, ConfigError, UsageError, near, shown


@pytest.mark.parametrize(
    ("text", "want"),
    [
        ("plain \u00e9", "plain \u00e9"),
        ("a\nb\tc\r\x1b[31m", "a\\nb\\tc\\r\\x1b[31m"),
        ("\udcff", "\\udcff"),
        ("x" * 50 + "y" * 50, "x" * 50 + "yyy..." + "y" * 27),
    ],
)
def test_shown(text: str, want: str) -> None:
    assert shown(text) == want


def test_every_part_is_escaped_and_cut() -> None:
    error = ConfigError("m\n" * 5000, file="f\x07" * 5000, line=3, key="k\n" * 5000)
    text = str(error)
    assert text.isprintable()
    assert len(text) < 2200
    assert ":3: k\\n" in text
    assert (error.message, error.file) == ("m\n" * 5000, "f\x07" * 5000)
    assert str(BlktwinError("a\nb")) == "a\\nb"
    assert str(UsageError("what", key="--x")) == "--x: what"


def test_an_error_in_an_error_is_escaped_once() -> None:
    inner = ConfigError("bad \\ \n", file="a")
    assert str(ConfigError(str(inner), file="b")) == "b: a: bad \\ \\n"


def test_the_near_match_of_an_endless_word_takes_no_time() -> None:
    began = time.process_time()
    assert near("a" * 1_000_000, ["a" * 20] * 100) == ""
    assert near("raed", ["write", "read"]) == "; did you mean read?"
    assert time.process_time() - began < 1
