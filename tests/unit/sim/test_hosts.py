"""Named hosts: their totals, inheritance, and every mistake in the table."""

from __future__ import annotations

import pytest
from closed_loop import World, write

from blktwin.errors import ConfigError
from blktwin.sim.costs import COST_NAMES
from blktwin.sim.hosts import builtin_hosts, get_host, parse_hosts

ZEROES = "".join(f"{name} = 0\n" for name in COST_NAMES)
BASE = '[base]\nsource = "s"\ncpus = 4\nhz = 250\n' + ZEROES


def test_a_lone_io_costs_what_the_server_says() -> None:
    """Between 3.5 and 4 us of CPU outside the device for each 4k psync I/O."""
    costs = get_host().cost_table()
    world = World("/dev/nvme0n1=seed2-nvme,latency=100us", costs=costs)
    world.job(lambda number: write(8 * number) if number < 1000 else None)
    world.run()
    per_io_ns = int(world.machine.cpus[0].busy_ns) / 1000
    # The test's task leaves out the return from the system call, and this kernel's plug.
    assert 3_500 < per_io_ns + int(costs.sys_exit_ns) + int(costs.plug_ns) < 4_000


def test_phone_totals_are_those_of_the_specification() -> None:
    """25 us to the driver, 8 us to the end of the request, 15 us to wake; a little core switches in 5 us."""
    big, little = get_host("phone-big").costs, get_host("phone-little").costs
    to_driver = ("user_io", "sys_enter", "sys_exit", "io_prep", "submit", "alloc", "issue")
    assert sum(big[name] for name in to_driver) == 25_000
    assert big["irq"] + big["softirq"] + big["complete"] == 8_000
    assert big["wake"] + big["idle_exit"] == 15_000
    assert little["wake"] + little["idle_exit"] == 20_000
    assert little["irq"] + little["softirq"] + little["complete"] == pytest.approx(15_000, rel=0.01)
    assert [host["switch"] + host["sleep"] for host in (big, little)] == [3_000, 5_000]


def test_builtin_hosts_say_where_they_come_from() -> None:
    """Each has a source; the default exists."""
    assert list(builtin_hosts())[0] == "server"
    assert all(len(host.source) > 40 for host in builtin_hosts().values())
    assert get_host().cost_table().as_dict() == get_host().costs


