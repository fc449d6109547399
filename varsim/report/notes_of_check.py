"""Coded sentences of `check`; `notes` has them with all others."""

from typing import Final

from varsim.report.notes_of_variables import Line, Values

_ONE: Final = {"strategies": "strategy"}
_WORDS: Final = {"cells": "configurations"}


def _many(of: Values, what: str) -> str:
    """How many of what: `1 strategy`, `4 workers`."""
    word = _WORDS.get(what, what)
    return f"{of[what]} {_ONE.get(word, word[:-1]) if of[what] == '1' else word}"


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
        f"to {of['high']} runs of each; the first runs compute at most {of['gradients']} gradients."
    ),
    "valid-search": (
        "{name} is valid: {cells} of {of} configurations are tried, {low} to {high} runs of each; "
        "the first runs compute at most {gradients} gradients."
    ),
    "asked": lambda of: (
        f"The plan minimizes {of['objective']}{' with ' * ('targets' in of)}"
        f"{of.get('targets', '')}, over {of['who']}."
    ),
}

NOTES: Final[dict[str, str]] = {
    "not-begun": "{who}: too large for a check; try a short run (stop.global_steps).",
    "step-not-begun": "{who}: a step is too large for a check; varsim run FILE says what it takes.",
    "few-updates": "{who}: a check makes too few updates to compare, at most {count}.",
    "meet-later": "{who}: replicas first meet after {steps} steps, more than a check simulates.",
    "beyond": "What happens every {steps} steps is beyond what a check simulates.",
    "shared-device": "With sigma {sigma}, as on shared devices, {who} is {share} slower.",
    "optimizer-time": (
        "With cluster.optimizer_time {time}, the least an update takes, {who} is {share} slower."
    ),
    "memory-parts": "Memory is counted without {missing}.",
    "memory-sizes": "The device comes with {sizes}: memory.device says which it has.",
    "failing": "Each {domain} fails every {every} on average.",
    "equal-examples": (
        "All runs end after {examples} examples, as many as {updates} of {who} take "
        "(stop.equal_examples)."
    ),
    "would-fail": "{count} of {of} cases would fail: {who}: {why}.",
    "asks": "More than {gradients} gradients: varsim {command} needs --yes.",
}
