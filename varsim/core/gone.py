"""Names that are gone, each with what to write instead: whoever uses one is told so in one line."""

from collections.abc import Iterable, Mapping
from typing import Final

_HIERARCHICAL: Final = "write hierarchical, or a collective of your own (varsim.register)"
_OWN: Final = "write nodes, star or full_mesh, or a network of your own (varsim.register)"

COMMANDS: Final[Mapping[str, str]] = {
    "demo": "varsim run quickstart",
    "plot": "varsim run DIR/scenario.yaml makes a run again, with its plots; "
    "varsim sweep DIR/sweep.yaml --out DIR draws a sweep again, from the runs that are kept",
}

# Tables of `varsim list`.
TABLES: Final[Mapping[str, str]] = {"laws": "write varsim list distributions"}

# Keys of older scenario files, which are read as what they are called today.
RENAMED: Final[Mapping[str, str]] = {
    "law": "distribution",
    "time_to_loss": "time_to_target",
    "wasted": "wasted_compute",
}

# Of scenarios: `owner.key`, or `owner.key=value`; the owner is the name of the mapping or its kind.
SETTINGS: Final[Mapping[str, str]] = {
    "checkpoint.keep_on": "leave it out: a checkpoint is kept where no failure reaches it",
    "drop_compute.check": "leave it out: a worker looks at the clock between micro-batches",
    "on_write.collective=hierarchical_leader": _HIERARCHICAL,
    "local_sgd.collective=hierarchical_leader": _HIERARCHICAL,
    "diloco.collective=hierarchical_leader": _HIERARCHICAL,
    "easgd.mode": "leave it out: workers exchange when they come to it",
    "local_sgd.levels": "write period: all copies are averaged together",
    "local_sgd.ranks_per_group": "leave it out: gradients are averaged in warm-up, by all",
    "local_sgd.optimizer_state": "leave it out: every worker keeps its optimizer's state",
    "variables.vary": "sweep how often is read, for example "
    "sweep: {program.outside.0.times: [1, 2, 4]}",
    "network.kind=ring": _OWN,
    "network.kind=hybrid_mesh": _OWN,
    "network.forwarding": "leave it out, a message occupies all links on its route at once",
}


def instead(owners: Iterable[str], key: str, value: str) -> str:
    """What to write instead of a setting that is gone; empty if it is not among them."""
    for owner in owners:
        for setting, said in ((key, key), (f"{key}={value}", f"{key}: {value}")):
            if write := SETTINGS.get(f"{owner}.{setting}"):
                return f"'{said}' is gone: {write}"
    return ""
