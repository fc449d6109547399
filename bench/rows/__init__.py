"""The groups of the table: a module for each, a line here."""

from collections.abc import Callable, Iterator
from typing import NamedTuple

from bench.measuring import Row
from bench.rows import day, engines, first_answer, growth, long, networks, simpy_path


class Group(NamedTuple):
    """Rows that belong together.

    `rows` is asked whether what takes long is wanted, too, and yields each as it is measured: all
    groups but those that are `long` are to be done in under two minutes otherwise.
    """

    name: str
    title: str
    about: str
    rows: Callable[[bool], Iterator[Row]]
    long: bool = False


GROUPS = (
    Group(
        "start",
        "The first answer",
        "CPU seconds of processes of their own, from their start to their end.",
        first_answer.rows,
    ),
    Group(
        "day",
        "A planner's day",
        "Whole commands, by the clock on the wall, machine code read from the cache.",
        day.rows,
        long=True,
    ),
    Group(
        "simpy",
        "The SimPy path",
        "T is a textbook SimPy program of the same scenario and draws (`textbook.py`), which keeps "
        "times only and records nothing. L is a leaner one, of every strategy (`lean.py`), that "
        "does not wait for a latency of zero, and whose times were drawn before. The full run has "
        "real gradients (softmax, digits, batch 32), all updates and all spans. W: workers.",
        simpy_path.rows,
    ),
    Group(
        "networks",
        "Networks",
        "Times only. CPU per worker-step, set-up included, beside that of the same with a simpler "
        "network. W: workers, P: parameter servers.",
        networks.rows,
    ),
    Group(
        "engines",
        "The engine for times alone",
        "Beside SimPy on the same scenario: set-up, draws and record included, machine code read "
        "from the cache. W: workers.",
        engines.rows,
    ),
    Group(
        "growth",
        "Cost that grows as the work does",
        "Times only, first-come links, 25 steps of each worker, set-up included. L: see above.",
        growth.rows,
    ),
    Group(
        "long",
        "What takes minutes",
        "With --long. SimGrid's program in C++ (`simgrid.cpp`) has the same cluster and compute "
        "times, which it is handed, and records nothing; ends agree to a microsecond. The runs "
        "whose memory is measured go on beside the others.",
        long.rows,
        long=True,
    ),
)
