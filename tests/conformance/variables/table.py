"""Which operation carries out which step of a case."""

from typing import Final

from tests.conformance.variables import keeping, settings, steps
from tests.conformance.variables.steps import Step

STEPS: Final[dict[str, Step]] = {
    "assign": steps.write,
    "assign_add": steps.write,
    "assign_sub": steps.write,
    "scatter": steps.scatter,
    "read": steps.read,
    "copies": steps.copies,
    "create": steps.create,
    "variable_created_in_scope": steps.created_in_scope,
    "reduce_to": steps.reduce_to,
    "batch_reduce_to": steps.batch_reduce_to,
    "broadcast_to": steps.broadcast_to,
    "reduce": steps.reduce,
    "gather": steps.gather,
    "local_results": steps.local_results,
    "update": steps.update,
    "value_container": steps.value_container,
    "properties": settings.properties,
    "run": steps.run,
    "run_args": steps.run_args,
    "save": keeping.save_all,
    "restore": keeping.restore_all,
    "restart": keeping.restart,
    "optimizer": keeping.optimizer,
    "apply_gradients": keeping.apply_gradients,
    "cross_device_ops": settings.cross_device_ops,
    "group_by_size": settings.group,
    "concat_and_split": settings.concat,
    "communication_options": settings.communication_options,
    "make_cross_device_ops": settings.make_algorithm,
}
