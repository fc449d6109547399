"""MXNet's synchronous key-value store on machines of 16 K80 GPUs, 1 to 256 of them."""

from collections.abc import Sequence
from typing import ClassVar, Final

from varsim.scenario import Scenario
from varsim.validation.published.experiment import Family, Fitted, Parameter, fit
from varsim.validation.published.hosts import many_hosts, one_host, slowest, unfilled
from varsim.validation.published.table import Row

_PER_HOST: Final = 16
_LINE_RATE: Final = 2.5e9  # 20 Gbit/s


class MxnetScaling(Family):
    """Gradients are added up inside a machine, then between machines by servers on all of them."""

    names = ("mxnet-p2-scaling-*",)
    split = (
        "1 GPU of either network, and inception_v3 on 16 and 256 GPUs; all other rows predicted, "
        "of resnet152 all but the first"
    )
    parameters = (
        Parameter("spread", "share", 0.03, 1e-3, 0.3, "of the GPUs' compute times"),
        Parameter("efficiency", "share", 0.5, 0.02, 1.0, "of the 20 Gbit/s that servers get"),
    )
    why: ClassVar[str] = (
        "One spread of compute times, told by inception_v3, stands for everything that makes many "
        "GPUs slower than one (the two of a K80 board share its power). Variables are all read "
        "before the forward pass, which costs resnet152 with its 2.5 times as many bytes more than "
        "was measured."
    )

    def is_calibrated_on(self, row: Row) -> bool:
        """Compute of both; bus and network from one of them."""
        return row.workers == 1 or (row.model == "inception_v3" and row.workers in (16, 256))

    def calibrate(self, rows: Sequence[Row]) -> Fitted:
        """The times on 1 GPU are taken as they are."""
        compute = {row.model: row.batch / row.value for row in rows if row.workers == 1}
        scaled = [row for row in rows if row.workers > 1]
        return {**compute, **fit(self.parameters, scaled, self.predicted, compute)}

    def refuses(self, row: Row) -> str:
        """Machines are full, or there is one."""
        return super().refuses(row) or unfilled(row.workers, _PER_HOST)

    def scenario(self, row: Row, fitted: Fitted) -> Scenario:
        """Up to 16 GPUs: one machine. Above: machines as workers, with a server on each."""
        name = f"{row.experiment}-{row.workers}"
        compute = fitted[row.model]
        late = slowest(row.workers, fitted["spread"])
        if row.workers <= _PER_HOST:
            return one_host(name, row.model, row.batch, row.workers, compute, slowest=late)
        hosts = row.workers // _PER_HOST
        network = {
            "bandwidth": _LINE_RATE,
            "efficiency": fitted["efficiency"],
            "latency": 50e-6,
        }
        batch = row.batch * _PER_HOST
        return many_hosts(name, row.model, batch, hosts, compute, hosts, network, late)
