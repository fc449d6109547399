"""The numbers of a run of a program: what is measured, in which unit."""

from collections.abc import Callable
from typing import Final, NamedTuple

from varsim.cluster.program import ProgramTrace


class ProgramMetric(NamedTuple):
    """One number of a run of a program."""

    unit: str
    description: str
    of: Callable[[ProgramTrace, int], float]  # the trace and its number of steps


METRICS: Final = {
    "time_per_step": ProgramMetric(
        "s",
        "from the moment the variables are there to the end, divided by the steps",
        lambda trace, steps: (trace.end - trace.began) / 1e9 / steps,
    ),
    "bytes_per_step": ProgramMetric(
        "bytes",
        "bytes sent over the network once the variables are there, divided by the steps",
        lambda trace, steps: trace.moved / steps,
    ),
    "messages_per_step": ProgramMetric(
        "messages",
        "messages sent over the network once the variables are there, divided by the steps",
        lambda trace, steps: trace.messages / steps,
    ),
}
