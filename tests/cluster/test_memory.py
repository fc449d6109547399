"""Memory of a device: the formula of the ZeRO paper, and what is said of it."""

from typing import Any

import pytest
from building import scenario
from pydantic import ValidationError

from varsim.report.words.memory import memory, misfit, too_large
from varsim.scenario.training import Scenario
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


class TestWords:
    def test_what_does_not_fit(self) -> None:
        plain, sharded = {"name": "plain"}, {"name": "all", "sharding": "parameters"}
        made = of_7b(plain, sharded)
        (said,) = memory(made)
        assert "'plain' 108 GB (2 + 2 + 12 bytes a parameter), which does not fit" in said
        assert "'all' 2.21 GB (2/64 + 2/64 + 12/64 bytes a parameter, and 524 MB of" in said
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

    def test_an_optimizer_of_times_only_needs_shards(self) -> None:
        assert of_7b({"sharding": "optimizer"}).workload.optimizer is not None
        with pytest.raises(ValidationError, match="nothing is sharded, or too large"):
            of_7b({}, device="h200_sxm")  # 108 GB fit into 141

    def test_what_does_not_fit_is_told_of_alone(self) -> None:
        # As with --strategy, and in a plan: what it keeps is not less because others are left out.
        made = of_7b({"name": "plain"}, {"name": "all", "sharding": "parameters"})
        alone = made.with_only(made.strategies[:1])
        assert misfit(alone) == misfit(made) != ""
        Scenario.model_validate(alone.model_dump(exclude_unset=True))
        assert made.with_only(made.strategies[1:]).workload.optimizer is not None
        assert too_large(made, "plain") == " (too large for its device)"
        assert too_large(made, "all") == ""
