"""Machines of several GPUs that add up gradients, and servers on them that add up those."""

from collections.abc import Mapping, Sequence
from functools import cache
from itertools import groupby
from typing import ClassVar, Final

from validation.published.experiment import (
    Family,
    Fitted,
    Parameter,
    constant,
    extremes,
    fit,
    late,
    of_machines,
    overlapped_server,
    parameter_server,
    slowest,
    step_time,
    timed,
)
from validation.published.table import Row, is_speed, line_rate, per_host, servers, size
from varsim.learning.workload import Workload
from varsim.scenario.training import Scenario

_STRATEGIES: Final = (
    "distributed_replicated, synchronous",
    "parameter_server, synchronous",
    "parameter server, synchronous",
)
_READERS: Final = 8  # that share what real data are read from
_AT_ONCE: Final = {"bandwidth": 1e15, "latency": 0.0, "sharing": "first_come"}
_NO_NETWORK: Final = {"bandwidth": 1e9, "latency": 0.0}
_MOST_HOSTS: Final = 64  # that calibrate: more take too long to be simulated again and again


class Machines(Family):
    """Synchronous servers on the machines of the workers; real data cost besides.

    tf_cnn_benchmarks deals variables out in turn (`distributed_replicated`) or to the server with
    the fewest bytes (`parameter_server`). What is pulled is hidden behind computing, by the former
    in the backward pass, by the latter in the next forward pass: here always in the backward pass.
    MXNet's variables are all read before the forward pass.
    """

    split = (
        "1 GPU of every network given; of the networks with the fewest and with the most bytes, "
        "the fewest machines of several GPUs, or the fewest workers above 1, and the most workers "
        "on at most 64 machines; of real data the fewest workers above 7. All others predicted"
    )
    parameters = (
        Parameter("spread", "share", 0.03, 1e-3, 0.3, "of the GPUs' compute times"),
        Parameter("efficiency", "share", 0.5, 0.01, 1.0, "of the line that servers get"),
        Parameter("input", "s", 0.03, 1e-5, 5.0, "of reading a real batch that is not hidden"),
    )
    by_hand = (
        "50 us of latency between machines, 10 us on Aries",
        "8 workers share what real data are read from",
    )
    why: ClassVar[str] = (
        "One spread of compute times stands for everything that makes many GPUs slower than one "
        "(the two of a K80 board share its power). Whole variables lie on servers: the one with "
        "most bytes sets the pace. Real data cost nothing on up to 4 K80 and nearly a fifth of the "
        "speed on 8, which share the processors of a node; in between a share in proportion is "
        "taken."
    )

    def knows(self, row: Row) -> bool:
        return is_speed(row) and row.strategy in _STRATEGIES

    def refuses(self, row: Row) -> str:
        """Machines are full, or there is one; their line is known."""
        crossing = row.workers > per_host(row)
        return super().refuses(row) or of_machines(row, crossing=crossing)

    def told_by(self, rows: Sequence[Row]) -> list[Row]:
        told: list[Row] = []
        synthetic = [row for row in rows if not _is_real(row)]
        for model in dict.fromkeys(r.model for r in extremes(synthetic, lambda r: size(r.model))):
            own = [row for row in synthetic if row.model == model]
            few = [row for row in own if row.workers <= _MOST_HOSTS * per_host(row)]
            filled = [row for row in few if row.workers >= per_host(row)]
            told += extremes(filled or few, lambda row: row.workers)
        many = [row for row in rows if _is_real(row) and row.workers >= _READERS]
        fewest = min((row.workers for row in many), default=0)
        return told + [row for row in many if row.workers == fewest]

    def calibrate(self, rows: Sequence[Row]) -> Fitted:
        """Compute, then spread and the network, then what reading real data costs."""
        synthetic = [row for row in rows if not _is_real(row)]
        real = [row for row in rows if _is_real(row)]
        alone = [row for row in (*real, *synthetic) if row.workers == 1]
        fitted = {_compute(row): row.batch / row.value for row in alone}
        spread, efficiency, reading = self.parameters
        scaled = [row for row in synthetic if row.workers > 1]
        fewest = min((row.workers for row in scaled), default=0)
        first = [row for row in scaled if row.workers == fewest]
        start = {efficiency.name: efficiency.start}
        fitted |= fit([spread], first, self.predicted, start | fitted)
        crossing = [row for row in scaled if row.workers > max(fewest, per_host(row))]
        fitted |= fit([efficiency], crossing, self.predicted, fitted)
        return fitted | fit([reading], [r for r in real if r.workers > 1], self.predicted, fitted)

    def scenario(self, row: Row, fitted: Fitted) -> Scenario:
        """GPUs of one machine, or machines with servers on some of them.

        Gradients are added up inside a machine first, and one goes out; so a worker is a machine.
        """
        compute, gpus = fitted[_compute(row)], per_host(row)
        if _is_real(row):
            compute += fitted["input"] * min(row.workers, _READERS) / _READERS
        last = slowest(row.workers, fitted["spread"]) if row.workers > 1 else 1.0
        cluster = {"compute": constant(compute), **late(last)}
        workload: dict[str, object] = {"model": row.model, "batch_size": row.batch}
        strategy: dict[str, object] = {"kind": "on_write"}
        hosts = row.workers
        if row.workers <= gpus:
            cluster["network"] = _AT_ONCE if row.workers > 1 else _NO_NETWORK
        else:
            hosts, workload["batch_size"] = row.workers // gpus, row.batch * gpus
            count = servers(row, hosts)
            cluster |= {"parameter_servers": count, "servers_on": "workers"}
            cluster["network"] = {
                "bandwidth": line_rate(row),
                "efficiency": fitted["efficiency"],
                "latency": 10e-6 if "Aries" in row.interconnect else 50e-6,
            }
            emptiest = row.strategy.startswith("parameter_server") and "MXNet" not in row.system
            if count > 1:
                cluster["placement"] = "by_bytes" if emptiest else "round_robin"
            if "MXNet" in row.system:
                strategy = overlapped_server(hosts)
            else:
                # What machines pull of a layer goes as soon as all have pushed their gradients.
                strategy |= {"collective": "push_pull", "overlap": True}
                workload = {"layers": _layers(row.model), "batch_size": row.batch * gpus}
        return timed(f"{row.experiment}-{row.workers}", hosts, cluster, workload, strategy)

    def label(self, row: Row) -> str:
        served = f", {row.servers} servers" if row.servers else ""
        return (
            f"{row.model}, {row.workers} GPUs{served}, {'real' * _is_real(row) or 'synthetic'} data"
        )


