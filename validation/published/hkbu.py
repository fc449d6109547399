"""Seven ways to train on machines with several GPUs over three networks: Shi et al., 2020 (HKBU).

`A2A`: rings over all GPUs, by Horovod. `PS`: BytePS, whose machines add up their gradients before
they send them to as many servers on machines of their own (the scripts start them on machines 9 and
up). `BSP` sends when all gradients are there, `WFBP` every tensor when it is ready, `MG-WFBP`
merged tensors, `ByteScheduler` in an order of priority.
"""

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Final, NamedTuple

from validation.published.experiment import (
    Family,
    Fitted,
    NotCalibratedError,
    Parameter,
    alone,
    extremes,
    fit,
    of_machines,
    timed,
)
from validation.published.table import Row, has_rdma, is_speed, line_rate, per_host, size
from varsim.core import presets
from varsim.scenario.training import Scenario

_LEAST: Final = 1e-6  # s, where one machine took no longer than one GPU


class _Method(NamedTuple):
    """How a method sends: `servers` or rings, and the keys of its strategy."""

    servers: bool
    keys: Mapping[str, Any]


_SCHEDULED: Final = "ByteScheduler"
_METHODS: Final[Mapping[str, _Method]] = {
    "BSP-A2A": _Method(False, {}),
    "WFBP-A2A": _Method(False, {"overlap": True, "bucketing": "layers"}),
    "MG-WFBP": _Method(False, {"overlap": True, "bucketing": "ddp"}),
    # Its scripts let 16 MB be under way at once.
    "ByteScheduler-A2A": _Method(
        False, {"overlap": True, "bucketing": "bytes_per_pack", "bucket_size": 16e6}
    ),
    "BSP-PS": _Method(True, {}),
    "WFBP-PS": _Method(True, {}),
    "ByteScheduler-PS": _Method(True, {}),
}
RINGS: Final = tuple(name for name, method in _METHODS.items() if not method.servers)
PLAIN: Final = ("BSP-A2A", "WFBP-A2A", "MG-WFBP")

# Kernel by kernel, AdamW goes over an array of the parameters' size 21 times, SGD 3 times, at the
# 616 GB/s of an RTX 2080 Ti. The scripts train BERT by AdamW, with BytePS by SGD.
_MEMORY: Final = 616e9
_ADAMW, _SGD = 21, 3
_PARTITION: Final = 4_096_000.0  # bytes; BYTEPS_PARTITION_BYTES
_LATENCY: Final = 50e-6  # s, between a machine and a server
_FAST: Final = 5e9  # bytes/s: on faster lines one TCP connection is what bounds servers

_WHY_SERVERS: Final = (
    "BytePS spreads parts over servers by a hash, here they are spread evenly; sums take servers "
    "no time; nothing is sent by priority. BSP-PS and WFBP-PS of the 100 GbE table are its 10 GbE "
    "rows within 2 % (117.9 and 118.0 samples/s of BERT-large on 32 GPUs), while ByteScheduler-PS, "
    "the same program, has 338; on InfiniBand ByteScheduler-PS has 86, 148 and 350 on 8, 16 and "
    "32 GPUs, with standard deviations of 13, 23 and 24."
)
_WHY_RINGS: Final = (
    "Tensors of one ring after the other, each with all hops of the ring: NCCL pipelines small "
    "ones; MG-WFBP merges by constants of two networks (for 32 GPUs on 10 GbE such that BERT is "
    "one bucket); ByteScheduler cuts at 4 MB."
)


