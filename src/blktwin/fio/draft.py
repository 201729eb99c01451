"""The values that are in force while sections are read: fio's defaults, then [global]s, then the job's own options.

A Draft applies options one by one, since their order matters (direct= against buffered=, gtod_reduce=, kb_base=,
empty slots of read,write,trim); build.py turns a finished Draft into JobSpecs.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from blktwin.errors import ConfigError, shown
from blktwin.fio import compound
from blktwin.fio.option import LATER, NO_EFFECT, REFUSED, Option
from blktwin.fio.options import MODELLED_ENGINES, find, nearest
from blktwin.fio.sections import RawOption
from blktwin.fio.spec import Distribution, Triple
from blktwin.fio.values import Number, Parts, Range, Value, is_default, parse

Sizes = list[int]
_GTOD = ("disable_lat", "disable_clat", "disable_slat", "disable_bw_measurement")
_PERCENTILES = ("clat_percentiles", "lat_percentiles", "slat_percentiles")


@dataclass(slots=True)
class Draft:
    """Option values by name, and the composite ones by field; `given` says where each was written last."""

    values: dict[str, Value] = field(default_factory=dict)
    given: dict[str, RawOption] = field(default_factory=dict)
    kb_base: int = 1024
    bs: Sizes = field(default_factory=lambda: [4096, 4096, 4096])
    bs_low: Sizes = field(default_factory=lambda: [0, 0, 0])
    bs_high: Sizes = field(default_factory=lambda: [0, 0, 0])
    bssplit: list[compound.Split] = field(default_factory=lambda: [(), (), ()])
    distribution: list[Distribution] = field(default_factory=lambda: [Distribution() for _ in range(3)])
    pattern: tuple[str, int, int] = ("read", 0, 0)
    files: list[str] = field(default_factory=list)
    """What each filename= says, in order."""

    def copy(self) -> Draft:
        """Start a job from the defaults so far."""
        return Draft(
            dict(self.values), dict(self.given), self.kb_base, list(self.bs), list(self.bs_low), list(self.bs_high),
            list(self.bssplit), list(self.distribution), self.pattern, list(self.files),
        )  # fmt: skip

    def number(self, name: str, default: int = 0) -> int:
        """Give an int, long, time (us), bool or flag option."""
        value = self.values.get(name, default)
        assert isinstance(value, int), name
        return value

    def text(self, name: str, default: str = "") -> str:
        """Give a text or choice option."""
        value = self.values.get(name, default)
        assert isinstance(value, str), name
        return value

    def amount(self, name: str) -> Number:
        """Give a bytes-or-percent option."""
        value = self.values.get(name, Number(0))
        assert isinstance(value, Number), name
        return value

    def pair(self, name: str) -> Range:
        """Give the low and high value of a range option."""
        value = self.values.get(name, (0, 0))
        assert isinstance(value, tuple)
        assert len(value) == 2
        low, high = value
        assert isinstance(low, int)
        assert isinstance(high, int)
        return low, high

    def triple(self, name: str, default: int = 0) -> Triple:
        """Give a read,write,trim option."""
        value = self.values.get(name, (default, default, default))
        assert isinstance(value, tuple)
        assert len(value) == 3
        one, two, three = value
        assert isinstance(one, int)
        assert isinstance(two, int)
        assert isinstance(three, int)
        return one, two, three

    def floats(self, name: str, default: tuple[float, ...]) -> tuple[float, ...]:
        """Give a list of numbers."""
        value = self.values.get(name, default)
        assert isinstance(value, tuple)
        return tuple(number for number in value if isinstance(number, (int, float)))

    def engine(self) -> str:
        """Give the name of the I/O engine."""
        return self.text("ioengine", "psync").partition(":")[0]

    def apply(self, option: Option, raw: RawOption) -> str:
        """Put one option in force; returns a remark on how fio reads it ("" if it is plain)."""
        parsed = parse(option, raw.value, self.kb_base)
        odd = parsed.odd
        if option.name == "filename" and self.files:
            odd = odd or "added to the files named before, as fio does"
        self.given[option.name] = raw
        handler = _SPECIAL.get(option.name)
        if handler is not None:
            handler(self, parsed.value)
        elif option.parts == 3:
            old = self.triple(option.name, 100 if option.name == "percentage_random" else 0)
            self.values[option.name] = _merged(parsed.value, old)
        else:
            self.values[option.name] = parsed.value
        return odd


def _merged(value: Value, old: Triple) -> Parts:
    assert isinstance(value, tuple)
    one, two, three = (old[at] if part is None else part for at, part in enumerate(value))
    assert isinstance(one, int)
    assert isinstance(two, int)
    assert isinstance(three, int)
    return one, two, three


def _set_bs(draft: Draft, value: Value) -> None:
    one, two, three = draft.bs
    draft.bs = [part if part is not None else 0 for part in _merged(value, (one, two, three))]


def _set_bsrange(draft: Draft, value: Value) -> None:
    assert isinstance(value, tuple)
    for at, part in enumerate(value):
        if isinstance(part, tuple):
            draft.bs_low[at], draft.bs_high[at] = part[0] or 0, part[1] or 0


def _set_bssplit(draft: Draft, value: Value) -> None:
    assert isinstance(value, str)
    for at, part in enumerate(compound.split_directions(value.strip())):
        split = compound.block_split(part, draft.kb_base)
        if split:
            draft.bssplit[at] = split
            draft.bs_low[at] = min(size for size, _ in split)
            draft.bs_high[at] = max(size for size, _ in split)


def _set_rw(draft: Draft, value: Value) -> None:
    assert isinstance(value, str)
    draft.pattern = compound.pattern(value, draft.kb_base)


def _set_distribution(draft: Draft, value: Value) -> None:
    assert isinstance(value, str)
    draft.distribution = list(compound.distributions(value, draft.kb_base))


def _set_buffered(draft: Draft, value: Value) -> None:
    draft.values["direct"] = 0 if value else 1


def _set_rwmixwrite(draft: Draft, value: Value) -> None:
    assert isinstance(value, int)
    draft.values["rwmixread"] = 100 - value


def _set_gtod_reduce(draft: Draft, value: Value) -> None:
    if value:
        draft.values.update(dict.fromkeys(_GTOD, 1) | dict.fromkeys(_PERCENTILES, 0))


def _add_filename(draft: Draft, value: Value) -> None:
    assert isinstance(value, str)
    draft.files.append(value.strip())


def _set_kb_base(draft: Draft, value: Value) -> None:
    assert isinstance(value, str)
    draft.kb_base = int(value)


_SPECIAL = {
    "bs": _set_bs,
    "bsrange": _set_bsrange,
    "bssplit": _set_bssplit,
    "rw": _set_rw,
    "random_distribution": _set_distribution,
    "buffered": _set_buffered,
    "rwmixwrite": _set_rwmixwrite,
    "gtod_reduce": _set_gtod_reduce,
    "kb_base": _set_kb_base,
    "filename": _add_filename,
}


@dataclass(slots=True)
class Notices:
    """What the user should know once: options without effect (by name), remarks, and what cannot run."""

    no_effect: dict[str, RawOption] = field(default_factory=dict)
    remarks: dict[str, None] = field(default_factory=dict)
    not_modelled: list[ConfigError] = field(default_factory=list)
    """What the jobs ask for that the model cannot run."""

    def remark(self, raw: RawOption, text: str) -> None:
        """Keep a remark about an option, once."""
        value = "" if raw.value is None else f"={shown(raw.value, 60)}"
        self.remarks[f"{where(raw.file, raw.line)}{raw.key}{value}: {shown(text, 300)}"] = None


def where(file: str, line: int) -> str:
    """Write a place for a remark."""
    return f"{file}:{line}: " if line else f"{file}: "


def apply_all(draft: Draft, raws: list[RawOption], notices: Notices, *, strict: bool) -> list[tuple[Option, RawOption]]:
    """Apply a section's options in fio's order (kb_base first, filename last, then those of the engine).

    strict: note options that are not modelled (notices.not_modelled). Returns the options in that order.
    Errors: ConfigError with file, line and option.
    """
    known: list[tuple[Option, RawOption]] = []
    for raw in raws:
        option = find(raw.key)
        if option is None:
            near = nearest(raw.key)
            raise raw.error("fio has no such option" + (f"; did you mean {near}?" if near else ""))
        known.append((option, raw))
    known.sort(key=lambda pair: (bool(pair[0].engines), -pair[0].order))
    before = len(notices.not_modelled)
    for option, raw in known:
        if option.engines and draft.engine() not in option.engines:
            names = " ".join(option.engines)
            raise raw.error(f"an option of ioengine {names}, but this job has ioengine={draft.engine()}")
        _apply_one(draft, option, raw, notices, strict=strict)
    notices.not_modelled[before:] = sorted(notices.not_modelled[before:], key=lambda error: (error.file, error.line))
    return known


def _apply_one(draft: Draft, option: Option, raw: RawOption, notices: Notices, *, strict: bool) -> None:
    try:
        odd = draft.apply(option, raw)
    except ConfigError as error:
        raise raw.error(error.message) from None
    for text in (odd, raw.odd):
        if text:
            notices.remark(raw, text)
    if option.status == NO_EFFECT:
        notices.no_effect.setdefault(option.name, raw)
    elif option.engines and option.status == REFUSED and draft.engine() not in MODELLED_ENGINES:
        pass  # The engine is refused as a whole.
    elif option.status in (LATER, REFUSED) and strict:
        if not is_default(option, draft.values.get(option.name, 0)):
            kind = "not modelled yet" if option.status == LATER else "refused"
            notices.not_modelled.append(raw.error(f"{kind}: {option.reason}"))
