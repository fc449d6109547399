"""TensorFlow's benchmarks of May 2017: one machine of P100 or K80 GPUs, and eight of the latter."""

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Final

from varsim.scenario import Scenario
from varsim.validation.published.experiment import Family, Fitted, Parameter, fit, timed
from varsim.validation.published.hosts import (
    alone,
    many_exchanging_hosts,
    one_host,
    overlapped_server,
    unfilled,
)
from varsim.validation.published.table import Row

_PER_HOST: Final = 8
_PLACES: Final = ("cpu", "gpu", "replicated")
_PCIE: Final = 15.75e9  # bytes/s: a GPU's 16 lanes of PCIe 3
_HOST: Final = 4 * _PCIE  # two GPUs share a switch of the DGX-1, or a board of K80s
_NVLINK: Final = 80e9  # the four links of a P100

# For each place of the variables, by machine: the row that tells the rate of what carries them.
_TOLD_BY: Final[Mapping[tuple[str, str], tuple[str, str, int]]] = {
    ("dgx1", "cpu"): ("tf2017-dgx1-p100-synth", "resnet50", 8),
    ("dgx1", "replicated"): ("tf2017-dgx1-p100-synth", "vgg16", 8),
    ("ec2", "cpu"): ("tf2017-ec2-k80-synth", "inception_v3", 8),
    ("ec2", "gpu"): ("tf2017-ec2-k80-synth", "vgg16", 8),
    ("ec2", "replicated"): ("tf2017-ec2-k80-synth", "resnet50", 8),
}


class OneMachine(Family):
    """Variables in the host's memory, on the GPUs in turn, or a copy on every GPU."""

    names = (
        "tf2017-dgx1-p100-synth",
        "tf2017-dgx1-p100-synth-bs32",
        "tf2017-ec2-k80-synth",
        "tf2017-ec2-k80-synth-bs32",
    )
    split = (
        "1 GPU of every network and batch; 8 GPUs of one network per machine and place of the "
        "variables, with its larger batch (dgx1: resnet50 for cpu, vgg16 for replicated; ec2: "
        "inception_v3 for cpu, vgg16 for gpu, resnet50 for replicated); 2, 4 and all other 8 "
        "predicted"
    )
    parameters = tuple(
        Parameter(f"{machine} {place}", "bytes/s", 8e9, 1e8, most, meaning)
        for machine, place, most, meaning in (
            ("dgx1", "cpu", _HOST, "all GPUs together from and to the host's memory"),
            ("dgx1", "replicated", _NVLINK, "NVLink of a GPU"),
            ("ec2", "cpu", _HOST, "all GPUs together from and to the host's memory"),
            ("ec2", "gpu", _PCIE, "PCIe of a GPU"),
            ("ec2", "replicated", _PCIE, "PCIe of a GPU"),
        )
    )
    why: ClassVar[str] = (
        "Scaling is not smooth: resnet50 on the DGX-1 loses 4 % per GPU from 1 to 2 of them, and "
        "gains 3 % from 2 to 8; vgg16 with batch 32 loses 25 % from 4 to 8, with batch 64 it loses "
        "7 %, more than equal bytes in half the time explain; alexnet loses as many milliseconds "
        "as vgg16 with half its bytes."
    )

    def refuses(self, row: Row) -> str:
        """A machine has eight GPUs, and its variables a place that is known."""
        why = super().refuses(row)
        if not why and row.workers > _PER_HOST:
            return f"{row.workers} GPUs, of which a machine has {_PER_HOST}"
        if not why and _place(row) not in _PLACES:
            return f"{row.strategy or 'no strategy'}: no such place of the variables is known"
        return why

    def is_calibrated_on(self, row: Row) -> bool:
        """1 GPU, and one row for every rate."""
        told_by = _TOLD_BY.get((_machine(row), _place(row)))
        return row.workers == 1 or (row.experiment, row.model, row.workers) == told_by

    def calibrate(self, rows: Sequence[Row]) -> Fitted:
        """Every rate from the row that tells it."""
        fitted = {_compute(row): row.batch / row.value for row in rows if row.workers == 1}
        for parameter in self.parameters:
            own = [row for row in rows if row.workers > 1 and _rate(row) == parameter.name]
            fitted |= fit([parameter], own, self.predicted, fitted)
        return fitted

    def tells(self, experiment: str, name: str, parameter: Parameter) -> bool:
        """Of the experiment's machine."""
        return name == parameter.name and name.startswith(experiment.split("-")[1])

    def scenario(self, row: Row, fitted: Fitted) -> Scenario:
        """Every GPU is a worker; copies are all-reduced after the backward pass."""
        cluster = alone(fitted[_compute(row)])
        workload: dict[str, Any] = {"model": row.model, "batch_size": row.batch}
        strategy: dict[str, Any] = {"kind": "on_write"}
        if row.workers > 1:
            rate = fitted[_rate(row)]
            cluster["network"] = {"bandwidth": rate, "latency": 10e-6}
            if _place(row) != "replicated":
                strategy = overlapped_server(row.workers)
            if _place(row) == "cpu":
                cluster["network"] |= {"bandwidth": _PCIE, "server_bandwidth": rate}
            if _place(row) == "gpu":
                cluster |= {
                    "parameter_servers": row.workers,
                    "placement": "round_robin",
                    "servers_on": "workers",
                }
        return timed(
            f"{row.experiment}-{row.model}-{row.workers}", row.workers, cluster, workload, strategy
        )