def test_inherit_scale_and_overrides() -> None:
    """A heir takes all, scaled by percent and rounded, then its own keys."""
    text = BASE.replace("irq = 0", "irq = 101").replace("wake = 0", "wake = 10")
    text += '[tcg]\nsource = "t"\ninherit = "base"\nscale = 250\ncpus = 1\nwake = 7\n'
    text += '[same]\nsource = "u"\ninherit = "tcg"\n'
    hosts = parse_hosts(text, "h.toml")
    tcg, same = hosts["tcg"], hosts["same"]
    assert (tcg.cpus, tcg.cache_cpus, tcg.hz, tcg.costs["irq"], tcg.costs["wake"]) == (1, 1, 250, 253, 7)
    assert (same.cpus, same.costs) == (1, tcg.costs)
    assert hosts["base"].cache_cpus == 4


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("[base", "h.toml: not TOML"),
        ("x = 3", "h.toml: x: only tables"),
        (BASE + "swich = 3\n", "base.swich: no such key of a host; did you mean switch?"),
        (BASE.replace("wake = 0", "wake = 1.5"), "base.wake: 1.5 is not a whole number of ns"),
        (BASE.replace("wake = 0", 'wake = "1us"'), "base.wake: '1us' is not a whole number of ns"),
        (BASE.replace("wake = 0", "wake = true"), "True is not a whole number of ns"),
        (BASE.replace("wake = 0", "wake = -1"), "base.wake: -1 is out of range: 0 to"),
        (BASE.replace("cpus = 4", "cpus = 0"), "h.toml:3: base.cpus: 0 is out of range: 1 to 4096"),
        (BASE.replace("\nwake = 0\n", "\n"), "h.toml:1: base: needs wake"),
        (BASE.replace('source = "s"\n', ""), "base: source is missing"),
        (BASE.replace('"s"', "3"), "base.source: must be text"),
        (BASE + "scale = 50\n", "scale means nothing without inherit"),
        (BASE + "cache_cpus = 5\n", "cache_cpus 5 is above cpus 4"),
        (BASE + 'sched = "eevfd"\n', "base.sched: 'eevfd' is not one of fifo, cfs, eevdf; did you mean eevdf?"),
        (BASE + 'worker_scope = "cash"\n', "did you mean cache?"),
        (BASE + "capacity = [1024, 512]\n", "capacity: 2 numbers for 4 CPUs"),
        (BASE + "capacity = 1024\n", "base.capacity: 1024 is not a list of whole numbers"),
        (BASE + "capacity = [1024, 512, 0, 1]\n", "0 is out of range: 1 to 1024"),
        (BASE + "freq = [1000, true, 1, 1]\n", "True is not a whole number"),
        (BASE + "capacity = [1, 1, 1, 1]\nfreq = [1, 1, 1, 1]\n", "leaves a CPU without speed"),
        (BASE + "worker_cpus = [4]\n", "worker_cpus: there is no CPU 4 of 4"),
        (BASE + "irq_cpus = [1, 1]\n", "base.irq_cpus: names a CPU twice"),
        (BASE + "eas = 1\n", "base.eas: 1 is neither true nor false"),
        (BASE + "eas = true\n", "eas: needs sched = cfs or eevdf"),
        (BASE + 'eas = true\nsched = "cfs"\n', "eas: needs CPUs of different capacity"),
        (BASE + "capacity = [512, 512, 512, 512]\nuclamp_min = 600\n", "600 is above every CPU's capacity"),
        (BASE + "worker_nice = -21\n", "base.worker_nice: -21 is out of range: -20 to 19"),
        (BASE + "slice = 10\n", "base.slice: 10 is out of range: 1000 to"),
        (BASE + "slice = 1.5\n", "1.5 is not a whole number of ns"),
        (BASE + "worker_nic = 1\n", "did you mean worker_nice?"),
        (BASE + "node_cpus = 8\n", "node_cpus: 8 is above cpus 4"),
        (BASE + '[b]\nsource = "s"\ninherit = "bse"\n', "inherit: no host 'bse' above; did you mean base?"),
        ('[b]\nsource = "s"\ninherit = "base"\n' + BASE, "no host 'base' above"),
    ],
)
def test_bad_hosts_name_file_line_and_key(text: str, says: str) -> None:
    """Each mistake is found, with its place."""
    with pytest.raises(ConfigError) as caught:
        parse_hosts(text, "h.toml")
    assert says in str(caught.value)


def test_cpus_of_a_host() -> None:
    """An heir takes what its parent says of its CPUs, in its own copy; times get their unit."""
    text = BASE + 'sched = "eevdf"\ncapacity = [512, 512, 1024, 1024]\nslice = 3_000_000\nworker_cpus = [0, 1]\n'
    text += '[heir]\nsource = "t"\ninherit = "base"\neas = true\noverutilized_gate = false\n'
    hosts = parse_hosts(text, "h.toml")
    base, heir = hosts["base"].spec, hosts["heir"].spec
    assert (base.sched, base.slice_ns, base.eas, base.overutilized_gate) == ("eevdf", 3_000_000, False, True)
    assert (heir.sched, heir.slice_ns, heir.eas, heir.overutilized_gate) == ("eevdf", 3_000_000, True, False)
    assert heir.capacity == base.capacity == [512, 512, 1024, 1024]
    assert heir.capacity is not base.capacity
    assert [heir.speed(cpu) for cpu in range(4)] == heir.capacity
    assert not base.is_plain()
    assert get_host().spec.is_plain()


def test_unknown_host() -> None:
    """The near match is told."""
    with pytest.raises(ConfigError, match="did you mean server"):
        get_host("sever")
    with pytest.raises(ConfigError, match="there are server"):
        get_host("zz")
