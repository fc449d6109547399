"""inception_v3 on up to 128 GPUs: Piz Daint (one per node) and p2.8xlarge (eight), CSCS 2017."""

from collections.abc import Mapping, Sequence
from typing import ClassVar

from varsim.scenario import Scenario
from varsim.validation.published.experiment import Family, Fitted, Parameter, fit
from varsim.validation.published.hosts import (
    many_exchanging_hosts,
    one_host,
    slowest,
    unfilled,
)
from varsim.validation.published.table import Row


class _Cscs(Family):
    """Servers share the nodes of the workers; real data cost besides what the network does.

    tf_cnn_benchmarks deals variables out in turn (`distributed_replicated`) or to the server with
    the fewest bytes (`parameter_server`). What is pulled is hidden behind computing, by the former
    in the backward pass, by the latter in the next forward pass: here always in the backward pass.
    `told_by`: on how many GPUs synthetic data tell a parameter, one after the other.
    """

    line_rate: ClassVar[float]
    latency: ClassVar[float]
    per_host: ClassVar[int]
    told_by: ClassVar[Mapping[str, int]]
    tells_input: ClassVar[int]  # GPUs, with real data

    def is_calibrated_on(self, row: Row) -> bool:
        """See `split`."""
        if _is_real(row):
            return row.workers == self.tells_input
        return row.workers == 1 or row.workers in self.told_by.values()

    def calibrate(self, rows: Sequence[Row]) -> Fitted:
        """Compute, then spread, then the network, then what reading real data costs."""
        synthetic = [row for row in rows if not _is_real(row)]
        fitted: dict[str, float] = {}
        for row in synthetic:
            if row.workers == 1:
                fitted["compute"] = row.batch / row.value
        *scaling, reading = self.parameters
        starts = {parameter.name: parameter.start for parameter in scaling}
        for parameter in scaling:
            told = [row for row in synthetic if row.workers == self.told_by[parameter.name]]
            fitted |= fit([parameter], told, self.predicted, starts | fitted)
        real = [row for row in rows if _is_real(row)]
        return fitted | fit([reading], real, self.predicted, fitted)

    def scenario(self, row: Row, fitted: Fitted) -> Scenario:
        """GPUs of one node, or nodes with servers on some of them."""
        name = f"{row.experiment}-{row.workers}"
        compute = fitted["compute"]
        if _is_real(row):
            compute += fitted["input"] * min(row.workers, self.tells_input) / self.tells_input
        late = slowest(row.workers, fitted["spread"])
        if row.workers <= self.per_host:
            return one_host(name, row.model, row.batch, row.workers, compute, slowest=late)
        network = {
            "bandwidth": self.line_rate,
            "efficiency": fitted["efficiency"] if "efficiency" in self.told_by else 1.0,
            "latency": self.latency,
        }
        hosts = row.workers // self.per_host
        return many_exchanging_hosts(
            name,
            row.model,
            row.batch * self.per_host,
            hosts,
            compute,
            row.servers or hosts,
            network,
            late,
            "by_bytes" if row.strategy.startswith("parameter_server") else "round_robin",
        )

    def refuses(self, row: Row) -> str:
        """Nodes are full, or there is one."""
        return super().refuses(row) or unfilled(row.workers, self.per_host)

    def label(self, row: Row) -> str:
        """GPUs and servers."""
        data = "real" if _is_real(row) else "synthetic"
        return f"{row.workers} GPUs, {row.servers} servers, {data} data"


class PizDaint(_Cscs):
    """One P100 per node on Cray Aries."""

    names = ("cscs2017-daint-synth", "cscs2017-daint-real")
    split = (
        "synthetic data on 1, 8 and 64 GPUs, real data on 8; synthetic data on 2, 4, 16, 32 and "
        "128 and real data on all others predicted"
    )
    line_rate = 10.5e9
    latency = 10e-6
    per_host = 1
    told_by: ClassVar[Mapping[str, int]] = {"spread": 8, "efficiency": 64}
    tells_input = 8
    parameters = (
        Parameter("spread", "share", 0.03, 1e-3, 0.3, "of the nodes' compute times"),
        Parameter("efficiency", "share", 0.25, 0.01, 1.0, "of Aries' 84 Gbit/s that servers get"),
        Parameter("input", "s", 0.03, 1e-5, 1.0, "of reading a real batch that is not hidden"),
    )
    why = (
        "Tensors lie whole on servers: the one with the largest (8 MB) sends and receives it once "
        "for every node, which is hidden behind computing up to 32 nodes. What a server gets of "
        "the network is told by 64 nodes alone."
    )


class P28xlarge(_Cscs):
    """Eight K80 GPUs per node on 10 Gbit/s, of which any share above an eighth would be enough."""

    names = ("cscs2017-p28xlarge-synth", "cscs2017-p28xlarge-real")
    split = (
        "synthetic data on 1 and 8 GPUs, real data on 8; synthetic data on 2, 4, 16, 32, 64 and "
        "128 and real data on all others predicted"
    )
    line_rate = 1.25e9
    latency = 50e-6
    per_host = 8
    told_by: ClassVar[Mapping[str, int]] = {"spread": 8}
    tells_input = 8
    parameters = (
        Parameter("spread", "share", 0.03, 1e-3, 0.3, "of the GPUs' compute times"),
        Parameter("input", "s", 0.3, 1e-5, 5.0, "of reading a real batch that is not hidden"),
    )
    why = (
        "Real data cost nothing up to 4 GPUs and nearly a fifth of the speed on 8, which share the "
        "processors of a node; in between a share in proportion is taken."
    )


def _is_real(row: Row) -> bool:
    return row.experiment.endswith("-real")
