"""What a worker computes on, and how long it takes; when it gives up the rest of a step."""

from collections.abc import Iterator, Sequence
from typing import Any, ClassVar, Final, Literal, NamedTuple

from pydantic import ConfigDict, Field, model_validator

from varsim.core import presets
from varsim.core.distribution import Constant, Lognormal
from varsim.core.distributions import Distribution
from varsim.core.presets import MeasuredSpeed
from varsim.core.refusal import Refusal, RefusalError, no_effect, refused
from varsim.core.schema import Model
from varsim.core.units import FlopsPerSecond, Seconds
from varsim.learning.workload import Workload

# Spread of the step times of one healthy GPU among equals that it shares with nobody. From the
# trace of a 64-GPU job that trains a language model (ByteDance-Seed/StragglerAnalysis, trace AR,
# without its slow rank): each of 15 (rank, stage) pairs has a coefficient of variation of 0.65 to
# 1.28 % over the steps, 0.9 % in the middle. One GPU alone on synthetic data has 0.1 to 0.2 %
# (jitter of tf_cnn_benchmarks). Jobs on a shared cluster have more: 6 to 9 % between the workers
# of a step in two of Alibaba PAI, one with a straggler. See data/SOURCES.md.
DEVICE_SIGMA: Final = 0.01

# What is taken where nothing is known; measured shares lie between presets.measured_shares().
DEFAULT_EFFICIENCY: Final = 0.4
# A batch that is so many times larger or smaller than any that was measured is a guess.
FAR: Final = 2.0
# An estimate that is so many times faster or slower than all that was measured contradicts it.
_APART: Final = 1.1


class StepTime(NamedTuple):
    """How long a device is at one batch on average (s), and how that is known.

    `measured`: the measurement it is taken from; None where it is FLOPs over a rate. `doubt`: why
    it is no more than a guess, in words; empty where it was measured or the scenario insists.
    """

    seconds: float
    measured: MeasuredSpeed | None
    doubt: str


def _or_its_name(schema: dict[str, Any]) -> None:
    """A device may be written as the name of its preset alone."""
    described = dict(schema)
    schema.clear()
    schema["anyOf"] = [described, {"type": "string", "description": "name of a preset"}]