class Hkbu(Family):
    """A ring goes at the pace of its slowest hop, so a star of such hops takes as long.

    While GPUs compute, rings go slower: NCCL shares them, and the machine's bus.
    """

    split = (
        "1 GPU of every network given, and one machine of it by each PS method; of the networks "
        "with the fewest and with the most bytes, on one machine and on every line, BSP-A2A on the "
        "most GPUs and WFBP-A2A on the fewest and the most; ByteScheduler-PS on the fewest "
        "machines; ByteScheduler-A2A on the fewest GPUs for its own schedule. All others "
        "predicted, of MG-WFBP all"
    )
    parameters = (
        Parameter("bus", "bytes/s", 5e9, 1e9, 15.75e9, "a hop inside a machine"),
        Parameter("hop", "s", 6e-6, 1e-7, 1e-3, "latency of a hop of a ring"),
        Parameter("pace", "share", 0.5, 0.1, 1.0, "of rings while GPUs compute"),
        Parameter("launch", "s", 1.5e-5, 1e-7, 1e-4, "of a pass of AdamW over a tensor"),
        Parameter("scheduling", "s", 5e-4, 1e-6, 1e-2, "for which ByteScheduler holds a tensor"),
        Parameter("line", "share", 0.5, 0.01, 1.0, "of the line rate, for rings"),
        Parameter("servers", "share", 0.5, 0.005, 1.0, "of the line rate, for servers"),
    )
    by_hand = (
        "616 GB/s of GPU memory",
        "21 passes over all parameters by AdamW",
        "3 passes by SGD",
        "4 MB parts of BytePS",
        "16 MB under way of ByteScheduler",
        "50 us between a machine and a server",
        "one TCP connection at a time where the line is faster than 40 Gbit/s",
    )

    why: ClassVar[str] = _WHY_SERVERS

    def knows(self, row: Row) -> bool:
        return is_speed(row) and row.system.endswith(("-A2A", "-PS", "-WFBP"))

    def setting(self, row: Row) -> str:
        """Machines are the same on all lines."""
        return f"{row.framework} on {row.hardware}"

    def refuses(self, row: Row) -> str:
        """Known methods on whole machines."""
        if row.system not in _METHODS:
            return f"{row.system}: no such method is known"
        return super().refuses(row) or of_machines(row, crossing=True)

    def is_given(self, row: Row) -> bool:
        return row.workers == 1 or (_METHODS[row.system].servers and row.workers == per_host(row))

    def told_by(self, rows: Sequence[Row]) -> list[Row]:
        told: list[Row] = []
        rows = [row for row in rows if row.workers > 1]
        for line in dict.fromkeys(map(_line, rows)):
            of_line = [row for row in rows if _line(row) == line]
            for system in ("BSP-A2A", "WFBP-A2A"):
                for where in (_crosses, _stays):
                    there = [row for row in of_line if row.system == system and where(row)]
                    told += _ends(there, few=system == "WFBP-A2A")
            served = [row for row in of_line if row.system == "ByteScheduler-PS"]
            fewest = min((row.workers for row in served), default=0)
            told += [row for row in served if row.workers == fewest]
            scheduled = [row for row in of_line if row.system == "ByteScheduler-A2A"]
            for model in dict.fromkeys(row.model for row in scheduled):
                own = [row for row in scheduled if row.model == model]
                told.append(min(own, key=lambda row: row.workers))
        return told

    def calibrate(self, rows: Sequence[Row]) -> Fitted:
        """Machines and lines of rings together; then servers, line by line; then schedules."""
        of = {one.name: one for one in self.parameters}
        fitted: dict[str, float] = {}
        for row in rows:
            if self.is_given(row):
                fitted[_given(row)] = row.batch * row.workers / row.value
        told = [row for row in rows if not self.is_given(row)]

        def learn(names: str, own: Sequence[Row], where: str = "") -> None:
            unknown = [of[name]._replace(name=f"{name}{where}") for name in names.split()]
            fitted.update(fit(unknown, own, self.predicted, fitted))

        def by_system(own: Sequence[Row], bsp: str, others: str, where: str = "") -> None:
            learn(bsp, [row for row in own if row.system == "BSP-A2A"], where)
            learn(others, [row for row in own if row.system != "BSP-A2A"], where)

        rings = [row for row in told if row.system in PLAIN]
        inside = [row for row in rings if _stays(row)]
        by_system(inside, "bus launch" if any(map(_is_adam, inside)) else "bus", "hop pace")
        for line in _lines(rings):
            own = [row for row in rings if _crosses(row) and _line(row) == line]
            by_system(own, "line", "hop pace", f" of {line}")
        served = [row for row in told if _METHODS[row.system].servers]
        for line in _lines(served):
            learn("servers", [row for row in served if _line(row) == line], f" of {line}")
        scheduled = [row for row in told if row.system == "ByteScheduler-A2A"]
        learn("scheduling", scheduled)
        for model in dict.fromkeys(row.model for row in scheduled):
            learn("scheduling", [row for row in scheduled if row.model == model], f" of {model}")
        return fitted

    def scenario(self, row: Row, fitted: Fitted) -> Scenario:
        """Rings over all GPUs; or machines whose gradients servers add up."""
        if row.workers == 1:
            return _alone(row, fitted[_given(row)])
        return self._served(row, fitted) if _METHODS[row.system].servers else _ring(row, fitted)

    def _served(self, row: Row, fitted: Fitted) -> Scenario:
        """A machine is a worker: its gradients leave as its GPUs add them up.

        Parts go in the order in which they are ready: no priorities, and no forward pass begins
        before all sums are there, as ByteScheduler's would.
        """
        gpus = per_host(row)
        host = fitted[f"{row.model} by {row.system} on {_line(row)}"]
        if row.workers == gpus:
            return _alone(row, host)
        hosts = row.workers // gpus
        backward = 0.0 if row.system == "BSP-PS" else 2 / 3 * _passes(row, fitted)
        before = _passes(row, fitted) + _update(row) - backward
        host += _copies(fitted["bus"], row, backward)
        phases = {"forward": before, "backward": max(host - before, _LEAST)}
        cluster = {
            "compute": {"kind": "phases", **phases},
            "parameter_servers": hosts,
            "placement": "by_bytes",
            "partitioner": {"kind": "max_size", "size": _PARTITION},
            "network": {**_to_servers(row, fitted), "latency": _LATENCY},
        }
        workload = {"model": row.model, "batch_size": row.batch * gpus}
        strategy = {"kind": "on_write", "collective": "push_pull", "overlap": True}
        return timed(_name(row), hosts, cluster, workload, strategy)

    def explains(self, row: Row) -> str:
        return _WHY_SERVERS if _METHODS[row.system].servers else _WHY_RINGS

    def label(self, row: Row) -> str:
        return f"{row.model}, {row.system}, {row.workers} GPUs"