def _is_real(row: Row) -> bool:
    return "real data" in row.detail


def _compute(row: Row) -> str:
    return f"{row.model} with batch {row.batch}"


@cache
def _layers(model: str) -> tuple[Mapping[str, float], ...]:
    """A model layer by layer, as a scenario lists them: tensors that are ready together are one."""
    whole = Workload.model_validate({"model": model, "problem": {"kind": "timing"}})
    tensors = whole.tensors()
    ready = zip(whole.ready_after(tensors), tensors, strict=True)
    layers = [
        (moment, sum(size for _, size in group))
        for moment, group in groupby(ready, key=lambda tensor: tensor[0])
    ]
    ends = [*(moment for moment, _ in layers[1:]), 0.0]
    return tuple(
        {"backward": moment - end, "size": size}
        for (moment, size), end in zip(layers, ends, strict=True)
    )


# MXNet's synchronous parameter servers, any number of them for any number of workers: DL2.


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
    given_alone = False

    def knows(self, row: Row) -> bool:
        return is_speed(row) and "batch is that of all workers" in row.detail

    def setting(self, row: Row) -> str:
        return f"{row.model} by {row.system}"

    def told_by(self, rows: Sequence[Row]) -> list[Row]:
        """An eighth of the pairs."""
        servers = sorted({row.servers for row in rows})[::4]
        workers = sorted({row.workers for row in rows})[::2]
        return [row for row in rows if row.servers in servers and row.workers in workers]

    def calibrate(self, rows: Sequence[Row]) -> Fitted:
        return fit(self.parameters, rows, self.predicted)

    def refuses(self, row: Row) -> str:
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
        """The batch is that of all workers."""
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
        return f"{row.servers} servers, {row.workers} workers"
