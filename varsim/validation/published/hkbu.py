"""Seven ways to train on 32 GPUs over three networks: Shi et al., 2020 (HKBU).

`A2A`: rings over all GPUs, by Horovod. `PS`: BytePS, whose machines add up their gradients before
they send them to as many servers on machines of their own (the scripts start them on machines 9 and
up). `BSP` sends when all gradients are there, `WFBP` every tensor when it is ready, `MG-WFBP`
merged tensors, `ByteScheduler` in an order of priority.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

from varsim import presets
from varsim.scenario import Scenario
from varsim.validation.published.experiment import Family, Fitted, Parameter, fit, timed
from varsim.validation.published.hosts import alone, unfilled
from varsim.validation.published.table import Row

_PER_HOST: Final = 4
_LEAST: Final = 1e-6  # s, where one machine took no longer than one GPU


class _Method(NamedTuple):
    """How a method sends: `servers` or rings, and the keys of its strategy."""

    servers: bool
    keys: Mapping[str, Any]


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
# Kernel by kernel, AdamW goes over an array of the parameters' size 21 times, SGD 3 times, at the
# 616 GB/s of an RTX 2080 Ti. The scripts train BERT by AdamW, with BytePS by SGD.
_MEMORY: Final = 616e9
_ADAMW, _SGD = 21, 3
_PARTITION: Final = 4_096_000.0  # bytes; BYTEPS_PARTITION_BYTES
_LATENCY: Final = 50e-6  # s, between a machine and a server
_MODELS: Final = ("resnet50", "bert_base", "bert_large")
_LINES: Final = {"10gbe": 1.25e9, "100gbib": 12.5e9, "100gbe": 12.5e9}  # bytes/s
# Of 100gbe, measured on 10gbe: see `split`.
_MISTAKEN: Final = {(m, s) for m in ("resnet50", "bert_large") for s in ("BSP-PS", "WFBP-PS")}


class Hkbu(Family):
    """A ring goes at the pace of its slowest hop, so a star of such hops takes as long.

    A hop takes longer with ResNet-50: there NCCL shares the GPUs with the backward pass all the
    time, with BERT most is sent after it.
    """

    names = ("hkbu2020-*",)
    split = (
        "1 GPU, and one machine (4 GPUs) of BSP-A2A and of each PS method; 8 GPUs of BSP-A2A, and "
        "of BSP-PS (on 100gbe: of ByteScheduler-PS); on 10gbe WFBP-A2A on 32 GPUs (hop), and "
        "ByteScheduler-A2A on 4 with resnet50 (scheduling). All other rows predicted, of WFBP-A2A, "
        "MG-WFBP and ByteScheduler-A2A all but those. BSP-PS and WFBP-PS of bert_large on 100gbe "
        "are predicted with what 10gbe tells: their rows are its rows within 2 % (117.9 and 118.0 "
        "samples/s of BSP-PS on 32 GPUs), those of resnet50 in the same table too (4,356 and "
        "4,377), while ByteScheduler-PS, the same program, has 338"
    )
    parameters = (
        *(
            Parameter(f"bus {model}", "bytes/s", 5e9, 1e9, 15.75e9, "a hop inside a machine")
            for model in _MODELS
        ),
        *(
            Parameter(f"hop {model}", "s", 1e-5, 1e-6, 1e-3, "latency of a hop of a ring")
            for model in _MODELS
        ),
        Parameter("scheduling", "s", 5e-4, 1e-6, 1e-2, "for which ByteScheduler holds a tensor"),
        *(
            Parameter(f"ring {line}", "share", 0.2, 0.01, 1.0, "of the line rate")
            for line in _LINES
        ),
        *(
            Parameter(f"servers {line}", "share", 0.2, 0.01, 1.0, "of the line rate")
            for line in ("10gbe", "100gbib")
        ),
        Parameter("servers 100gbe", "bytes/s", 5e8, 5e7, 12.5e9, "of one TCP connection"),
    )

    def is_calibrated_on(self, row: Row) -> bool:
        """See `split`."""
        if row.workers == 1:
            return True
        if _METHODS[row.system].servers:
            return row.workers == _PER_HOST or _tells_servers(row)
        if row.system == "BSP-A2A":
            return row.workers in (_PER_HOST, 2 * _PER_HOST)
        return _tells_hop(row) or _tells_scheduling(row)

    def calibrate(self, rows: Sequence[Row]) -> Fitted:
        """One after the other: machines, lines, hops, scheduling."""
        fitted = {f"{r.model} 1": r.batch / r.value for r in rows if r.workers == 1}
        for row in rows:
            if row.workers == _PER_HOST and _METHODS[row.system].servers:
                fitted[_host(row)] = row.batch * _PER_HOST / row.value
        start = {p.name: p.start for p in self.parameters}

        def learn(names: Sequence[str], own: Sequence[Row]) -> None:
            chosen = [p for p in self.parameters if p.name in names]
            fitted.update(fit(chosen, own, self.predicted, {**start, **fitted}))

        rings = [row for row in rows if row.system == "BSP-A2A"]
        for model in _MODELS:
            own = [row for row in rings if row.model == model and row.workers == _PER_HOST]
            learn([f"bus {model}"], own)
        for line in _LINES:
            told = [row for row in rings if _line(row) == line and row.workers > _PER_HOST]
            hops = [row for row in rows if _tells_hop(row) and _line(row) == line]
            learn([f"ring {line}", *(f"hop {row.model}" for row in hops)], told + hops)
            served = [row for row in rows if _tells_servers(row) and _line(row) == line]
            learn([f"servers {line}"], served)
        learn(["scheduling"], [row for row in rows if _tells_scheduling(row)])
        return fitted

    def refuses(self, row: Row) -> str:
        """Known methods on whole machines."""
        if row.system not in _METHODS:
            return f"{row.system}: no such method is known"
        if _line(row) not in _LINES:
            return f"{_line(row)}: no such network is known"
        return super().refuses(row) or unfilled(row.workers, _PER_HOST)

    def scenario(self, row: Row, fitted: Fitted) -> Scenario:
        """Rings over all GPUs; or machines whose gradients servers add up."""
        if row.workers == 1:
            return _alone(row, fitted[f"{row.model} 1"])
        if _METHODS[row.system].servers:
            return self._served(row, fitted)
        return self._ring(row, fitted)

    def _ring(self, row: Row, fitted: Fitted) -> Scenario:
        network = {"bandwidth": fitted[f"bus {row.model}"]}
        if row.workers > _PER_HOST:
            line = _line(row)
            network = {"bandwidth": _LINES[line], "efficiency": fitted[f"ring {line}"]}
        passes, update = _passes(row, fitted), _update(row)
        if row.system == "ByteScheduler-A2A":
            passes += fitted["scheduling"] * len(presets.model(row.model).tensors)
        cluster = alone(passes)
        hop = fitted[f"hop {row.model}"]
        cluster["network"] = {**network, "latency": hop, "sharing": "first_come"}
        cluster["optimizer_time"] = update
        strategy = {"kind": "on_write", "collective": "ring", **_METHODS[row.system].keys}
        workload = {"model": row.model, "batch_size": row.batch}
        return timed(_name(row), row.workers, cluster, workload, strategy)

    def _served(self, row: Row, fitted: Fitted) -> Scenario:
        """A machine is a worker: its gradients leave as its GPUs add them up.

        Parts go in the order in which they are ready: no priorities, and no forward pass begins
        before all sums are there, as ByteScheduler's would.
        """
        host = fitted[_host(row)]
        if row.workers == _PER_HOST:
            return _alone(row, host)
        hosts = row.workers // _PER_HOST
        backward = 0.0 if row.system == "BSP-PS" else 2 / 3 * _passes(row, fitted)
        before = _passes(row, fitted) + _update(row) - backward
        host += _copies(fitted[f"bus {row.model}"], row.model, backward)
        cluster = {
            "compute": {
                "kind": "phases",
                "forward": before,
                "backward": max(host - before, _LEAST),
            },
            "parameter_servers": hosts,
            "placement": "by_bytes",
            "partitioner": {"kind": "max_size", "size": _PARTITION},
            "network": {**_to_servers(row, fitted), "latency": _LATENCY},
        }
        workload = {"model": row.model, "batch_size": row.batch * _PER_HOST}
        strategy = {"kind": "on_write", "collective": "push_pull", "overlap": True}
        return timed(_name(row), hosts, cluster, workload, strategy)

    def tells(self, experiment: str, name: str, parameter: Parameter) -> bool:
        """Of a bus, or a line, that of the experiment."""
        of = name.partition(" ")[2]
        return name == parameter.name and of in ("", *experiment.split("-"))

    def explains(self, row: Row) -> str:
        """By method and network."""
        if row.experiment == "hkbu2020-bert_large-100gbib" and row.system == "ByteScheduler-PS":
            return _WHY_JUMP
        return _WHY_SERVERS if _METHODS[row.system].servers else _WHY_RINGS

    def label(self, row: Row) -> str:
        """Method and GPUs."""
        return f"{row.system}, {row.workers} GPUs"


_WHY_JUMP: Final = (
    "In the scripts, ByteScheduler-PS differs from WFBP-PS in the order of the servers' queues "
    "alone. On 8, 16 and 32 GPUs it has 86, 148 and 350 samples/s, with standard deviations of 13, "
    "23 and 24; WFBP-PS has 90, 176 and 344, with 5, 9 and 30."
)
_WHY_SERVERS: Final = (
    "BytePS spreads parts over servers by a hash, here they are spread evenly; sums take servers "
    "no time; nothing is sent by priority."
)
_WHY_RINGS: Final = (
    "Tensors of one ring after the other, each with all hops of the ring: NCCL pipelines small "
    "ones, and has less of a machine's bus while its GPUs compute; MG-WFBP merges by constants of "
    "two networks (for 32 GPUs on 10gbe such that BERT is one bucket); ByteScheduler cuts at 4 MB."
)


def _alone(row: Row, compute: float) -> Scenario:
    """One worker, with nobody to talk to."""
    workload = {"model": row.model, "batch_size": row.batch * row.workers}
    return timed(_name(row), 1, alone(compute), workload, {"kind": "on_write"})


def _line(row: Row) -> str:
    return row.experiment.rsplit("-", 1)[1]


def _host(row: Row) -> str:
    return f"{row.experiment} {row.system} {_PER_HOST}"


def _name(row: Row) -> str:
    return f"{row.experiment}-{row.system}-{row.workers}"


def _bytes(model: str) -> int:
    """Of all parameters, or of their gradients."""
    return 4 * presets.model(model).parameters


def _update(row: Row) -> float:
    """Seconds of the optimizer."""
    adam = row.model != "resnet50" and not _METHODS[row.system].servers
    return (_ADAMW if adam else _SGD) * _bytes(row.model) / _MEMORY


def _passes(row: Row, fitted: Fitted) -> float:
    """Seconds of a forward and a backward pass: a step of one GPU without its optimizer."""
    optimizer = _SGD if row.model == "resnet50" else _ADAMW
    return fitted[f"{row.model} 1"] - optimizer * _bytes(row.model) / _MEMORY


def _copies(bus: float, model: str, backward: float) -> float:
    """Seconds that a machine takes longer because it talks to servers.

    GeForce GPUs reach each other through the host's memory only: `bus` is what each has of it, in
    and out. A ring over 4 of them moves 3/4 of the gradients twice. Servers cost four more ways of
    all gradients, a quarter for each GPU: to the host, out by its network card, in, and back. What
    the backward pass hides of that costs nothing.
    """
    once = _bytes(model) / bus
    sums = 2 * (_PER_HOST - 1) / _PER_HOST * once
    return max(backward, sums + once / 2) - max(backward, sums)


def _to_servers(row: Row, fitted: Fitted) -> dict[str, Any]:
    """The network: a share of the line; on 100gbe connections, one from each to each."""
    line = "10gbe" if _is_mistaken(row) else _line(row)
    told = fitted[f"servers {line}"]
    if line == "100gbe":
        return {"bandwidth": _LINES[line], "flows": 1, "flow_bandwidth": told}
    return {"bandwidth": _LINES[line], "efficiency": told}


def _is_mistaken(row: Row) -> bool:
    return _line(row) == "100gbe" and (row.model, row.system) in _MISTAKEN


def _tells_servers(row: Row) -> bool:
    told = "ByteScheduler-PS" if _line(row) == "100gbe" else "BSP-PS"
    return (row.system, row.workers) == (told, 2 * _PER_HOST)


def _tells_hop(row: Row) -> bool:
    return (_line(row), row.system, row.workers) == ("10gbe", "WFBP-A2A", 32)


def _tells_scheduling(row: Row) -> bool:
    known = ("hkbu2020-resnet50-10gbe", "ByteScheduler-A2A", _PER_HOST)
    return (row.experiment, row.system, row.workers) == known
