"""What is refused names TensorFlow's type and a category, and says what to do instead."""

import builtins
from collections.abc import Callable

import numpy as np
import pytest

from tests.seams import load_text
from varsim import ScenarioError
from varsim.distribute.all_reduce import NcclAllReduce
from varsim.distribute.central import CentralStorageStrategy, DefaultStrategy, create_without_scope
from varsim.distribute.container import PerReplica
from varsim.distribute.context import DEFAULT_CONTEXT, Context
from varsim.distribute.cross_device_ops import options
from varsim.distribute.mirrored_strategy import MirroredStrategy, MultiWorkerMirroredStrategy
from varsim.distribute.strategy import Strategy
from varsim.distribute.tensor import Tensor, tensor
from varsim.distribute.variable import DistributedVariable, VariableOptions
from varsim.values.operation import (
    DEFAULT_DEVICE,
    Device,
    DistributionError,
    Operation,
    finish,
    finish_together,
)
from varsim.values.variable import Aggregation, Synchronization

# The reasons that the recorded cases of TensorFlow's variables know (their README, "Categories").
CATEGORIES = {
    *("synchronization_none", "mean_of_non_float", "invalid_synchronization"),
    *("invalid_aggregation", "aggregation_required", "no_reduce_op", "same_value_sum"),
    *("sum_cross_replica_add", "sum_cross_replica_sub", "shape_mismatch", "dtype_mismatch"),
    *("dtype_unsupported", "axis_range", "gather_rank", "wrong_context", "mixed_strategies"),
    *("merge_call_mismatch", "aggregate_read_unsupported", "scatter_unsupported", "batch_mixed"),
    *("colocate", "destination", "not_a_reduce_op", "args_not_a_sequence", "invalid_option"),
    *("devices_undefined", "not_implemented", "algorithm_needs_gpu", "assertion"),
    *("literal_attribute", "per_replica_operand"),
    # What they have no name for (UNKNOWN): what becomes no tensor.
    "not_a_tensor",
}

TWO = [Device(number=0), Device(number=1)]
TWO_MIRRORED = MirroredStrategy(TWO)
ON_READ = Synchronization.ON_READ
SUM, MEAN, NONE = Aggregation.SUM, Aggregation.MEAN, Aggregation.NONE


def made(
    initial: object = 0.0,
    aggregation: object = SUM,
    synchronization: object = Synchronization.AUTO,
    strategy: Strategy | None = None,
) -> tuple[Strategy, DistributedVariable]:
    """A strategy with two replicas, and a variable of it."""
    strategy = strategy or MirroredStrategy(TWO)
    asked = VariableOptions(synchronization, aggregation)
    value = np.asarray(initial, None if isinstance(initial, np.ndarray) else np.float32)
    return strategy, finish(strategy.create(strategy.scope(), value, asked))


def create(
    aggregation: object = NONE, synchronization: object = ON_READ, whole: bool = False
) -> None:
    made(np.array(1, np.int64) if whole else 0.0, aggregation, synchronization)


def in_replicas(
    act: Callable[[Context, DistributedVariable], Operation[object]], **how: object
) -> object:
    strategy, variable = made(**how)
    return finish(strategy.run(DEFAULT_CONTEXT, lambda context: act(context, variable)))


def outside(
    act: Callable[[Context, DistributedVariable], Operation[object]], **how: object
) -> object:
    strategy, variable = made(**how)
    return finish(act(strategy.scope(), variable))


def uneven_merges() -> object:
    strategy = MirroredStrategy(TWO)

    def replica(context: Context) -> Operation[object]:
        if context.replica_id == 0:
            yield from context.merge_call(lambda _: None)

    return finish(strategy.run(DEFAULT_CONTEXT, replica))


def whole_batch() -> object:
    strategy = MirroredStrategy(TWO)
    values = [PerReplica([tensor(1, np.int32, device) for device in TWO]) for _ in range(2)]
    return finish(strategy.batch_reduce_to(strategy.scope(), "SUM", [(v, v) for v in values]))


def gathered(axis: int) -> object:
    strategy = CentralStorageStrategy(TWO, DEFAULT_DEVICE)
    return finish(strategy.gather(strategy.scope(), parts(), axis))


def reduced(op: object, value: object, destination: object = DEFAULT_DEVICE) -> object:
    strategy = CentralStorageStrategy(TWO, DEFAULT_DEVICE)
    return finish(strategy.reduce_to(strategy.scope(), op, value, destination))


def parts() -> PerReplica:
    return PerReplica([tensor(1.0, np.float32, device) for device in TWO])


