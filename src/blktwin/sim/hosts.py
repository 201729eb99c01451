"""Named hosts: how many CPUs, HZ, and what each step of an I/O costs there; reads and checks hosts.toml."""

from __future__ import annotations

import pkgutil
import tomllib
from typing import Final

from blktwin.errors import ConfigError
from blktwin.sim.costs import COST_NAMES, OPTIONAL, Costs
from blktwin.sim.hints import line_of, near
from blktwin.sim.topology import SCHEDS, SCOPES, CpuSpec

HOSTS_FILE: Final = "hosts.toml"
DEFAULT_HOST: Final = "server"
RANGES: Final = {"cpus": (1, 4096), "cache_cpus": (1, 4096), "hz": (1, 10_000), "scale": (1, 100_000)}
COST_MAX_NS: Final = 10_000_000_000
CPU_LISTS: Final = {"capacity": (1, 1024), "freq": (1, 1000), "worker_cpus": (0, 4095), "irq_cpus": (0, 4095)}
CPU_NUMBERS: Final = {
    "node_cpus": (1, 4096),
    "uclamp_min": (0, 1024),
    "worker_nice": (-20, 19),
    "worker_max_active": (1, 2048),
}
CPU_TIMES: Final = ("slice", "latency", "granularity", "wakeup_granularity", "deep_idle", "deep_after")
CPU_TIME_MIN_NS: Final = 1_000
CPU_FLAGS: Final = ("eas", "overutilized_gate", "ticks")
CPU_CHOICES: Final = {"sched": SCHEDS, "worker_scope": SCOPES}
CPU_KEYS: Final = (*CPU_CHOICES, *CPU_LISTS, *CPU_NUMBERS, *CPU_TIMES, *CPU_FLAGS)
KEYS: Final = ("source", "inherit", *RANGES, *CPU_KEYS, *COST_NAMES)


class Host:
    """One host; costs in ns by name (COST_NAMES), cache_cpus: CPUs that share a last-level cache; spec: the rest."""

    def __init__(
        self,
        name: str,
        source: str,
        cpus: int,
        cache_cpus: int,
        hz: int,
        costs: dict[str, int],
        spec: CpuSpec | None = None,
    ) -> None:
        self.name: str = name
        self.source: str = source
        self.cpus: int = cpus
        self.cache_cpus: int = cache_cpus
        self.hz: int = hz
        self.costs: dict[str, int] = costs
        self.spec: CpuSpec = CpuSpec() if spec is None else spec

    def cost_table(self) -> Costs:
        """Return the costs as the machine takes them."""
        table = Costs()
        table.update(self.costs)
        return table


CACHE: Final[dict[str, Host]] = {}


def builtin_hosts() -> dict[str, Host]:
    """Return the hosts that come with the package, by name."""
    if not CACHE:
        data = pkgutil.get_data("blktwin.sim", HOSTS_FILE)
        assert data is not None, f"the package has no {HOSTS_FILE}"
        CACHE.update(parse_hosts(data.decode(), HOSTS_FILE))
    return CACHE


def get_host(name: str = DEFAULT_HOST) -> Host:
    """Return the host called name; ConfigError with the near match if there is none."""
    hosts = builtin_hosts()
    if name not in hosts:
        raise ConfigError(f"no host '{name}'" + (near(name, hosts) or f"; there are {', '.join(hosts)}"))
    return hosts[name]


def parse_hosts(text: str, file: str) -> dict[str, Host]:
    """Read hosts from TOML text; every mistake is a ConfigError with file, line and key.

    A host may inherit from one above it: it takes all of that, its costs times scale percent, then its own keys.
    """
    try:
        tables = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise ConfigError(f"not TOML: {error}", file=file) from None
    hosts: dict[str, Host] = {}
    for name, table in tables.items():
        at = line_of(text, f"[{name}]", 0)
        if not isinstance(table, dict):
            raise ConfigError("only tables, such as [my-host], stand here", file=file, key=name)
        for key, value in table.items():
            problem = wrong(key, value)
            if problem:
                raise ConfigError(problem, file=file, line=line_of(text, key, at), key=f"{name}.{key}")
        try:
            hosts[name] = make_host(name, table, hosts)
        except ConfigError as error:
            raise ConfigError(error.message, file=file, line=at, key=name) from None
    return hosts


