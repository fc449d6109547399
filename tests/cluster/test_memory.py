"""Memory of a device: the formula of the ZeRO paper, and what each strategy keeps besides."""

from typing import Any

import pytest
from pydantic import ValidationError

from tests.building import scenario
from varsim import Scenario

ADAM = {"kind": "adam", "learning_rate": 0.1}
GB = 1e9
PARAMETERS = 6_738_415_616  # of Llama 2 7B
LARGEST = 32_000 * 4_096  # of its tensors: the embedding's, and the head's
P, SLOTS = PARAMETERS * 2 / GB, PARAMETERS * 4 / GB  # GB, in 2 bytes, and of a slot in 4


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


def kept(settings: dict[str, Any], **workload: Any) -> Any:
    sharded = {"name": "a", "sharding": "optimizer"}
    made = of_7b(sharded, {"name": "b", **settings}, **workload)
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
        scale = PARAMETERS / 7.5e9
        assert (found.total - found.whole) / GB / scale == pytest.approx(paper, abs=0.05)

    def test_of_fp32_there_is_no_copy(self) -> None:
        found = kept({"sharding": "gradients"}, bytes_per_parameter=4)
        assert found.parameters == 4 * PARAMETERS
        assert found.gradients == 4 * PARAMETERS / 64
        assert found.optimizer == 8 * PARAMETERS / 64
        assert found.per_parameter == "4 + 4/64 + 8/64"

    @pytest.mark.parametrize(
        ("optimizer", "state"),
        [
            ({"kind": "sgd", "learning_rate": 0.1}, 4),
            ({"kind": "momentum", "learning_rate": 0.1, "momentum": 0.9}, 8),
            (ADAM, 12),
        ],
        ids=["sgd", "momentum", "adam"],
    )
    def test_state(self, optimizer: dict[str, Any], state: int) -> None:
        found = kept({}, optimizer=optimizer)
        assert found.optimizer == state * PARAMETERS

    def test_what_is_gathered_is_whole_meanwhile(self) -> None:
        # Every tensor by itself: one of 32,000 x 4,096 numbers and its gradient; with a prefetch
        # the norm beside it, too.
        largest = 2 * LARGEST
        one = {"sharding": "parameters", "bucketing": "layers"}
        assert kept(one).whole == 2 * largest
        assert kept({**one, "overlap": True}).whole == 2 * largest + 2 * 4096
        assert kept({"sharding": "gradients", "bucketing": "layers"}).whole == largest
        assert kept({"sharding": "optimizer"}).whole == 0

    def test_a_group_shares_one_copy(self) -> None:
        found = kept({"sharding": "parameters", "shard_group": 8})
        assert found.per_parameter == "2/8 + 2/8 + 12/8"
        assert found.parameters + found.gradients + found.optimizer == 16 * PARAMETERS / 8
        # A transformer layer and its gradients; with overlap the layer beside it, too.
        layer = 2 * 202_383_360
        assert found.whole == 2 * layer
        ahead = kept({"sharding": "parameters", "overlap": True, "micro_batches": 4})
        assert ahead.whole == 3 * layer


def test_an_optimizer_of_times_only_needs_somebody_who_asks_what_it_takes() -> None:
    made = of_7b({"name": "plain"}, {"name": "all", "sharding": "parameters"})
    assert made.workload.optimizer is not None
    # What one keeps is not less because others are left out.
    for one in made.strategies:
        alone = made.with_only((one,))
        assert alone.memory_of(one) == made.memory_of(one)
        assert alone.workload.optimizer is not None
    with pytest.raises(ValidationError, match="nothing is sharded, and no device's memory"):
        of_7b({}, device={"peak": 1e14})


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
        if not one.traits.updates_copies:
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
        # In turn the embedding, first, and the head, last of 291, come to lie on the same one.
        of_two = of_7b({"kind": "none"}, optimizer={"kind": "sgd", "learning_rate": 0.1})
        placed = {"parameter_servers": 2, "placement": "round_robin"}
        made = of_two.model_copy(update={"cluster": of_two.cluster.model_copy(update=placed)})
        kept = made.server_memory_of(made.strategies[0])
        assert kept is not None
        sizes = [2 * sum(own) for own in made.workload.tensor_sizes()]
        assert kept.per_parameter == "2 + 4"  # 2 bytes, and the fp32 copy of mixed precision
        assert PARAMETERS * 3 < kept.total <= sum(sizes) * 3

    def test_a_worker_holds_only_the_rows_of_a_sparse_variable_that_it_reads(self) -> None:
        problem = {"kind": "embedding", "users": 1000, "items": 1000, "dimension": 8}
        made = scenario({"kind": "none"}, problem=problem, workload={"batch_size": 4})
        kept = made.memory_of(made.strategies[0])
        # Of either variable 4 rows of 8 numbers in 4 bytes, each with its own number in 8.
        assert (kept.parameters, kept.gradients, kept.optimizer) == (320, 320, 0)
        copies = scenario({"kind": "on_read"}, problem=problem, workload={"batch_size": 4})
        assert copies.memory_of(copies.strategies[0]).parameters == 64_000
