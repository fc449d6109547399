"""Memory of a device: the formula of the ZeRO paper, and what is said of it."""

from typing import Any

import pytest
from pydantic import ValidationError

from tests.building import scenario
from varsim import Scenario
from varsim.report.words.memory import memory, misfit, too_large
from varsim.values import presets
from varsim.values.optimizer import Adam, Momentum, Optimizer, Sgd

ADAM = {"kind": "adam", "learning_rate": 0.1}
GB = 1e9


def of_7b(
    *strategies: dict[str, Any], workers: int = 64, device: Any = "h100_sxm", **workload: Any
) -> Scenario:
    made = scenario({"kind": "on_write"}).model_dump(exclude_unset=True)
    made["cluster"] = {"workers": workers, "device": device, "network": made["cluster"]["network"]}
    made["workload"] = {
        "problem": {"kind": "timing"},
        "model": "llama2_7b",
        "bytes_per_parameter": 2,
        "optimizer": ADAM,
        **workload,
    }
    made["strategies"] = tuple({"kind": "on_write", **each} for each in strategies)
    return Scenario.model_validate(made)


def kept(settings: dict[str, Any], optimizer: Optimizer | None = None, **workload: Any) -> Any:
    sharded = {"name": "a", "sharding": "optimizer"}
    made = of_7b(sharded, {"name": "b", **settings}, **workload)
    if optimizer is not None:
        made = made.model_copy(update={"workload": made.workload.with_optimizer(optimizer)})
    found = made.strategies[1].memory(made.cluster, made.workload)
    assert found is not None
    return found


class TestFormula:
    # Rajbhandari et al., 2020, figure 1, has 7.5 billion parameters, k = 12 and 64 devices: 120,
    # 31.4, 16.6 and 1.9 GB. So each is here for 6.738 of them.
    @pytest.mark.parametrize(
        ("sharding", "paper"),
        [(None, 120.0), ("optimizer", 31.4), ("gradients", 16.6), ("parameters", 1.9)],
    )
    def test_mixed_precision_adam_as_in_the_paper(self, sharding: str | None, paper: float) -> None:
        found = kept({"sharding": sharding, "bucket_size": 1.0} if sharding else {})
        scale = presets.model("llama2_7b").parameters / 7.5e9
        assert (found.total - found.whole) / GB / scale == pytest.approx(paper, abs=0.05)

    def test_of_fp32_there_is_no_copy(self) -> None:
        found = kept({"sharding": "gradients"}, bytes_per_parameter=4)
        parameters = presets.model("llama2_7b").parameters
        assert found.parameters == 4 * parameters
        assert found.gradients == 4 * parameters / 64
        assert found.optimizer == 8 * parameters / 64
        assert found.per_parameter == "4 + 4/64 + 8/64"

    @pytest.mark.parametrize(
        ("optimizer", "state"),
        [
            (Sgd(learning_rate=0.1), 4),
            (Momentum(learning_rate=0.1, momentum=0.9), 8),
            (Adam(learning_rate=0.1), 12),
        ],
        ids=["sgd", "momentum", "adam"],
    )
    def test_state(self, optimizer: Optimizer, state: int) -> None:
        found = kept({}, optimizer)
        assert found.optimizer == state * presets.model("llama2_7b").parameters

    def test_what_is_gathered_is_whole_meanwhile(self) -> None:
        # Every tensor by itself: one of 32,000 x 4,096 numbers and its gradient; with a prefetch
        # the norm beside it, too.
        largest = 2 * 32000 * 4096
        one = {"sharding": "parameters", "bucketing": "layers"}
        assert kept(one).whole == 2 * largest
        assert kept({**one, "overlap": True}).whole == 2 * largest + 2 * 4096
        assert kept({"sharding": "gradients", "bucketing": "layers"}).whole == largest
        assert kept({"sharding": "optimizer"}).whole == 0

    def test_a_group_shares_one_copy(self) -> None:
        found = kept({"sharding": "parameters", "shard_group": 8})
        assert found.per_parameter == "2/8 + 2/8 + 12/8"
        parameters = presets.model("llama2_7b").parameters
        assert found.parameters + found.gradients + found.optimizer == 16 * parameters / 8
        # A transformer layer and its gradients; with overlap the layer beside it, too.
        layer = 2 * 202_383_360
        assert found.whole == 2 * layer
        ahead = kept({"sharding": "parameters", "overlap": True, "micro_batches": 4})
        assert ahead.whole == 3 * layer


