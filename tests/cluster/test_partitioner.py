"""Tensors cut into parts: how many, how large, and where they come to lie."""

from typing import Any

import pytest
from pydantic import ValidationError

from tests.building import milliseconds, run, scenario
from varsim import Scenario

FIXED = {"kind": "fixed", "shards": 4}
KIB = 1024.0


def described_by(described: dict[str, Any]) -> Any:
    """A partitioner as a cluster has it."""
    cluster = {"placement": "round_robin", "partitioner": described}
    return scenario({"kind": "none"}, cluster=cluster).cluster.partitioner


def cut(total: int, **described: Any) -> list[int]:
    return list(described_by(described).cut(total))


class TestParts:
    def test_a_fixed_number(self) -> None:
        assert cut(10, **FIXED) == [3, 3, 2, 2]
        assert cut(3, **FIXED) == [1, 1, 1]

    def test_of_at_least_a_size_but_for_the_rounding(self) -> None:
        # As in TensorFlow's documentation: ceil(bytes / size), up to max_shards.
        rule = {"kind": "min_size", "size": 256 * KIB, "max_shards": 8}
        assert cut(int(100 * KIB), **rule) == [100 * KIB]
        assert cut(int(512 * KIB), **rule) == [256 * KIB] * 2
        assert cut(int(600 * KIB), **rule) == [200 * KIB] * 3
        assert cut(int(8192 * KIB), **rule) == [1024 * KIB] * 8
        assert cut(int(512 * KIB), kind="min_size", max_shards=8) == [256 * KIB] * 2

    def test_of_at_most_a_size(self) -> None:
        rule = {"kind": "max_size", "size": 4e6}
        assert cut(4_000_000, **rule) == [4_000_000]
        assert cut(4_000_001, **rule) == [2_000_001, 2_000_000]
        assert cut(102_760_448, **rule) == [3_952_325] * 24 + [3_952_324] * 2
        assert cut(102_760_448, **rule, max_shards=2) == [51_380_224] * 2

    @pytest.mark.parametrize("size", [1, 2, 99, 4096, 1_000_003])
    @pytest.mark.parametrize(
        "described",
        [
            FIXED,
            {"kind": "min_size", "size": 10.0, "max_shards": 7},
            {"kind": "max_size", "size": 10.0},
        ],
    )
    def test_nothing_is_lost_and_parts_are_even(self, size: int, described: Any) -> None:
        parts = cut(size, **described)

        assert sum(parts) == size
        assert len(parts) == described_by(described).parts(size)
        assert max(parts) - min(parts) <= 1
        assert min(parts) >= 1
        assert parts == sorted(parts, reverse=True)

    @pytest.mark.parametrize(
        "wrong",
        [
            {"kind": "fixed", "shards": 1},
            {"kind": "min_size", "size": 10.0, "max_shards": 1},
            {"kind": "min_size", "size": 10.0},
            {"kind": "max_size", "size": 0.5},
            {"kind": "max_size"},
            {"kind": "halves"},
        ],
    )
    def test_what_cannot_be_is_refused(self, wrong: dict[str, Any]) -> None:
        with pytest.raises(ValidationError):
            described_by(wrong)


class TestRuns:
    @pytest.mark.parametrize(
        ("partitioner", "step"),
        [
            # The server with the 40 bytes sends and gets them at 1 byte per ms.
            (None, 40 + 100 + 40),
            # Cut in two: 20 and 20, and the other variable's 2 and 2 bytes.
            ({"kind": "fixed", "shards": 2}, 22 + 100 + 22),
            # 4 bytes each: 11 parts on 2 servers.
            ({"kind": "max_size", "size": 4.0}, 24 + 100 + 24),
        ],
    )
    def test_parts_even_out_the_servers(self, partitioner: Any, step: float) -> None:
        described = {
            "workers": 1,
            "parameter_servers": 2,
            "placement": "round_robin",
            "partitioner": partitioner,
        }
        settings = {
            "cluster": described,
            "network": {
                "bandwidth": 1e6,
                "server_bandwidth": 1e3,
                "latency": 0.0,
                "sharing": "first_come",
            },
            "problem": {"kind": "linear_regression"},
            "stop": {"global_steps": 1},
        }
        trace = run("none", **settings)

        assert milliseconds(trace.steps) == [step]

    @pytest.mark.parametrize(
        ("placement", "partitioner", "slowest"),
        [
            # Tensors of 40 and 4 bytes. In turn: 40 | 4; cut at 16: 14, 13 | 13, 4.
            ("round_robin", None, 40),
            ("round_robin", {"kind": "max_size", "size": 16.0}, 27),
            # To the emptiest: 14, 4 | 13, 13.
            ("by_bytes", None, 40),
            ("by_bytes", {"kind": "max_size", "size": 16.0}, 26),
        ],
    )
    def test_the_fullest_server_is_the_slowest(
        self, placement: str, partitioner: Any, slowest: float
    ) -> None:
        trace = run(
            "none",
            cluster={
                "workers": 1,
                "parameter_servers": 2,
                "placement": placement,
                "partitioner": partitioner,
            },
            network={"bandwidth": 1e6, "server_bandwidth": 1e3, "latency": 0.0},
            problem={"kind": "linear_regression"},
            stop={"global_steps": 1},
        )
        assert milliseconds(trace.steps) == [slowest + 100 + slowest]

    def test_vgg16_on_8_servers_is_as_good_as_cut_evenly(self) -> None:
        # Its first dense layer holds three quarters of all.
        def fullest(placement: str, partitioner: dict[str, Any] | None) -> float:
            cluster = {"parameter_servers": 8, "placement": placement, "partitioner": partitioner}
            trace = run(
                "none",
                cluster={**cluster, "workers": 1},
                network={"bandwidth": 1e9, "latency": 0.0},
                problem={"kind": "timing"},
                workload={"model": "vgg16", "optimizer": None},
                stop={"global_steps": 1},
            )
            return max(link.moved for link in trace.links if link.name.startswith("ps"))

        even = 553_430_176 / 8
        assert fullest("by_bytes", None) > 5 * even
        assert fullest("by_bytes", {"kind": "max_size", "size": 4e6}) < 1.01 * even

    def test_too_many_parts_are_refused(self) -> None:
        described = {"placement": "by_bytes", "partitioner": {"kind": "max_size", "size": 16.0}}
        with pytest.raises(ValidationError, match=r"6,389,258 parts, but at most 100,000"):
            scenario({"kind": "none"}, cluster=described, workload={"model": "resnet50"})

    def test_it_leaves_with_the_strategies_that_use_servers(self) -> None:
        described = {"placement": "by_bytes", "partitioner": FIXED}
        made = scenario({"kind": "none"}, cluster=described)
        both = Scenario.model_validate(
            {**dict(made), "strategies": ({"kind": "on_write"}, {"kind": "none"})}
        )

        assert both.with_only(both.strategies[:1]).cluster.partitioner is None
        assert both.with_only(both.strategies[1:]).cluster == both.cluster