class Device(Model):
    """What computes: a preset by name, or a peak rate.

    A preset's step time is the measured one, where somebody measured the workload's model on it in
    this `precision`. Otherwise, and wherever `efficiency` is given, it is the model's FLOPs over
    that share of the peak. Step times are lognormal about that mean.
    """

    model_config = ConfigDict(json_schema_extra=_or_its_name)

    preset: str | None = None
    """Name of a device: `varsim list devices`."""
    precision: Literal["fp32", "tf32", "fp16", "bf16"] | None = None
    """What the device computes in; by default what TensorFlow computes float32 in, and PyTorch
    convolutions: tf32 from Ampere on."""
    measured: bool = False
    """Whether `efficiency` is a share of the best measured matrix product, not of the printed peak.
    """
    peak: FlopsPerSecond | None = None
    """Peak computing rate, instead of a preset."""
    efficiency: float | None = Field(None, gt=0, le=1)
    """Share of the peak that the model reaches; default: 0.4, a guess, and a run then says so."""
    sigma: float = Field(DEVICE_SIGMA, ge=0, le=10)
    """Spread of step times: standard deviation of their logarithm, by default that of one healthy
    GPU among equals; 0 makes all the same."""
    conflicts: ClassVar[Sequence[Refusal]] = tuple(
        no_effect(key, "no preset", "it chooses a rate of one") for key in ("precision", "measured")
    )

    @model_validator(mode="before")
    @classmethod
    def _a_name_is_a_preset(cls, value: object) -> object:
        described = {"preset": value} if isinstance(value, str) else value
        if not isinstance(described, dict) or described.get("precision") is not None:
            return described
        known = presets.devices().get(str(described.get("preset")))
        return described if known is None else {**described, "precision": known.default_precision}

    def refusals(self) -> Iterator[RefusalError | str]:
        if (self.preset is None) == (self.peak is None):
            yield "give either a preset or a peak"
        if self.preset is None:
            if self.peak is not None and self.peak <= 0:
                yield refused("peak", "must be above 0")
        else:
            self._preset_rate(self.preset)

    @property
    def share(self) -> float:
        """The share of the peak that an estimate takes."""
        return DEFAULT_EFFICIENCY if self.efficiency is None else self.efficiency

    @property
    def rate(self) -> float:
        """FLOP/s that an estimate takes."""
        if self.preset is None:
            assert self.peak is not None
            return self.peak * self.share
        return self._preset_rate(self.preset) * self.share

    def compute_distribution(self, workload: Workload) -> Distribution:
        """The distribution of the times of its steps."""
        mean = self.step_time(workload).seconds
        return Lognormal(mean=mean, sigma=self.sigma) if self.sigma else Constant(value=mean)

    def step_time(self, workload: Workload) -> StepTime:
        """The mean time of a step, and how it is known."""
        batch = workload.batch_size
        curve = self._measurement(workload)
        if curve is not None:
            doubt = ""
            if curve.distance(batch) > FAR:
                doubt = (
                    f"{self._called(workload)} was measured at batch {curve.batches} only, and "
                    f"batch {batch} is taken in proportion (small batches reach less)"
                )
            return StepTime(curve.step_time(batch), curve, doubt)
        doubt = ""
        if self.efficiency is None:
            low, high = (1 / times for times in reversed(self.within))
            known = f", as no measurement of {self._called(workload)} is known"
            doubt = (
                f"the FLOPs of a step at {100 * self.share:.3g} % of the "
                f"{'best matrix product' if self.measured else 'peak'}"
                f"{'' if self.preset is None or self.measured else known}; where steps were "
                f"measured, they took {low:.1f} to {high:.1f} times what such an estimate says"
            )
        return StepTime(workload.flops_per_example() * batch / self.rate, None, doubt)

    @property
    def within(self) -> tuple[float, float]:
        """How many times as fast as an estimate devices were, at least and at most."""
        low, high = presets.measured_shares()
        return low / self.share, high / self.share

    def contradicted(self, workload: Workload) -> str:
        """That the `efficiency` given is not what was measured, and how to have that; else empty.

        Of several measurements near this batch it has to differ from every one. One at a larger
        batch is contradicted by more speed alone: smaller batches reach less.
        """
        batch, every = workload.batch_size, self.measurements(workload)
        near = [one for one in every if one.distance(batch) <= FAR]
        known = near or [one for one in every if one.speeds[0][0] > batch]
        if self.efficiency is None or not known:
            return ""
        given = batch / self.step_time(workload).seconds
        speeds = [batch / one.step_time(batch) for one in known]
        if given <= max(speeds) * _APART and (not near or given >= min(speeds) / _APART):
            return ""
        first, *others = (f"{speed:,.4g}" for speed in speeds)
        beside = f"; others: {', '.join(dict.fromkeys(others))}" if others else ""
        keys = "efficiency and measured" if self.measured else "efficiency"
        return (
            f"efficiency {self.efficiency:g} makes {given:,.4g} examples/s of "
            f"{self._called(workload)} at batch {batch}; measured were {first} at batch "
            f"{known[0].batches} ({known[0].framework}, {known[0].hardware}{beside}), which is an "
            f"efficiency of {self.efficiency * speeds[0] / given:.2g}. To use what was measured "
            f"leave {keys} out."
        )

    def measurements(self, workload: Workload) -> tuple[MeasuredSpeed, ...]:
        """What was measured of the workload's model in this precision, first what is used.

        Of several that with the nearest batch, then the first of the table.
        """
        if self.preset is None or workload.model is None:
            return ()
        assert self.precision is not None
        found = presets.measured_speeds(self.preset, workload.model, self.precision)
        return tuple(sorted(found, key=lambda one: one.distance(workload.batch_size)))

    def _measurement(self, workload: Workload) -> MeasuredSpeed | None:
        """What is used; None where an estimate is asked for, or there is nothing."""
        if self.efficiency is not None or self.measured:
            return None
        return next(iter(self.measurements(workload)), None)

    def _called(self, workload: Workload) -> str:
        return f"{workload.model or 'this problem'} on {self.preset} in {self.precision}"

    def _preset_rate(self, name: str) -> float:
        """FLOP/s of a preset; ValueError where there is none of its kind."""
        precision = self.precision or presets.device(name).default_precision
        known = presets.device_matrix_product if self.measured else presets.device_peak
        return known(name, precision)


class DropCompute(Model):
    """When a worker gives up the rest of its micro-batches of a step.

    It looks before each micro-batch whether the `threshold` has passed, and ends the one it is at.
    Giladi et al., 2023 (DropCompute, arXiv 2306.10598).
    """

    threshold: Seconds = Field(gt=0)
    """Time after the beginning of a step at which a worker gives up the rest of its batches."""
    divide_by: Literal["computed", "all"] = "computed"
    """Whether the mean is over the micro-batches that were computed or over all of them."""