class TestWords:
    def test_what_does_not_fit(self) -> None:
        plain, sharded = {"name": "plain"}, {"name": "all", "sharding": "parameters"}
        made = of_7b(plain, sharded)
        (said,) = memory(made)
        assert "'plain' 108 GB (2 + 2 + 12 bytes a parameter), which does not fit" in said
        assert "'all' 2.49 GB (2/64 + 2/64 + 12/64 bytes a parameter, and 810 MB of" in said
        assert "activations" in said
        first = misfit(made)
        assert first.startswith("'plain' does not fit into the 80 GB of a device, with 108 GB")

    def test_without_shards_only_what_does_not_fit_is_said(self) -> None:
        said = of_7b({}, optimizer=None)
        assert memory(said) == []  # 27 GB of parameters and gradients
        assert misfit(said) == ""
        large = of_7b({}, device="t4", optimizer=None)
        assert "does not fit into 16 GB" in memory(large)[0]
        assert "its state, which may be most of it, is not counted" in memory(large)[1]

    def test_a_device_of_unknown_memory(self) -> None:
        made = of_7b({"sharding": "optimizer"}, device={"peak": 1e14})
        assert "is not known" in memory(made)[1]
        assert misfit(made) == ""

    def test_an_optimizer_of_times_only_needs_somebody_who_asks_what_it_takes(self) -> None:
        assert of_7b({"sharding": "optimizer"}).workload.optimizer is not None
        fits = of_7b({}, device="h200_sxm")  # 108 GB fit into 141: only check says so
        assert memory(fits) == []
        assert "all-reduce 108 GB" in memory(fits, always=True)[0]
        with pytest.raises(ValidationError, match="nothing is sharded, and no device's memory"):
            of_7b({}, device={"peak": 1e14})

    def test_what_does_not_fit_is_told_of_alone(self) -> None:
        # As with --strategy, and in a plan: what it keeps is not less because others are left out.
        made = of_7b({"name": "plain"}, {"name": "all", "sharding": "parameters"})
        alone = made.with_only(made.strategies[:1])
        assert misfit(alone) == misfit(made) != ""
        Scenario.model_validate(alone.model_dump(exclude_unset=True))
        assert made.with_only(made.strategies[1:]).workload.optimizer is not None
        assert too_large(made, "plain") == " (too large for its device)"
        assert too_large(made, "all") == ""


P, SLOTS = 13.476831232, 26.953662464  # GB of the 7B's parameters in 2 bytes, of a slot in 4