# category: TensorFlow's type, how a user of the API meets it, and the advice.
PROVOKED: dict[str, tuple[str, Callable[[], object], str]] = {
    "synchronization_none": (
        "ValueError",
        lambda: create(synchronization=Synchronization.NONE),
        "use ON_READ for independent copies, or a strategy that keeps one copy",
    ),
    "mean_of_non_float": (
        "ValueError",
        lambda: create(MEAN, whole=True),
        "use a float dtype, or SUM",
    ),
    "invalid_synchronization": (
        "ValueError",
        lambda: create(synchronization="sometimes"),
        "use one of AUTO, NONE, ON_WRITE, ON_READ",
    ),
    "invalid_aggregation": (
        "ValueError",
        lambda: create(aggregation="median"),
        "use one of NONE, SUM, MEAN, ONLY_FIRST_REPLICA",
    ),
    "aggregation_required": (
        "ValueError",
        lambda: in_replicas(
            lambda context, variable: variable.assign(context, 1.0),
            aggregation=NONE,
            strategy=CentralStorageStrategy(TWO, DEFAULT_DEVICE),
        ),
        "create it with SUM, MEAN or ONLY_FIRST_REPLICA, or update it from outside",
    ),
    "no_reduce_op": (
        "ValueError",
        lambda: outside(
            lambda context, variable: variable.read(context),
            aggregation=NONE,
            synchronization=ON_READ,
        ),
        "use MEAN, SUM or ONLY_FIRST_REPLICA",
    ),
    "same_value_sum": (
        "ValueError",
        lambda: in_replicas(lambda context, variable: variable.assign_add(context, 5.0)),
        "give each replica a tensor of its own, or use MEAN",
    ),
    "sum_cross_replica_add": (
        "ValueError",
        lambda: outside(
            lambda context, variable: variable.assign_add(context, 1.0), synchronization=ON_READ
        ),
        "do it in a replica, or assign the new total",
    ),
    "sum_cross_replica_sub": (
        "ValueError",
        lambda: outside(
            lambda context, variable: variable.assign_sub(context, 1.0), synchronization=ON_READ
        ),
        "do it in a replica, or assign the new total",
    ),
    "shape_mismatch": (
        "ValueError",
        lambda: outside(lambda context, variable: variable.assign(context, np.zeros(3))),
        "reshape the value",
    ),
    "dtype_mismatch": (
        "ValueError",
        lambda: outside(lambda context, variable: variable.assign(context, tensor(1, np.int32))),
        "cast it first",
    ),
    "dtype_unsupported": (
        "InvalidArgumentError",
        lambda: outside(
            lambda context, variable: variable.assign_add(context, True),
            initial=np.array(True),
            aggregation=NONE,
        ),
        "use assign, or an integer variable",
    ),
    "axis_range": (
        "InvalidArgumentError",
        lambda: gathered(0),
        "use an axis that all parts have, and give scalars one of length 1",
    ),
    "gather_rank": (
        "ValueError",
        lambda: finish_together(
            [
                one.gather(one.scope(), tensor(1.0), 0)
                for one in (
                    MultiWorkerMirroredStrategy([DEFAULT_DEVICE], worker, 2) for worker in (0, 1)
                )
            ]
        ),
        "use one that all parts have, and give scalars one of length 1",
    ),
    "wrong_context": (
        "RuntimeError",
        lambda: in_replicas(
            lambda context, variable: made()[0].reduce_to(context, "SUM", parts(), variable)
        ),
        "in a replica use `context.merge_call(...)`, all_reduce or all_gather instead",
    ),
    "mixed_strategies": (
        "RuntimeError",
        lambda: MirroredStrategy(TWO).scope(MirroredStrategy(TWO).scope()),
        "leave the other scope first",
    ),
    "merge_call_mismatch": (
        "RuntimeError",
        uneven_merges,
        "let every replica write the aggregated variables and call merge_call, all_reduce and "
        "all_gather equally often",
    ),
    "aggregate_read_unsupported": (
        "NotImplementedError",
        lambda: outside(
            lambda context, variable: variable.read(context.aggregating()), synchronization=ON_READ
        ),
        "convert the variable to a tensor",
    ),
    "scatter_unsupported": (
        "NotImplementedError",
        lambda: outside(
            lambda context, variable: variable.scatter(context, "max", np.array([0]), 1.0),
            initial=[0.0],
        ),
        "use scatter_add, or assign the whole value",
    ),
    "batch_mixed": (
        "ValueError",
        whole_batch,
        "reduce int32 values one by one, or use int64",
    ),
    "colocate": (
        "ValueError",
        lambda: TWO_MIRRORED.colocate_vars_with(
            TWO_MIRRORED.scope(), create_without_scope(0.0, VariableOptions())
        ),
        "create it there",
    ),
    "destination": (
        "ValueError",
        lambda: reduced("SUM", parts(), ""),
        "name a device as worker/0/1, a variable or a value",
    ),
    "not_a_reduce_op": (
        "ValueError",
        lambda: reduced("MAX", parts()),
        "use SUM or MEAN",
    ),
    "args_not_a_sequence": (
        "ValueError",
        lambda: finish(MirroredStrategy(TWO).run(DEFAULT_CONTEXT, lambda _, x: x, 5)),
        "use (args,)",
    ),
    "invalid_option": (
        "ValueError",
        lambda: options(bytes_per_pack=-1),
        "use 0 for one pack",
    ),
    "devices_undefined": (
        "RuntimeError",
        lambda: DefaultStrategy().worker_devices,
        "use a strategy that has devices, such as OneDeviceStrategy",
    ),
    "not_implemented": (
        "NotImplementedError",
        lambda: finish(
            DefaultStrategy().broadcast_to(DEFAULT_CONTEXT, tensor(1.0), DEFAULT_DEVICE)
        ),
        "use one, such as OneDeviceStrategy",
    ),
    "algorithm_needs_gpu": (
        "InvalidArgumentError",
        lambda: finish(
            MirroredStrategy(TWO, NcclAllReduce()).run(
                DEFAULT_CONTEXT,
                lambda context: context.strategy.all_reduce(context, "SUM", tensor(1.0)),
            )
        ),
        "use ReductionToOneDevice on CPUs",
    ),
    "assertion": (
        "an internal error",
        lambda: reduced(SUM, parts()),
        "use ReduceOp.SUM or ReduceOp.MEAN",
    ),
    "literal_attribute": (
        "an internal error",
        lambda: in_replicas(lambda context, variable: variable.assign_add(context, 0.0)),
        "use a tensor of zeros per replica, or a numpy array of zeros",
    ),
    "per_replica_operand": (
        "TypeError",
        lambda: outside(
            lambda context, variable: variable.assign(context, parts()), synchronization=ON_READ
        ),
        "reduce a per-replica value first, or assign in the replicas",
    ),
    "not_a_tensor": (
        "ValueError",
        lambda: Tensor(parts()),
        "of a container take the part of one replica, or reduce it",
    ),
}


