"""MXNet's synchronous parameter servers, any number of them for any number of workers: DL2."""

from collections.abc import Sequence
from typing import ClassVar

from validation.published.experiment import Family, Fitted, Parameter, fit, step_time, timed
from validation.published.facts import is_speed
from validation.published.hosts import parameter_server
from validation.published.table import Row
from varsim.scenario.training import Scenario


class Dl2(Family):
    """One global batch, split over the workers: more of them compute less and send more.

    Hardware is not stated; servers are busy with two cores all the time. So what a server takes is
    fitted as times: for the update of all parameters, and for one worker's gradient of all of them,
    both shared out over the servers, and for one request however small.
    """

    split = (
        "every fourth number of servers and every second of workers, from the smallest, for each "
        "network by itself; all others predicted"
    )
    parameters = (
        Parameter("fixed", "s", 0.2, 1e-4, 10.0, "of a step with any batch"),
        Parameter("per_example", "s", 5e-3, 1e-6, 1.0, "of one more example on a worker"),
        Parameter("update", "s", 0.5, 1e-5, 10.0, "of one server for updating all parameters"),
        Parameter("gradient", "s", 0.1, 1e-5, 10.0, "of one server for one whole gradient"),
        Parameter("request", "s", 0.02, 1e-5, 1.0, "of a server for one request of any size"),
    )
    why: ClassVar[str] = (
        "The table is not smooth: with the same workers, every tenth speed of resnet-50, "
        "resnext-110 and seq2seq is 18 % or more off the mean of its neighbours, which have fewer "
        "and more servers; the same configuration was never measured twice."
    )

    def knows(self, row: Row) -> bool:
        """Speeds with a global batch."""
        return is_speed(row) and "batch is that of all workers" in row.detail

    def setting(self, row: Row) -> str:
        """Every network has constants of its own."""
        return f"{row.model} by {row.system}"

    def is_given(self, row: Row) -> bool:
        """Nothing is."""
        return False

    def told_by(self, rows: Sequence[Row]) -> list[Row]:
        """An eighth of the pairs."""
        servers = sorted({row.servers for row in rows})[::4]
        workers = sorted({row.workers for row in rows})[::2]
        return [row for row in rows if row.servers in servers and row.workers in workers]

    def calibrate(self, rows: Sequence[Row]) -> Fitted:
        """All at once."""
        return fit(self.parameters, rows, self.predicted)

    def refuses(self, row: Row) -> str:
        """Only synchronous rows are of this kind."""
        if row.strategy != "dist_sync":
            return f"mode {row.strategy}: only dist_sync has a scenario"
        if not row.servers:
            return "the row does not say how many servers"
        return "" if row.batch else "the row does not say its batch"

    def scenario(self, row: Row, fitted: Fitted) -> Scenario:
        """Every server holds its share of everything; the largest local batch counts."""
        of = {p.name: fitted[p.name] for p in self.parameters}
        examples = -(-row.batch // row.workers)
        compute = of["fixed"] + of["per_example"] * examples
        gradient = of["gradient"] / row.servers + of["request"]
        return timed(
            f"{row.experiment}-{row.servers}-{row.workers}",
            row.workers,
            {
                "compute": {"kind": "constant", "value": compute},
                "parameter_servers": row.servers,
                "network": {"bandwidth": 12.5e9, "latency": 0.0, "sharing": "first_come"},
                "overheads": {"commit": of["update"] / row.servers},
                "server_update": {"time": {"kind": "constant", "value": gradient}},
            },
            {"problem": {"size": 1e6}, "batch_size": examples},
            parameter_server(row.workers),
        )

    def predicted(self, row: Row, fitted: Fitted) -> float:
        """Examples per second; the batch is that of all workers."""
        return row.batch / step_time(self.scenario(row, fitted))

    def explains(self, row: Row) -> str:
        """Noise, and what is known of uneven servers besides."""
        if row.model != "resnet-50":
            return self.why
        return (
            f"{self.why} Servers are not used alike: one of 6 is busy with 2.0 of its two cores, "
            "the others with 0.8 to 1.1 (8 workers, by DL2's own file); of 5, all with 1.5 and "
            "more. The same law, fitted to all 210 rows, would still miss 9 of them."
        )

    def label(self, row: Row) -> str:
        """Servers and workers."""
        return f"{row.servers} servers, {row.workers} workers"
