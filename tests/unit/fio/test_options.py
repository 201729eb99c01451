"""The option table: complete, consistent, and the page made from it in step."""

from __future__ import annotations

from pathlib import Path

import pytest

from blktwin.errors import ConfigError
from blktwin.fio.option import LATER, MODELLED, NO_EFFECT, REFUSED, STATUSES, Option
from blktwin.fio.options import MODELLED_ENGINES, TABLE, compatibility_page, find, nearest
from blktwin.fio.values import is_default, parse

ROOT = Path(__file__).parents[3]


def test_every_name_and_alias_is_found_once() -> None:
    """A name or alias leads to exactly one row (proto is the alias of two engines' options, as in fio)."""
    names = [option.name for option in TABLE]
    assert len(set(names)) == len(names)
    for option in TABLE:
        assert find(option.name) is option
        if option.alias not in ("", "proto"):
            found = find(option.alias)
            assert found is option


def test_table_is_as_large_as_fio() -> None:
    """217 options of --cmdhelp=all, 56 of engines, hidden ones, newer ones; each status is in use."""
    assert len(TABLE) >= 330
    for status in STATUSES:
        assert sum(option.status == status for option in TABLE) > 20
    assert all(option.reason for option in TABLE)


@pytest.mark.parametrize(
    ("name", "status"),
    [
        ("blocksize", MODELLED),
        ("wait_for_previous", MODELLED),
        ("iodepth_batch_submit", MODELLED),
        ("ratemin", MODELLED),
        ("io_limit", MODELLED),
        ("mem", NO_EFFECT),
        ("invalidate", NO_EFFECT),
        ("allow_mounted_write", NO_EFFECT),
        ("verify", LATER),
        ("ramp_size", LATER),
        ("ss_dur", LATER),
        ("exec_prerun", REFUSED),
        ("rbdname", REFUSED),
    ],
)
def test_status(name: str, status: str) -> None:
    """Aliases have their option's status."""
    option = find(name)
    assert option is not None
    assert option.status == status


@pytest.mark.parametrize("option", [o for o in TABLE if o.default], ids=lambda option: option.name)
def test_default_is_a_legal_value(option: Option) -> None:
    """fio's default reads as a value of the row's kind, and counts as the default."""
    try:
        value = parse(option, option.default).value
    except ConfigError as error:
        pytest.fail(f"{option.name}: {error}")
    assert is_default(option, value)


def test_engine_options_name_known_engines() -> None:
    """No option of a modelled engine is refused without a reason of its own."""
    for option in TABLE:
        if set(option.engines) & set(MODELLED_ENGINES) and option.name != "cmd_type":
            assert option.status != REFUSED, option.name


@pytest.mark.parametrize(
    ("typo", "want"), [("blocksise", "blocksize"), ("iodpeth", "iodepth"), ("runtme", "runtime"), ("zzzzqq", "")]
)
def test_nearest(typo: str, want: str) -> None:
    """A typo finds its option; nonsense finds nothing."""
    assert nearest(typo) == want


def test_compatibility_page_is_in_step() -> None:
    """docs/fio-compatibility.md is what `python -m blktwin.fio.options` prints."""
    page = (ROOT / "docs" / "fio-compatibility.md").read_text()
    assert page == compatibility_page(), "run: python -m blktwin.fio.options > docs/fio-compatibility.md"