def test_every_category_can_be_met() -> None:
    assert set(PROVOKED) == CATEGORIES


@pytest.mark.parametrize("category", sorted(CATEGORIES))
def test_a_refusal_names_its_type_and_category_and_says_what_to_do(category: str) -> None:
    kind, provoke, advice = PROVOKED[category]
    with pytest.raises(DistributionError) as caught:
        provoke()
    error = caught.value
    assert (error.category, error.tensorflow) == (category, kind)
    assert str(error).endswith(advice)
    assert str(error).isprintable()
    # What Python has a type for may be caught as that type.
    if hasattr(builtins, kind):
        assert isinstance(error, getattr(builtins, kind))
    else:
        assert kind in ("InvalidArgumentError", "an internal error")


def test_a_message_does_not_print_a_whole_array() -> None:
    large = tensor(np.zeros((1000, 10)), np.float32)
    with pytest.raises(DistributionError, match=r"float32 of shape \(1000, 10\) cannot be reduced"):
        in_replicas(lambda context, variable: variable.assign_add(context, large))
    with pytest.raises(DistributionError, match=r"of shape \(1000, 10\) cannot hold \(3,\)"):
        outside(
            lambda context, variable: variable.assign(context, np.zeros(3)),
            initial=np.zeros((1000, 10)),
            aggregation=MEAN,
        )


SCENARIO = """\
kind: variables
name: refused
cluster:
  workers: 3
  network: {kind: star, bandwidth: 1 Gbit/s, latency: 50 us}
variables:
  - {name: fine}
  - {name: x, aggregation: AGGREGATION, dtype: DTYPE}
modes: [MODE]
program:
  steps: 1
  replicas:
    - {kind: assign_add, variable: x, value: 1}
    - {kind: read, variable: fine}
  outside:
    - {kind: OUTSIDE}
"""


@pytest.mark.parametrize(
    ("words", "line", "category", "advice"),
    [
        ("mean int32 on_write save", 8, "mean_of_non_float", "use a float dtype, or SUM"),
        ("mean int64 on_read save", 8, "mean_of_non_float", "use a float dtype, or SUM"),
        ("none float32 on_read read", 16, "no_reduce_op", "use MEAN, SUM or ONLY_FIRST_REPLICA"),
        ("none float32 on_read save", 16, "no_reduce_op", "use MEAN, SUM or ONLY_FIRST_REPLICA"),
        ("none float32 on_read assign", 16, "no_reduce_op", "use MEAN, SUM or ONLY_FIRST_REPLICA"),
        ("sum float32 on_read assign_add", 16, "sum_cross_replica_add", "assign the new total"),
        ("sum float32 on_read assign_sub", 16, "sum_cross_replica_sub", "assign the new total"),
    ],
)
def test_a_scenario_is_refused_in_one_line_at_its_place(
    words: str, line: int, category: str, advice: str
) -> None:
    aggregation, dtype, mode, kind = words.split()
    action = {"save": kind, "read": f"{kind}, variable: x"}.get(kind)
    text = SCENARIO.replace("OUTSIDE", action or f"{kind}, variable: x, value: 1")
    for word, value in (("AGGREGATION", aggregation), ("DTYPE", dtype), ("MODE", mode)):
        text = text.replace(word, value)
    with pytest.raises(ScenarioError) as caught:
        load_text(text, "file.yaml")
    (problem,) = caught.value.problems
    assert problem.line == line
    place = "variables[1]" if line == 8 else "program.outside[0]"
    start = f"{place}: under {mode} TensorFlow raises ValueError ({category}): "
    assert problem.message.startswith(start)
    assert problem.message.endswith(advice)
