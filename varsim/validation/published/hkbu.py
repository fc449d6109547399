"""Seven ways to train on 32 GPUs over three networks: Shi et al., 2020 (HKBU).

`A2A`: rings over all GPUs, by Horovod. `PS`: BytePS, whose machines add up their gradients before
they send them to as many servers on machines of their own (the scripts start them on machines 9 and
up). `BSP` sends when all gradients are there, `WFBP` every tensor when it is ready, `MG-WFBP`
merged tensors, `ByteScheduler` in an order of priority.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

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
# AdamW, kernel by kernel, goes over its arrays of the parameters' size 21 times, at the 616 GB/s of
# an RTX 2080 Ti; SGD's few passes over a small network are left in the time of a step.
_OPTIMIZER: Final = {"bert_large": 21 * 1_344_904_432 / 616e9}
_PARTITION: Final = 4_096_000.0  # bytes; BYTEPS_PARTITION_BYTES
# Bytes/s of the line, and the names of what is fitted of it.
_LINES: Final = {"10gbe": 1.25e9, "100gbib": 12.5e9, "100gbe": 12.5e9}


class Hkbu(Family):
    """A ring goes at the pace of its slowest hop, so a star of such hops takes as long."""

    names = ("hkbu2020-*",)
    split = (
        "1 GPU, and one machine (4 GPUs) of BSP-A2A and of each PS method; 8 GPUs of BSP-A2A and "
        "BSP-PS; resnet50 on 10gbe with WFBP-A2A on 32 GPUs (hop) and ByteScheduler-A2A on 4 "
        "(scheduling). All other rows predicted, of WFBP-A2A, MG-WFBP and ByteScheduler-A2A all "
        "but those two"
    )
    parameters = (
        Parameter("bus resnet50", "bytes/s", 6e9, 1e9, 15.75e9, "a hop inside a machine"),
        Parameter("bus bert_large", "bytes/s", 5e9, 1e9, 15.75e9, "a hop inside a machine"),
        Parameter("hop", "s", 1e-5, 1e-6, 1e-3, "latency of a hop of a ring"),
        Parameter("scheduling", "s", 5e-4, 1e-6, 1e-2, "for which ByteScheduler holds a tensor"),
        *(
            Parameter(f"{what} {line}", "share", 0.2, 0.01, 1.0, "of the line rate")
            for line in _LINES
            for what in ("ring", "servers")
        ),
    )

    def is_calibrated_on(self, row: Row) -> bool:
        """See `split`."""
        if row.workers == 1:
            return True
        if _METHODS[row.system].servers:
            return row.workers == _PER_HOST or (row.system == "BSP-PS" and row.workers == 8)
        if row.system == "BSP-A2A":
            return row.workers in (_PER_HOST, 8)
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
        hops = [row for row in rows if _tells_hop(row)]
        for model in ("resnet50", "bert_large"):
            own = [r for r in rings if r.model == model and r.workers == _PER_HOST]
            learn([f"bus {model}"], own)
        for line in _LINES:
            told = [r for r in rings if _line(r) == line and r.workers > _PER_HOST]
            names = [f"ring {line}"]
            if told and any(_line(row) == line for row in hops):
                names.append("hop")
                told += hops
            learn(names, told)
            served = [r for r in rows if r.system == "BSP-PS" and r.workers > _PER_HOST]
            served = [r for r in served if _line(r) == line]
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
        update = _OPTIMIZER.get(row.model, 0.0)
        compute = fitted[f"{row.model} 1"] - update
        if row.system == "ByteScheduler-A2A":
            compute += fitted["scheduling"] * _tensors(row.model)
        cluster = alone(compute)
        cluster["network"] = {**network, "latency": fitted["hop"], "sharing": "first_come"}
        if update:
            cluster["optimizer_time"] = update
        strategy = {"kind": "on_write", "collective": "ring", **_METHODS[row.system].keys}
        workload = {"model": row.model, "batch_size": row.batch}
        return timed(_name(row), row.workers, cluster, workload, strategy)

    def _served(self, row: Row, fitted: Fitted) -> Scenario:
        """A machine is a worker: its gradients leave as its GPUs add them up.

        Parts go in the order in which they are ready: no priorities, and no forward pass begins
        before all sums are there, as ByteScheduler's would.
        """
        host, compute = fitted[_host(row)], fitted[f"{row.model} 1"]
        if row.workers == _PER_HOST:
            return _alone(row, host)
        hosts, line = row.workers // _PER_HOST, _line(row)
        update = _OPTIMIZER.get(row.model, 0.0)  # by the workers, before they go on
        forward = compute if row.system == "BSP-PS" else update + (compute - update) / 3
        cluster = {
            "compute": {
                "kind": "phases",
                "forward": forward,
                "backward": max(host - forward, _LEAST),
            },
            "parameter_servers": hosts,
            "placement": "round_robin",
            "partitioner": {"kind": "max_size", "size": _PARTITION},
            "network": {
                "bandwidth": _LINES[line],
                "efficiency": fitted[f"servers {line}"],
                "latency": 50e-6,
            },
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
        if row.experiment.endswith("100gbe") and row.system == "ByteScheduler-PS":
            return _WHY_TWO_LINES
        if row.experiment == "hkbu2020-bert_large-100gbib" and row.system == "ByteScheduler-PS":
            return _WHY_JUMP
        if _METHODS[row.system].servers:
            return _WHY_SERVERS
        return _WHY_RINGS

    def label(self, row: Row) -> str:
        """Method and GPUs."""
        return f"{row.system}, {row.workers} GPUs"


_WHY_TWO_LINES: Final = (
    "The published 100gbe rows of parameter servers are of two networks: BSP-PS and WFBP-PS are "
    "those of 10gbe within 2 % (117.9 and 118.0 samples/s on 32 GPUs for BSP-PS), while "
    "ByteScheduler-PS is that of 100gbib (338 and 350)."
)
_WHY_JUMP: Final = (
    "Twice the GPUs, 2.4 times the speed: 148 samples/s on 16 GPUs and 350 on 32, where WFBP-PS "
    "has 176 and 344."
)
_WHY_SERVERS: Final = (
    "What BytePS does between GPUs and network (copies to the host's memory, sums by its CPU) is "
    "in the time of one machine and in the line, both fitted. Where that bounds and not the line, "
    "overlap gains less than is predicted: with bert_large on 100gbib a machine alone gains 8 % "
    "(WFBP-PS over BSP-PS), two of them 2 %."
)
_WHY_RINGS: Final = (
    "Tensors of one ring after the other, each with all hops of the ring: NCCL pipelines small "
    "ones, MG-WFBP chooses its merges from measured times, ByteScheduler cuts at 4 MB."
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


def _tells_hop(row: Row) -> bool:
    return (row.experiment, row.system, row.workers) == ("hkbu2020-resnet50-10gbe", "WFBP-A2A", 32)


def _tells_scheduling(row: Row) -> bool:
    known = ("hkbu2020-resnet50-10gbe", "ByteScheduler-A2A", _PER_HOST)
    return (row.experiment, row.system, row.workers) == known


def _tensors(model: str) -> int:
    """How many tensors a network has."""
    from varsim import presets

    return len(presets.model(model).tensors)