class ManyMachines(Family):
    """Towers of a machine add up their gradients; servers on the machines add up those."""

    names = ("tf2017-ec2-dist-k80-synth",)
    split = "1 and 8 GPUs (one machine) of every network, and resnet50 on 64; the rest predicted"
    parameters = (
        Parameter("efficiency", "share", 0.5, 0.02, 1.0, "of the 10 Gbit/s that servers get"),
    )
    why: ClassVar[str] = (
        "Whole variables lie on servers in turn: where few of them hold many bytes (resnet152 on "
        "64 GPUs has 4 servers), the one with most sets the pace, and what it gets of the line is "
        "told by resnet50 with 8."
    )

    def refuses(self, row: Row) -> str:
        """Machines are full, or there is one."""
        return super().refuses(row) or unfilled(row.workers, _PER_HOST)

    def is_calibrated_on(self, row: Row) -> bool:
        """One machine, and one row for its network."""
        return row.workers <= _PER_HOST or (row.model == "resnet50" and row.workers == 64)

    def calibrate(self, rows: Sequence[Row]) -> Fitted:
        """A step of one machine is taken as it is."""
        hosts = {
            f"{row.model} {row.workers}": row.batch * row.workers / row.value
            for row in rows
            if row.workers <= _PER_HOST
        }
        many = [row for row in rows if row.workers > _PER_HOST]
        return {**hosts, **fit(self.parameters, many, self.predicted, hosts)}

    def scenario(self, row: Row, fitted: Fitted) -> Scenario:
        """Machines as workers."""
        name = f"{row.experiment}-{row.model}-{row.workers}"
        if row.workers <= _PER_HOST:
            compute = fitted[f"{row.model} {row.workers}"]
            return one_host(name, row.model, row.batch * row.workers, 1, compute, 1e9)
        hosts = row.workers // _PER_HOST
        network = {
            "bandwidth": 1.25e9,
            "efficiency": fitted["efficiency"],
            "latency": 50e-6,
        }
        return many_exchanging_hosts(
            name,
            row.model,
            row.batch * _PER_HOST,
            hosts,
            fitted[f"{row.model} {_PER_HOST}"],
            servers(row.model, hosts),
            network,
        )


def servers(model: str, hosts: int) -> int:
    """Parameter servers, as the page says: one per host, fewer for two networks on 8 hosts."""
    return {"inception_v3": 6, "resnet152": 4}.get(model, hosts) if hosts == _PER_HOST else hosts


def _machine(row: Row) -> str:
    return row.experiment.split("-")[1]


def _place(row: Row) -> str:
    if row.strategy.startswith("parameter_server on "):
        return row.strategy.removeprefix("parameter_server on ")
    return "replicated" if row.strategy.startswith("replicated") else row.strategy


def _rate(row: Row) -> str:
    return f"{_machine(row)} {_place(row)}"


def _compute(row: Row) -> str:
    return f"{_machine(row)} {row.model} {row.batch}"
