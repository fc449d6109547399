"""What does not fit into memory is refused, with what would fit; or marked."""

from typing import Any

import pytest
from pydantic import ValidationError

from tests.building import scenario
from tests.reports import cells, checked, noted
from tests.seams import Number, simulate
from varsim import Scenario, ScenarioError, load

# 6.74 billion parameters in 2 bytes: 13.5 GB; with Adam 108 GB, of which 12 parts of 16 its state.
MOMENTUM = {"kind": "momentum", "learning_rate": 0.1, "momentum": 0.9}
FILE = """\
# Does it fit?
name: fits
replications: 1
cluster:
  workers: {workers}
  {device}
  network: {{kind: star, bandwidth: 100 Gbit/s, latency: 5 us}}
  {cluster}
workload:
  problem: {{kind: timing}}
  model: llama2_7b
  bytes_per_parameter: {number}
  optimizer: {{kind: adam, learning_rate: 0.001}}
strategies:
  - {strategy}
stop: {{global_steps: 3}}
memory: {memory}
"""
H100 = "device: {preset: h100_sxm, precision: bf16}"


def file(strategy: str, memory: str = "{exceeded: refuse}", **changes: Any) -> str:
    given = {"workers": 8, "device": H100, "cluster": "", "number": 2, **changes}
    return FILE.format(strategy=strategy, memory=memory, **given)


class TestRefused:
    @pytest.mark.parametrize(
        ("text", "said"),
        [
            (
                file("{kind: on_write}"),
                "into the 80 GB of a device: it needs 108 GB before any activation; sharding: "
                "optimizer would fit",
            ),
            # 27 GB of parameters and gradients, and the state in 8 parts: 37.1. With gradients in
            # parts, too, and the largest tensor's whole: 25.5; but all of them where they are
            # reduced at once.
            (
                file(
                    "{kind: on_write, sharding: optimizer, bucketing: layers}",
                    "{device: 26 GB, exceeded: refuse}",
                ),
                "it needs 37.1 GB before any activation; sharding: gradients would fit",
            ),
            (
                file("{kind: on_write, sharding: optimizer}", "{device: 26 GB, exceeded: refuse}"),
                "it needs 37.1 GB before any activation; sharding: parameters would fit",
            ),
            # 108 / n GB and two whole layers, 3.6 at a bucket of 25 MiB or its largest tensor.
            (
                file("{kind: on_write, sharding: parameters}", "{device: 8 GB, exceeded: refuse}"),
                "cluster.workers: 15 would fit",
            ),
            (
                file("{kind: on_write}", "{device: 8 GB, exceeded: refuse}"),
                "sharding: parameters with cluster.workers: 15 would fit",
            ),
            (
                file("{kind: none}", "{device: 30 GB, exceeded: refuse}", number=4),
                "it needs 53.9 GB before any activation; workload.bytes_per_parameter: 2 would fit",
            ),
            (
                file("{kind: none}", "{activations: 60 GB, exceeded: refuse}"),
                "it needs 87 GB; cluster.device: gh200, with 96 GB, would fit",
            ),
            (
                file("{kind: diloco, inner_steps: 6}", "{device: 155 GB, exceeded: refuse}"),
                "it needs 162 GB before any activation; fragments: 2 would fit",
            ),
            (
                file("{kind: none}", "{server: 64 GB, exceeded: refuse}"),
                "into the 64 GB of a server: it needs 94.3 GB; cluster.parameter_servers: 2 would",
            ),
            (
                file(
                    "{kind: none, on: {parameter_servers: 2}}",
                    "{server: 40 GB, exceeded: refuse}",
                ),
                "it needs 47.2 GB; on.parameter_servers: 3 would fit",
            ),
        ],
    )
    def test_with_the_smallest_change_that_would_fit(self, text: str, said: str) -> None:
        with pytest.raises(ScenarioError) as refused:
            load(text)
        line, *shown = str(refused.value).splitlines()
        assert line.startswith("scenario:15:5: error: strategies[0]: '")
        assert len(shown) == 2, "the line of the file, and a mark below it"
        assert said in line
        assert line.endswith("(to simulate it anyway: memory.exceeded: mark)")

    def test_what_is_proposed_fits(self) -> None:
        load(file("{kind: on_write, sharding: optimizer}"))
        layers = "{kind: on_write, sharding: gradients, bucketing: layers}"
        load(file(layers, "{device: 26 GB, exceeded: refuse}"))
        limits = "{device: 8 GB, exceeded: refuse}"
        load(file("{kind: on_write, sharding: parameters}", limits, workers=15))
        with pytest.raises(ScenarioError):
            load(file("{kind: on_write, sharding: parameters}", limits, workers=14))
        load(
            file(
                "{kind: none}", "{server: 64 GB, exceeded: refuse}", cluster="parameter_servers: 2"
            )
        )

    def test_only_what_runs_and_only_if_nobody_says_otherwise(self) -> None:
        two = file("{kind: on_write}\n  - {kind: on_write, name: b, sharding: optimizer}")
        with pytest.raises(ScenarioError):
            load(two)
        load(two, strategies=["b"])
        load(two, ["memory.exceeded=mark"])
        # A placement that puts whole tensors on one server.
        uneven = file(
            "{kind: none}",
            "{server: 48 GB, exceeded: refuse}",
            cluster="parameter_servers: 2\n  placement: round_robin",
        )
        with pytest.raises(ScenarioError, match=r"cluster\.placement: partitioned would fit"):
            load(uneven)

    def test_a_limit_of_servers_that_nobody_has(self) -> None:
        with pytest.raises(ScenarioError, match=r"memory\.server has no effect"):
            load(file("{kind: on_write, sharding: optimizer}", "{server: 1 GB}"))

    def test_what_is_not_known_is_no_reason(self) -> None:
        loaded = load(
            file("{kind: on_write}", "{}", device="device: {peak: 300 TFLOP/s}").replace(
                "  optimizer: {kind: adam, learning_rate: 0.001}\n", ""
            )
        )
        assert cells(loaded.check().report, "memory") == ()