def _ring(row: Row, fitted: Fitted) -> Scenario:
    network, where = {"bandwidth": fitted["bus"]}, ""
    if _crosses(row):
        where = f" of {_line(row)}"
        network = {"bandwidth": line_rate(row), "efficiency": fitted[f"line{where}"]}
    passes = _passes(row, fitted)
    tensors = len(presets.model(row.model).tensors)
    if row.system.startswith(_SCHEDULED):
        passes += tensors * _scheduling(row.model, fitted)
    cluster = alone(passes)
    hop = fitted[f"hop{where}"] if _METHODS[row.system].keys else 0.0
    cluster["network"] = {**network, "latency": hop, "sharing": "first_come"}
    # Its kernels are launched once the sums are there, not ahead of time as on one GPU.
    launched = _ADAMW * tensors * fitted.get("launch", 0.0) if _is_adam(row) else 0.0
    cluster["optimizer_time"] = max(_update(row), launched)
    keys = _METHODS[row.system].keys
    if keys.get("overlap"):
        cluster["overlap_pace"] = fitted[f"pace{where}"]
    strategy = {"kind": "on_write", "collective": "ring", **keys}
    workload = {"model": row.model, "batch_size": row.batch}
    return timed(_name(row), row.workers, cluster, workload, strategy)


def _scheduling(model: str, fitted: Fitted) -> float:
    """Of the model itself, or of the others."""
    try:
        return fitted[f"scheduling of {model}"]
    except NotCalibratedError:
        return fitted["scheduling"]


def _alone(row: Row, compute: float) -> Scenario:
    """One worker, with nobody to talk to."""
    workload = {"model": row.model, "batch_size": row.batch * row.workers}
    return timed(_name(row), 1, alone(compute), workload, {"kind": "on_write"})


def _crosses(row: Row) -> bool:
    """Whether a line between machines is crossed."""
    return row.workers > per_host(row)


def _stays(row: Row) -> bool:
    return not _crosses(row)


def _ends(rows: Sequence[Row], *, few: bool) -> list[Row]:
    """Of the smallest and the largest model the most GPUs; of the smallest the fewest, too."""
    ends = sorted(extremes(rows, lambda row: size(row.model)), key=lambda row: size(row.model))
    told: list[Row] = []
    for model in dict.fromkeys(row.model for row in ends):
        own = sorted((row for row in ends if row.model == model), key=lambda row: row.workers)
        told += own[:1] if few and not told and len(own) > 1 else []
        told.append(own[-1])
    return told


def _line(row: Row) -> str:
    return f"{line_rate(row) * 8 / 1e9:g} Gbit/s {'RDMA' if has_rdma(row) else 'TCP'}"


def _lines(rows: Sequence[Row]) -> list[str]:
    """Lines that are crossed."""
    return list(dict.fromkeys(_line(row) for row in rows if _crosses(row)))


def _given(row: Row) -> str:
    """What the time of a step of a row that is given is called."""
    if row.workers == 1:
        return f"{row.model} with batch {row.batch}"
    return f"{row.model} by {row.system} on {_line(row)}"


def _name(row: Row) -> str:
    return f"{row.experiment}-{row.system}-{row.workers}"


def _is_adam(row: Row) -> bool:
    return presets.model(row.model).kind == "transformer" and not _METHODS[row.system].servers


def _update(row: Row) -> float:
    """Seconds of the optimizer."""
    return (_ADAMW if _is_adam(row) else _SGD) * size(row.model) / _MEMORY


def _passes(row: Row, fitted: Fitted) -> float:
    """Seconds of a forward and a backward pass: a step of one GPU without its optimizer."""
    optimizer = _ADAMW if presets.model(row.model).kind == "transformer" else _SGD
    alone = fitted[f"{row.model} with batch {row.batch}"]
    return max(alone - optimizer * size(row.model) / _MEMORY, alone / 2)


def _copies(bus: float, row: Row, backward: float) -> float:
    """Seconds that a machine takes longer because it talks to servers.

    GeForce GPUs reach each other through the host's memory only: `bus` is what each has of it, in
    and out. A ring over 4 of them moves 3/4 of the gradients twice. Servers cost four more ways of
    all gradients, a quarter for each GPU: to the host, out by its network card, in, and back. What
    the backward pass hides of that costs nothing.
    """
    gpus, once = per_host(row), size(row.model) / bus
    sums = 2 * (gpus - 1) / gpus * once
    return max(backward, sums + once * 2 / gpus) - max(backward, sums)


def _to_servers(row: Row, fitted: Fitted) -> dict[str, Any]:
    """The network: a share of the line, of fast lines without RDMA for each connection."""
    rate, share = line_rate(row), fitted[f"servers of {_line(row)}"]
    if rate > _FAST and not has_rdma(row):
        return {"bandwidth": rate, "flows": 1, "flow_bandwidth": share * rate}
    return {"bandwidth": rate, "efficiency": share}
