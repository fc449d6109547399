"""Coded sentences of `check`; `notes` has them with all others."""

from typing import Final

from varsim.report.notes_of_variables import Line, Values

_ONE: Final = {"strategies": "strategy"}


def _many(of: Values, what: str) -> str:
    """How many of what: `1 strategy`, `4 workers`."""
    return f"{of[what]} {_ONE.get(what, what[:-1]) if of[what] == '1' else what}"


SENTENCES: Final[dict[str, Line]] = {
    "valid": lambda of: (
        f"{of['name']} is valid: {_many(of, 'strategies')}, {_many(of, 'replications')} of each, "
        f"{_many(of, 'workers')}; a run computes about {of['gradients']} gradients."
    ),
    "batch": "A batch takes {mean} to compute ({how}).",
    "wire": "Model: {model}, {size} of parameters. Network: {network}.",
    "valid-variables": lambda of: (
        f"{of['name']} is valid: {_many(of, 'variables')}, {_many(of, 'modes')}, "
        f"{_many(of, 'replications')} of each, {_many(of, 'workers')}."
    ),
    "valid-sweep": lambda of: (
        f"{of['name']} is valid: {_many(of, 'points')}, {_many(of, 'rows')} ({of['different']} "
        f"different), {of['runs']} runs, {of['gradients']} gradients or more."
    ),
    "valid-plan": lambda of: (
        f"{of['name']} is valid: {_many(of, 'cells')} ({of['different']} different), {of['low']} "
        f"to {of['high']} runs of each; the first compute at most {of['gradients']} gradients."
    ),
    "valid-search": (
        "{name} is valid: {cells} of {of} cells are tried, {low} to {high} runs of each; the first "
        "compute at most {gradients} gradients."
    ),
    "asked": lambda of: (
        f"It minimizes {of['objective']}{' with ' * ('targets' in of)}{of.get('targets', '')}, "
        f"over {of['who']}."
    ),
}

NOTES: Final[dict[str, str]] = {
    "not-begun": ("{who}: too large to begin here; try a short run (stop.global_steps)."),
    "few-updates": "{who}: too few updates are seen here to compare, {count} at most.",
    "meet-later": "{who}: replicas meet after {steps} steps, later than what is seen here.",
    "beyond": "What happens every {steps} steps lies beyond the steps seen here.",
    "shared-device": "With sigma {sigma}, as on shared devices, {who} is {share} slower.",
    "optimizer-time": (
        "With cluster.optimizer_time {time}, the least an update takes, {who} is {share} slower."
    ),
    "memory-parts": "Memory is counted without {missing}.",
    "memory-sizes": "The device comes with {sizes}: memory.device says which it has.",
    "failing": "Each {domain} fails every {every} on average.",
    "equal-examples": (
        "Runs end after equal examples, {examples}: what {updates} of {who} take "
        "(stop.equal_examples)."
    ),
    "would-fail": "{count} of {of} cases would fail: {who}: {why}.",
    "asks": "More than {gradients} gradients: varsim {command} asks for --yes.",
}
