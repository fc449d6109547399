"""How long one accelerator takes for a batch, by its size: a fixed part and one per example."""

from collections.abc import Sequence
from typing import ClassVar, Final

from varsim.scenario import Scenario
from varsim.validation.published.experiment import Family, Fitted, Parameter, timed
from varsim.validation.published.table import Row

_SMALLEST: Final = 1
_LARGEST: Final = {"mxnet-1gpu-batch-k80": 32, "mxnet-1gpu-batch-v100": 128}


class BatchCurves(Family):
    """MXNet on one GPU: seconds per batch = fixed + per_example x batch, for either network."""

    names = tuple(_LARGEST)
    split = "the smallest and the largest batch of either network; the batches between predicted"
    bound = 0.04
    parameters = (
        Parameter("fixed", "s", 0.03, 1e-4, 1.0, "of a batch of any size"),
        Parameter("per_example", "s", 0.01, 1e-5, 1.0, "of one more example"),
    )
    why: ClassVar[str] = (
        "A straight line cannot follow libraries that choose other kernels for other batches: "
        "inception_v3 on the V100 is up to 8 % off it in the middle."
    )

    def refuses(self, row: Row) -> str:
        """Curves are those of one GPU."""
        return super().refuses(row) or (
            "" if row.workers == 1 else "more than the one GPU of these"
        )

    def is_calibrated_on(self, row: Row) -> bool:
        """Both ends of a curve."""
        return row.batch in (_SMALLEST, _LARGEST[row.experiment])

    def calibrate(self, rows: Sequence[Row]) -> Fitted:
        """The line through two points, for every experiment and network."""
        curves: dict[str, float] = {}
        for small in rows:
            for large in rows:
                same = (small.experiment, small.model) == (large.experiment, large.model)
                if same and small.batch < large.batch:
                    curves |= line_through(curve_of(small), small, large)
        return curves

    def tells(self, experiment: str, name: str, parameter: Parameter) -> bool:
        """Every curve has both."""
        return name.startswith(f"{experiment} ") and name.endswith(f" {parameter.name}")

    def scenario(self, row: Row, fitted: Fitted) -> Scenario:
        """One replica by itself."""
        curve = curve_of(row)
        law = {
            "kind": "batch_curve",
            "fixed": fitted[f"{curve} fixed"],
            "per_example": fitted[f"{curve} per_example"],
        }
        return timed(
            f"{row.experiment}-{row.model}-{row.batch}",
            1,
            {"compute": law, "network": {"bandwidth": 1e9, "latency": 0.0}},
            {"model": row.model, "batch_size": row.batch},
            {"kind": "on_write"},
        )


def curve_of(row: Row) -> str:
    """What has a curve of its own: a network on an accelerator."""
    return f"{row.experiment} {row.model}"


def line_through(curve: str, small: Row, large: Row) -> dict[str, float]:
    """`fixed` and `per_example` (s) of the line through two throughputs."""
    first, last = (row.batch * row.workers / row.value for row in (small, large))
    slope = (last - first) / (large.batch - small.batch)
    return {f"{curve} fixed": first - slope * small.batch, f"{curve} per_example": slope}
