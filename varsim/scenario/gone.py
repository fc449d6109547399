"""Settings that scenarios once had: what is said of them in place of "unknown key"."""

from collections.abc import Sequence
from typing import Final

from varsim.scenario.document import MappingNode, ScalarNode

_HIERARCHICAL: Final = "write hierarchical, or a collective of your own (varsim.register)"
_OWN: Final = "write nodes, star or full_mesh, or a network of your own (varsim.register)"
# `owner.key`, or `owner.key=value`, where the owner is the name of the mapping, or its kind; and
# what to write instead.
_GONE: Final = {
    "checkpoint.keep_on": "leave it out: a checkpoint is kept where no failure reaches it",
    "drop_compute.check": "leave it out: a worker looks at the clock between micro-batches",
    "on_write.collective=hierarchical_leader": _HIERARCHICAL,
    "local_sgd.collective=hierarchical_leader": _HIERARCHICAL,
    "diloco.collective=hierarchical_leader": _HIERARCHICAL,
    "easgd.mode": "leave it out: workers exchange when they come to it",
    "local_sgd.levels": "write period: all copies are averaged together",
    "local_sgd.ranks_per_group": "leave it out: gradients are averaged in warm-up, by all",
    "local_sgd.optimizer_state": "leave it out: every worker keeps its optimizer's state",
    "network.kind=ring": _OWN,
    "network.kind=hybrid_mesh": _OWN,
    "network.forwarding": "leave it out, messages are on all links of their way at once",
}


def instead(path: Sequence[str | int], owner: MappingNode | None, key: str) -> str:
    """What to write instead of a setting that is gone, of a mapping; empty if it is not there."""
    if owner is None:
        return ""
    value, kind = owner.values.get(key), owner.values.get("kind")
    names = [step for step in path if isinstance(step, str)][-1:]
    if isinstance(kind, ScalarNode):
        names.append(kind.text)
    given = value.text if isinstance(value, ScalarNode) else ""
    for name in names:
        for setting, said in ((key, key), (f"{key}={given}", f"{key}: {given}")):
            if write := _GONE.get(f"{name}.{setting}"):
                return f"'{said}' is gone: {write}"
    return ""
