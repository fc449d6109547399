"""How long one accelerator takes for a batch, by its size: a fixed part and one per example."""

from collections.abc import Sequence
from typing import ClassVar

from validation.published.experiment import Family, Fitted, Parameter, extremes, timed
from validation.published.facts import has_size, is_speed
from validation.published.table import Row
from varsim.scenario.training import Scenario


class BatchCurves(Family):
    """One device: seconds per batch = fixed + per_example x batch, for each network by itself."""

    split = "the smallest and the largest batch of a network; the batches between predicted"
    bound = 0.04
    parameters = (
        Parameter("fixed", "s", 0.03, 1e-4, 1.0, "of a batch of any size"),
        Parameter("per_example", "s", 0.01, 1e-5, 1.0, "of one more example"),
    )
    why: ClassVar[str] = (
        "A straight line cannot follow libraries that choose other kernels for other batches: "
        "inception_v3 on the V100 is up to 8 % off it in the middle."
    )

    def knows(self, row: Row) -> bool:
        """Speeds of a single device."""
        return is_speed(row) and row.strategy == "single device"

    def setting(self, row: Row) -> str:
        """Every network on every device has a curve of its own."""
        return f"{row.model} ({row.precision or 'precision not said'}) by {super().setting(row)}"

    def refuses(self, row: Row) -> str:
        """Curves are those of one GPU."""
        if not row.workers:
            return "the row does not say on how many workers"
        if row.workers > 1:
            return "more than the one GPU of a single device"
        return "" if row.batch else "the row does not say its batch"

    def is_given(self, row: Row) -> bool:
        """Nothing is."""
        return False

    def told_by(self, rows: Sequence[Row]) -> list[Row]:
        """Both ends of a curve."""
        return extremes(rows, lambda row: row.batch)

    def calibrate(self, rows: Sequence[Row]) -> Fitted:
        """The line through two points."""
        if not rows:
            return {}
        small, *_, large = sorted([*rows, *rows], key=lambda row: row.batch)
        if small.batch == large.batch:
            return {}
        first, last = (row.batch / row.value for row in (small, large))
        slope = (last - first) / (large.batch - small.batch)
        return {"fixed": first - slope * small.batch, "per_example": slope}

    def scenario(self, row: Row, fitted: Fitted) -> Scenario:
        """One replica by itself."""
        law = {
            "kind": "batch_curve",
            "fixed": fitted["fixed"],
            "per_example": fitted["per_example"],
        }
        model = {"model": row.model} if has_size(row.model) else {"problem": {"size": 1e6}}
        return timed(
            f"{row.experiment}-{row.model}-{row.batch}",
            1,
            {"compute": law, "network": {"bandwidth": 1e9, "latency": 0.0}},
            {**model, "batch_size": row.batch},
            {"kind": "on_write"},
        )