class TestStrategies:
    """Adam in mixed precision: 2 + 2 + 12 bytes where replicas update copies of their own."""

    @pytest.mark.parametrize(
        ("strategy", "further"),
        [
            ({"kind": "single"}, 0.0),
            # The result of a read is not one of the copies, unless it is replica 0's.
            ({"kind": "on_read"}, P),
            ({"kind": "on_read", "aggregation": "only_first_replica"}, 0.0),
            ({"kind": "local_sgd", "period": 4}, P),
            ({"kind": "easgd"}, P),
            # Both sides of a ring; one peer at a time; a row of weights for two others.
            ({"kind": "gossip"}, 2 * P),
            ({"kind": "gossip", "mode": "push_sum"}, P),
            ({"kind": "gossip", "mode": "asynchronous"}, P),
            ({"kind": "gossip", "matrices": (((0.25,) * 4,) * 4,)}, 3 * P),
            # The shared model, a momentum, and one outer gradient, of which fragments take turns.
            ({"kind": "diloco", "inner_steps": 8}, P + SLOTS + P),
            ({"kind": "diloco", "inner_steps": 8, "fragments": 4}, P + SLOTS + P / 4),
            (
                {
                    "kind": "diloco",
                    "inner_steps": 8,
                    "fragments": 4,
                    "delay": 5,
                    "convention": "paper",
                },
                P + SLOTS + 3 * P / 4,  # sent after 0, 2 and 4 steps, the first applied after 5
            ),
        ],
        ids=lambda one: "-".join(map(str, one.values()))[:40] if isinstance(one, dict) else "",
    )
    def test_on_devices_with_copies_of_their_own(
        self, strategy: dict[str, Any], further: float
    ) -> None:
        made = of_7b(strategy, workers=4)
        found = made.memory_of(made.strategies[0])
        assert found.total / GB == pytest.approx(8 * P + further)
        assert sum(size for _, size in found.further) / GB == pytest.approx(further)

    @pytest.mark.parametrize(
        ("strategy", "gradients", "others"),
        [
            ({"kind": "none"}, 0, 7.0),
            ({"kind": "none", "use_locking": True}, 4, 7.0),
            ({"kind": "none", "overlap": True}, 4, 7.0),
            ({"kind": "none", "use_locking": True, "overlap": True}, 4, 7.0),
            ({"kind": "ssp", "staleness": 1}, 0, 7.0),
            ({"kind": "k_async", "k": 3}, 3, 7.0),
            ({"kind": "k_batch_async", "k": 9}, 9, 7.0),
            ({"kind": "k_batch_sync", "k": 9}, 9, 7.0),
            ({"kind": "backup_workers", "replicas_to_aggregate": 3}, 3, 7.0),
            ({"kind": "backup_workers", "replicas_to_aggregate": 3, "overlap": True}, 4, 7.0),
            ({"kind": "sync_replicas", "replicas_to_aggregate": 3}, 1, 7.0),
            ({"kind": "sync_replicas", "replicas_to_aggregate": 3, "overlap": True}, 5, 7.0),
            ({"kind": "easgd"}, 0, 1.0),
            ({"kind": "on_write", "collective": "push_pull"}, 1, 0.0),
        ],
        ids=lambda one: "-".join(map(str, one.values())) if isinstance(one, dict) else "",
    )
    def test_on_servers(self, strategy: dict[str, Any], gradients: int, others: float) -> None:
        """2 bytes of parameters and 12 of Adam's state, a seventh of that without, and so on."""
        made = of_7b(strategy, workers=4)
        (one,) = made.strategies
        found = made.server_memory_of(one)
        assert found is not None
        assert found.total / GB == pytest.approx((others + gradients) * P)
        if not one.updates_copies:
            assert made.memory_of(one).total / GB == pytest.approx(2 * P)
        halves = made.model_copy(
            update={"cluster": made.cluster.model_copy(update={"parameter_servers": 2})}
        )
        half = halves.server_memory_of(one)
        assert half is not None
        assert half.total == pytest.approx(found.total / 2)

    def test_what_only_values_need_is_held_too(self) -> None:
        averaged = {
            "kind": "sync_replicas",
            "replicas_to_aggregate": 3,
            "variable_averages": {"decay": 0.5},
        }
        policy = {"kind": "delay_compensated", "variance_control": 0.1}
        for strategy, copies in ((averaged, 2), ({"kind": "none", "staleness_policy": policy}, 3)):
            made = scenario(strategy, workload={"model": "llama2_7b"})
            kept = made.server_memory_of(made.strategies[0])
            assert kept is not None  # parameters, and accumulators beside the averages
            further = copies * 2 * P
            assert sum(size for _, size in kept.further) / GB == pytest.approx(further)

    def test_the_fullest_server_by_placement(self) -> None:
        sizes = [n * 2 for n in presets.model("llama2_7b").tensors]
        of_two = of_7b({"kind": "none"}, optimizer={"kind": "sgd", "learning_rate": 0.1})
        placed = {"parameter_servers": 2, "placement": "round_robin"}
        made = of_two.model_copy(update={"cluster": of_two.cluster.model_copy(update=placed)})
        kept = made.server_memory_of(made.strategies[0])
        assert kept is not None
        fuller = max(sum(sizes[::2]), sum(sizes[1::2]))
        assert kept.total == 3 * fuller  # 2 bytes, and the fp32 copy of mixed precision
        assert kept.per_parameter == "2 + 4"

    def test_a_worker_holds_only_the_rows_of_a_sparse_variable_that_it_reads(self) -> None:
        problem = {"kind": "embedding", "users": 1000, "items": 1000, "dimension": 8}
        made = scenario({"kind": "none"}, problem=problem, workload={"batch_size": 4})
        kept = made.memory_of(made.strategies[0])
        # Of either variable 4 rows of 8 numbers in 4 bytes, each with its own number in 8.
        assert (kept.parameters, kept.gradients, kept.optimizer) == (320, 320, 0)
        copies = scenario({"kind": "on_read"}, problem=problem, workload={"batch_size": 4})
        assert copies.memory_of(copies.strategies[0]).parameters == 64_000