def wrong(key: str, value: object) -> str:
    """Say what is wrong with one key, "" if nothing is."""
    if key not in KEYS:
        return "no such key of a host" + near(key, KEYS)
    if key in ("source", "inherit"):
        return "" if isinstance(value, str) and value.strip() else "must be text"
    if key in CPU_KEYS:
        return wrong_of_cpus(key, value)
    if isinstance(value, bool) or not isinstance(value, int):
        return f"{value!r} is not a whole number" + (" of ns" if key in COST_NAMES else "")
    low, high = RANGES.get(key, (0, COST_MAX_NS))
    return "" if low <= value <= high else f"{value} is out of range: {low} to {high}"


def wrong_of_cpus(key: str, value: object) -> str:
    """Say what is wrong with one key about CPUs, "" if nothing is."""
    if key in CPU_CHOICES:
        choices = CPU_CHOICES[key]
        if isinstance(value, str) and value in choices:
            return ""
        return f"{value!r} is not one of {', '.join(choices)}" + near(str(value), choices)
    if key in CPU_FLAGS:
        return "" if isinstance(value, bool) else f"{value!r} is neither true nor false"
    if key in CPU_LISTS:
        if not isinstance(value, list) or not value:
            return f"{value!r} is not a list of whole numbers"
        low, high = CPU_LISTS[key]
        for one in value:
            if isinstance(one, bool) or not isinstance(one, int):
                return f"{one!r} is not a whole number"
            if not low <= one <= high:
                return f"{one} is out of range: {low} to {high}"
        if key.endswith("_cpus") and len(set(value)) < len(value):
            return "names a CPU twice"
        return ""
    if isinstance(value, bool) or not isinstance(value, int):
        return f"{value!r} is not a whole number" + (" of ns" if key in CPU_TIMES else "")
    low, high = CPU_NUMBERS.get(key, (CPU_TIME_MIN_NS, COST_MAX_NS))
    return "" if low <= value <= high else f"{value} is out of range: {low} to {high}"


def make_host(name: str, table: dict[str, object], above: dict[str, Host]) -> Host:
    """Return the host of one checked table; above are those that stood before it."""
    parent_name = table.get("inherit")
    parent: Host | None = None
    if isinstance(parent_name, str):
        parent = above.get(parent_name)
        if parent is None:
            raise ConfigError(f"inherit: no host '{parent_name}' above" + near(parent_name, above))
    elif "scale" in table:
        raise ConfigError("scale means nothing without inherit")
    source = table.get("source")
    if not isinstance(source, str):
        raise ConfigError("source is missing: it says where the numbers come from")
    missing = [key for key in ("cpus", "hz", *COST_NAMES) if key not in table and key not in OPTIONAL]
    if parent is None and missing:
        raise ConfigError(f"needs {', '.join(missing)} (or inherit)")
    scale = number(table, "scale", 100)
    costs = {}
    for cost in COST_NAMES:
        costs[cost] = number(table, cost, 0 if parent is None else (parent.costs[cost] * scale + 50) // 100)
    cpus = number(table, "cpus", 1 if parent is None else parent.cpus)
    cache_cpus = number(table, "cache_cpus", cpus if parent is None or "cpus" in table else parent.cache_cpus)
    if cache_cpus > cpus:
        raise ConfigError(f"cache_cpus {cache_cpus} is above cpus {cpus}")
    spec = CpuSpec() if parent is None else parent.spec.copy()
    for key in CPU_KEYS:
        if key in table:
            setattr(spec, key + "_ns" if key in CPU_TIMES else key, table[key])
    key, problem = spec.problem(cpus)
    if problem:
        raise ConfigError(f"{key}: {problem}")
    hz = number(table, "hz", 0 if parent is None else parent.hz)
    return Host(name, source, cpus, cache_cpus, hz, costs, spec)


def number(table: dict[str, object], key: str, default: int) -> int:
    """Return the whole number at key, or the default."""
    value = table.get(key)
    return value if isinstance(value, int) else default