class TestTwoSizes:
    """A V100 has 16 or 32 GB."""

    def made(self, number: int, limits: str = "{exceeded: refuse}") -> Scenario:
        text = file("{kind: none}", limits, device="device: v100_sxm2", number=number)
        loaded = load(text)
        assert isinstance(loaded.kind, str)
        scenario: Scenario = loaded
        return scenario

    def test_what_fits_one_of_them_is_told(self) -> None:
        made = self.made(2)
        (sizes,) = noted(made, "memory-sizes")
        assert sizes.values == {"sizes": ("16 GB", "32 GB")}
        assert not noted(made, "memory-marked")

    def test_what_fits_neither_is_refused(self) -> None:
        with pytest.raises(ScenarioError, match="into the 32 GB of a device: it needs 53"):
            self.made(4)
        with pytest.raises(ScenarioError, match="into the 16 GB of a device: it needs 27 GB"):
            self.made(2, "{device: 16 GB, exceeded: refuse}")


def large_and_small(**limits: Any) -> Scenario:
    """Two strategies, of which the first keeps 800 MB on each device, the second 600."""
    return scenario(
        {},
        problem={"kind": "timing", "size": 2e8},
        workload={"optimizer": MOMENTUM if limits else None},
        strategies=(
            {"kind": "local_sgd", "period": 1, "name": "large"},
            {"kind": "on_write", "name": "small"},
        ),
        stop={"global_steps": 8},
        memory=limits,
    )


class TestWords:
    def test_what_does_not_fit_is_not_ranked(self) -> None:
        told = simulate(large_and_small(device=7e8)).report
        assert told.headline[0].values["best"] == "small"
        assert told.table.rows == ("small", "large")
        (note,) = (note for note in told.notes if note.code == "memory")
        assert note.values["who"] == ("large",)

    def test_nothing_is_said_of_what_fits(self) -> None:
        free, limited = (simulate(large_and_small(**limits)) for limits in ({}, {"device": 9e8}))
        assert free.answer() == limited.answer()
        assert "memory" not in [note.code for note in limited.report.notes]
        begun = checked(large_and_small(device=9e8)).report
        assert cells(begun, "memory") == (Number(8e8, unit="B"), Number(6e8, unit="B"))

    def test_activations(self) -> None:
        made = large_and_small(device=9e8, activations=3e8)
        assert cells(checked(made).report, "memory") == (
            Number(1.1e9, unit="B"),
            Number(9e8, unit="B"),
        )
        (note,) = noted(made, "memory-marked")
        assert note.values["who"] == ("large",)
        assert not noted(made, "memory-parts")

    def test_a_key_at_its_default_is_not_written(self) -> None:
        assert "memory" not in large_and_small().model_dump(mode="json")
        written = large_and_small(device=9e8).model_dump(mode="json")
        assert written["memory"]["device"] == "900 MB"


def test_limits_are_quantities() -> None:
    with pytest.raises(ValidationError):
        large_and_small(device=0.0)
