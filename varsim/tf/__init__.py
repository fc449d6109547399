"""varsim.tf: TensorFlow's distributed variables, as one types them, without TensorFlow.

>>> from varsim import tf
>>> strategy = tf.MirroredStrategy(3)
>>> with strategy.scope():
...     correct = tf.Variable(0.0, synchronization="ON_READ", aggregation="SUM")
>>> def step():
...     correct.assign_add(tf.get_replica_context().replica_id_in_sync_group + 1.0)
>>> strategy.run(step)
>>> float(correct.read_value())
6.0
>>> strategy.calls[-1].name, strategy.calls[-1].messages, strategy.calls[-1].bytes
('read_value', 2, 8)

Step functions are plain Python; replicas take turns. What is refused, TensorFlow refuses as well,
with an error of the same type. `strategy.calls` has what every call moved and, on the cluster of a
scenario (`tf.MirroredStrategy(3, cluster="scenarios/metric_sum.yaml")`), the time that took.
"""

from varsim.core.operation import DeviceId as Device
from varsim.core.operation import DistributionError, InvalidArgumentError
from varsim.distribute.all_reduce import HierarchicalCopyAllReduce, NcclAllReduce
from varsim.distribute.attributes import Aggregation as VariableAggregation
from varsim.distribute.attributes import ReduceOp
from varsim.distribute.attributes import Synchronization as VariableSynchronization
from varsim.distribute.central import (
    FixedShardsPartitioner,
    MaxSizePartitioner,
    MinSizePartitioner,
)
from varsim.distribute.container import PerReplica
from varsim.distribute.cross_device_ops import Implementation as CommunicationImplementation
from varsim.distribute.cross_device_ops import Options as CommunicationOptions
from varsim.distribute.cross_device_ops import ReductionToOneDevice
from varsim.distribute.tensor import Tensor
from varsim.learning.gradient_form import IndexedSlices
from varsim.tf.calls import Call
from varsim.tf.extended import ReplicaContext, StrategyExtended
from varsim.tf.optimizers import (
    SGD,
    Adam,
    Checkpoint,
    ConditionalAccumulator,
    FIFOQueue,
    SparseConditionalAccumulator,
)
from varsim.tf.strategies import (
    CentralStorageStrategy,
    MirroredStrategy,
    MultiWorkerMirroredStrategy,
    OneDeviceStrategy,
    ParameterServerStrategy,
    Strategy,
    device,
    get_replica_context,
    get_strategy,
    has_strategy,
    in_cross_replica_context,
    run_workers,
    variable_sync_on_read_context,
)
from varsim.tf.values import Copy, Mirrored, Variable, convert_to_tensor

constant = convert_to_tensor

__all__ = [
    "SGD",
    "Adam",
    "Call",
    "CentralStorageStrategy",
    "Checkpoint",
    "CommunicationImplementation",
    "CommunicationOptions",
    "ConditionalAccumulator",
    "Copy",
    "Device",
    "DistributionError",
    "FIFOQueue",
    "FixedShardsPartitioner",
    "HierarchicalCopyAllReduce",
    "IndexedSlices",
    "InvalidArgumentError",
    "MaxSizePartitioner",
    "MinSizePartitioner",
    "Mirrored",
    "MirroredStrategy",
    "MultiWorkerMirroredStrategy",
    "NcclAllReduce",
    "OneDeviceStrategy",
    "ParameterServerStrategy",
    "PerReplica",
    "ReduceOp",
    "ReductionToOneDevice",
    "ReplicaContext",
    "SparseConditionalAccumulator",
    "Strategy",
    "StrategyExtended",
    "Tensor",
    "Variable",
    "VariableAggregation",
    "VariableSynchronization",
    "constant",
    "convert_to_tensor",
    "device",
    "get_replica_context",
    "get_strategy",
    "has_strategy",
    "in_cross_replica_context",
    "run_workers",
    "variable_sync_on_read_context",
]
