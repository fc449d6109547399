"""Every coded sentence as text: SENTENCES of headlines, and NOTES, each with an anchor in
docs/reference/notes.md.

A code stands for one line; `{name}` is a value of the note, written by `wording`.
"""

import math
from collections.abc import Callable, Mapping
from functools import partial
from typing import Final, TypeAlias

from varsim.report.told import Cell, Note, Number, Shares, Table, Value
from varsim.report.wording import unheld, written

Values: TypeAlias = Mapping[str, str]
Line: TypeAlias = str | Callable[[Values], str]


def _fastest(of: Values) -> str:
    return f"Fastest: {of['best']}, {of['rate']}{_lead(of)}."


def _tie(of: Values) -> str:
    return f"Tied fastest: {of['tied']}, {of['rate']}{_lead(of)}."


def _close(of: Values) -> str:
    return f"Too close to call: {of['tied']}, at {of['low']} to {of['high']}{_lead(of)}."


def _untold(of: Values) -> str:
    return (
        f"{_few(of)} to rank {of['tied']} ({of['low']} to {of['high']}); "
        f"try {of.get('more', '--set replications=5')}."
    )


def _few(of: Values) -> str:
    few = {"1": "One replication is", "2": "Two replications are"}[of["count"]]
    return f"{few} too few"


def _lead(of: Values) -> str:
    return f": {of['times']} times {of['next']}" if "next" in of else ""


def _price(of: Values) -> str:
    said = [text.format(**of) for key, text in _PRICES.items() if key in of]
    return f"Trade-off: {' and '.join(said)}."


_PRICES: Final = {
    "stale": "gradients are {stale} {ages} stale",
    "behind": "copies are {behind} updates behind",
    "wasted": "{wasted} of compute is wasted",
}


def _goodput(of: Values) -> str:
    parts = ", ".join(f"{what} {of[key]}" for key, what in _LOST.items() if key in of)
    kept = f"Loses least: {of['who']}, goodput" if "who" in of else "Goodput"
    return f"{kept} {of['kept']}{'; the rest: ' * bool(parts)}{parts}."


_LOST: Final = {
    "checkpoint": "checkpoints",
    "lost": "lost work",
    "down": "recovery",
}


def _targets(of: Values) -> str:
    said = [
        f"{what} {of[key]}"
        for key, what in (("met", "met by"), ("missed", "missed by"), ("unsure", "undecided for"))
        if key in of
    ]
    return f"{of['target']}: {'; '.join(said)}."


def _hopeless(of: Values) -> str:
    often = f"a failure every {of['every']}, " if "every" in of else ""
    repair = f"; repairs take {of['repair']} of the time" if "repair" in of else ""
    return f"{of['who']} hardly progresses: {often}{of['needs']} to detect and restart{repair}."


def _due_to(of: Values) -> str:
    return f"{of['who']}: {_span(of)} of a step is due to {of['cause']}."


def _due_to_either(of: Values) -> str:
    return f"{of['who']}: main cause too close to call, {of['causes']} of a step."


def _span(of: Values) -> str:
    """A share, or from which to which, with its unit once."""
    if "share" in of:
        return of["share"]
    number, _, _ = of["low"].partition("\N{NO-BREAK SPACE}")
    return f"{number} to {of['high']}"


def _beginning(of: Values) -> str:
    updates = _to(of)
    runs = f"{of['count']} of {of['of']} replications" if of["of"] != "1" else "one replication"
    return f"Measured on the first {updates} updates of each strategy, in {runs}."


_BEST: Final = {
    "cost_per_hour": "Cheapest",
    "cost_per_million_examples": "Cheapest",
    "cost_to_target": "Cheapest",
    "time_to_target": "Shortest time to the target loss",
    "step_time_mean": "Shortest steps",
    "staleness_mean": "Least stale",
    "wasted_compute": "Least wasted",
    "workers": "Fewest workers",
    "parameter_servers": "Fewest servers",
}
_EACH: Final = {
    "cost_per_million_examples": " per million examples",
    "cost_to_target": " to the target loss",
    "step_time_mean": " a step",
}


def _plan_answer(of: Values) -> str:
    goal = f" to meet {_goal(of)}" if of["targets"] != "0" else ""
    large = f" (too large for its {of['large']})" if "large" in of else ""
    value = of["value"] + _EACH.get(of["objective"], "")
    return f"{_BEST[of['objective']]}{goal}: {value}, {of['who']}{large}{_with(of)}."


def _goal(of: Values) -> str:
    return {"1": "the target", "2": "both targets"}.get(
        of["targets"], f"all {of['targets']} targets"
    )


def _with(of: Values) -> str:
    return f" with {of['where']}" if "where" in of else ""


_LOWER: Final = {
    "cost_per_hour": "cheaper",
    "cost_per_million_examples": "cheaper",
    "cost_to_target": "cheaper",
    "time_to_target": "faster",
    "step_time_mean": "faster",
}


def _in_its_way(of: Values) -> str:
    where = of.get("where", of["who"])
    return f"Binding target: {of['target']}; {where}, at {of['value']}, {_reaching(of)}."


def _closest(of: Values) -> str:
    return f"Closest: {of['who']}{_with(of)}, at {of['value']}, {_reaching(of)} ({of['target']})."


def _reaching(of: Values) -> str:
    if "reached" not in of:
        return "does not reach the target in every replication"
    if "off" not in of:
        return f"reaches {of['reached']}, but not with 95 % confidence"
    return f"reaches {of['reached']}, {of['off']} {of['side']}"


def _tuning(of: Values) -> str:
    tried = " of those tried" if "edge" in of else ""
    goal = f"First to loss {of['loss']}" if "loss" in of else f"Lowest loss at {of['end']}"
    return f"{goal}, each at its best learning rate{tried}"


def _tuned(of: Values) -> str:
    what = "takes {times} times as long" if "loss" in of else "ends at {times} times the loss"
    lead = f"; {of['next']} {what.format(**of)}" if "next" in of else ""
    return f"{_tuning(of)}: {of['best']}, {of['value']} at {of['rate']}{lead}."


def _tuned_none(of: Values) -> str:
    what = f"reaches loss {of['loss']}" if "loss" in of else f"has a finite loss at {of['end']}"
    return f"No strategy {what} in every fresh run, even at its best learning rate."


def _failed_rows(of: Values) -> str:
    if of["count"] == "1":
        return f"1 of {of['of']} rows failed, {of['who']}: {of['why']}"
    return f"{of['count']} of {of['of']} rows failed, the first {of['who']}: {of['why']}"


def _short_rows(of: Values) -> str:
    out = f"; {of['out']} are too short to rank" if "out" in of else ""
    return (
        f"Short runs in {of['count']} of {of['of']} rows, as few as {_each(of['gradients'])} "
        f"({of['who']}){out}{of['more']}."
    )


def _each(count: str) -> str:
    """So many gradients of each worker."""
    return f"{count} gradient{'s' * (count != '1')} per worker"


def _interval_rows(of: Values) -> str:
    return f"± 95 % interval over {_to(of)} replications; left out below 1 %."


def _to(of: Values) -> str:
    """`12 to 24`, or one number."""
    return of["low"] if of["low"] == of["high"] else f"{of['low']} to {of['high']}"


_ONE: Final = {"strategies": "strategy"}
_WORDS: Final = {"cells": "configurations"}


def _many(of: Values, what: str) -> str:
    """How many of what: `1 strategy`, `4 workers`."""
    word = _WORDS.get(what, what)
    return f"{of[what]} {_ONE.get(word, word[:-1]) if of[what] == '1' else word}"


def _step(how: str, of: Values) -> str:
    """Which mode has the shortest step, or several that are not told apart."""
    rate = of["rate"] if "rate" in of else f"{of['low']} to {of['high']}"
    lead = f"; {of['next']} takes {of['times']} times as long" if "next" in of else ""
    return f"{how}: {of.get('tied', of.get('best'))}, {rate} a step{lead}."


def _told_steps(of: Values) -> str:
    """How long the steps that are told take in each mode."""
    steps, every = of["steps"], of["of"]
    one = steps == "1"
    who = f"The first of {every} steps" if one else f"The first {steps} of {every} steps"
    if steps == every:
        who = "The one step" if one else f"All {every} steps"
    more = "" if steps == every else f"; --steps {every} shows all"
    return f"{who} take{'s' * one} {of['took']}{more}."


SENTENCES: Final[dict[str, Line]] = {
    "fastest": _fastest,
    "tie": _tie,
    "close": _close,
    "too-few": _untold,
    "alone": "{best}: {rate}.",
    "nothing": "No strategy applied gradients in every replication.",
    "none-compared": "Nothing to compare: {who} deadlocked.",
    "none-fits": "Nothing to rank: {who} do not fit into memory.",
    "too-short": lambda of: (
        f"Too short to rank: {_each(of['count'])} with {of['who']}{of['more']}."
    ),
    "price": _price,
    "goodput": _goodput,
    "soonest": "First to loss {target}: {best}, after {time}.",
    "soonest-tie": "Tied first to loss {target}: {tied}, after {time}.",
    "soonest-too-few": lambda of: (
        f"{_few(of)} to say which is first to loss {of['target']}: {of['tied']}, after "
        f"{of['time']} to {of['last']}."
    ),
    "reached-unranked": (
        "Loss {target} is reached after {low} to {high}; not ranked, as the strategies share a "
        "learning rate."
    ),
    "cheapest": "Cheapest: {best}, {price} per million examples.",
    "cheapest-tie": "Tied cheapest: {tied}, {price} per million examples.",
    "cheapest-too-few": lambda of: (
        f"{_few(of)} to say which is cheapest: {of['tied']}, {of['price']} to {of['last']} per "
        "million examples."
    ),
    "same-everywhere": "{who}: {rate} at every point.",
    "never": "No strategy reached loss {target} in every replication.",
    "target": _targets,
    "due-to": _due_to,
    "due-to-either": _due_to_either,
    "helps": "Would help most: {change}, {times} times as fast.",
    "may-help": "May help: {change}, {times} times as fast, too close to call.",
    "nothing-explained": "Nothing to explain: {who} made no update.",
    "plan-answer": _plan_answer,
    "in-its-way": _in_its_way,
    "nothing-lower": lambda of: (
        f"Nothing {_LOWER.get(of['objective'], 'lower')} with {of['who']} in the space: widen it?"
    ),
    "holds": "Confirmed in {count} runs with fresh seeds.",
    "no-answer": lambda of: f"No answer: no configuration meets {_goal(of)} with 95 % confidence.",
    "no-numbers": "No answer: no configuration has a value to minimize in every replication.",
    "no-work-kept": "No answer: no configuration keeps any work; varsim run on one shows why.",
    "cells-too-short": "No answer: the runs are too short to rank the configurations.",
    "closest": _closest,
    "tuned": _tuned,
    "tuned-close": lambda of: (
        f"{_tuning(of)}: too close to call, {of['tied']} ({of['low']} to {of['high']})."
    ),
    "tuned-tie": lambda of: f"{_tuning(of)}: {of['tied']} tie at {of['low']}.",
    "tuned-none": _tuned_none,
    "waiting": (
        "Waiting for the slowest worker makes a step {times} times the mean, {barrier}: {share} of "
        "device time is spent waiting."
    ),
    "one-backup": "Waiting for all but one worker saves {saved} of the time: {gain} more steps/s.",
    "one-worker": "Only one worker, so there is no waiting to measure.",
    "times-hold-waiting": "{why}",
    "predicted": lambda of: (
        f"Total times of {of['count']} recorded run{'s' * (of['count'] != '1')}: median error "
        f"{of['median']}, at most {of['worst']} ({of['who']})."
    ),
    # of check
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
    # of programs of variables
    "step-fastest": partial(_step, "Fastest"),
    "step-tie": partial(_step, "Tied fastest"),
    "step-close": partial(_step, "Too close to call"),
    "step-alone": "{best}: {rate} a step.",
    "step-free": "A step takes no time in {who}: nothing is computed, and nothing sent.",
    "steps-shown": _told_steps,
    "read-outside": "Last read from outside: {seen}.",
}


def _short_cells(of: Values) -> str:
    dropped = f"; {of['dropped']} too short to judge" if of["dropped"] != "0" else ""
    return (
        f"Short runs in {of['count']} of {of['of']} configurations, as few as "
        f"{_each(of['fewest'])} ({of['where']}){dropped}{of['more']}."
    )


def _other_speed(of: Values) -> str:
    found = "still meets every target"
    if "failed" in of:
        found = f"fails: {of['failed']}"
    elif "missed" in of:
        found = f"misses {of['missed']}"
    elif "rate" in of:
        found = f"does {of['rate']}"
    again = f"; to plan for that: {of['again']}" if "again" in of else ""
    return f"At {of['speed']} times the guessed speed, the answer {found}{again}."


def _margin(of: Values) -> str:
    right = ", if the guess is right" if "guess" in of else ""
    return (
        f"In parentheses: margin to the target, with 95 % confidence{right}; below 0 it may be "
        "missed."
    )


def _busiest(of: Values) -> str:
    what = f"Busiest in the answer: {of['what']}; worker" if "what" in of else "Worker"
    return f"{what} time{' while nothing fails' * ('alive' in of)}: {of['time']}."


def _cells_run(of: Values) -> str:
    left = f"; no other can be {_LOWER.get(of['objective'], 'lower')}" if "left" in of else ""
    return f"{of['count']} of {of['of']} configurations tried, {of['runs']} runs{left}."


# Each has a paragraph of the same name in docs/reference/notes.md.
NOTES: Final[dict[str, Line]] = {
    "deadlock": "{who} deadlocked at {when}{often}; not ranked.",
    "memory": "{who}: {needs} needed, {has} per {where}; timed anyway, but not ranked.",
    "memory-kept": "Everything fits into memory; {who} needs most, {needs} per device.",
    "model-lost": "{who}: no copy of the model is left at the end, so there is no final loss.",
    "diverged": (
        "{who}: the loss is not finite in {count} of {of} runs; lower the learning rate, {rate}."
    ),
    "grew": "{who}: the loss grew from {first} to {last}; lower the learning rate, {rate}.",
    "shared-rate": (
        "Losses are not ranked: updates of {low} to {high} gradients share a learning rate; "
        "try varsim tune FILE."
    ),
    "unequal-work": "{many} saw {times} times as many examples as {few}; for equal work {set}.",
    "short-run": lambda of: (
        f"Short runs: {_each(of['count'])} with {of['who']}; rates may be far off{of['more']}."
    ),
    "undecided-interval": "{who}: {target} is undecided; try more replications.",
    "undecided-once": "{who}: {target} is undecided from one run: --set replications=5.",
    "undecided-short": "{who}: {target} is undecided: the runs are too short.",
    "undecided-ended": "{who}: {target} is undecided: the runs end too early.",
    "some-reach": "{who}: loss {target} was reached in {count} of {of} replications.",
    "interval": "± 95 % interval over {count} replications; left out below 1 %.",
    "exact": "Exact: nothing here is random, so one run of each.",
    "exact-times": "Times are exact; losses are from one replication.",
    "one-run": "One replication, so no intervals: --set replications=5.",
    "pushed-late": "Pushes take {share} of the time of {who}; overlap: true (MXNet) hides some.",
    "recorded-order": "{who}: rates are accurate to 0.4 %; nanoseconds decide who queues first.",
    "lockstep": (
        "Every step takes exactly {mean}, so workers of {who} queue in lockstep; real steps vary."
    ),
    "guess": "The step time, {mean}, is a guess; measured jobs ran {low} to {high} times as fast.",
    "guess-measured": "The step time, {mean}, is a guess from another workload.",
    "contradicted": "{reason}",
    "presets": "Nothing was measured on this cluster; published jobs are off by {errors}.",
    "heavy-tail": "Compute times have no finite variance (tail index {index}): compare medians.",
    "few-spells": (
        "Runs of {who} last {count} correlation times, too few for intervals; run longer."
    ),
    "not-settled": "{who}: still speeding up ({times} times in the second half); run longer.",
    "drops-at-first": "{who} drops {count} gradients after its first update: {why}.",
    "no-price": "No price is given for {what}, counted as free: set prices.{key}.",
    "overlap": "With overlap: true, as in DDP, {who} is {times} times as fast.",
    "stopped": "Runs ended for different reasons: {reasons}.",
    "events": "Events: {events}.",
    "by-luck": "{who}: met the targets at first, but not with fresh seeds.",
    "short-cells": _short_cells,
    "undecided-cells": "Too close to a target after {most} replications: {count} configurations.",
    "failed-cells": "Failed configurations: {count}, such as {where}: {why}",
    "memory-cells": (
        "Not run, too little memory: {who}; the first needs {needs}, a {where} has {has}."
    ),
    "memory-marked": "{who}: {needs} needed, {has} per {where}; timed anyway.",
    "other-speed": _other_speed,
    "close-cells": (
        "Too close to call; others that qualify: {count}. The answer has the lowest mean."
    ),
    "unpriced": "No price is given for {what}: the answer uses {has} at no cost ({remedy}).",
    "file-rates": (
        "Times to loss {target} are at the learning rates in the file: {rates}; varsim tune finds "
        "better ones."
    ),
    "rates-fail": "{who} fails at every rate that was tried: {why}",
    "rates-in-vain": (
        "{who} reaches loss {target} at none of {count} rates; the lowest final loss is {low}. "
        "If the loss is still falling: {set}."
    ),
    "edge-rate": "{who}: {rate} is at the edge of the rates tried; next try --rates {rates}.",
    "unread": "{who}: loss is measured on the mean of all copies, even if nothing read it then.",
    "fresh-seeds": "± 95 % interval over {count} runs with fresh seeds (seed {seed}).",
    "as-good": "As good: rates that tie with the best.",
    "margin": _margin,
    "step-times": "{source}: {workers} workers, {steps} steps, mean {mean}.",
    "times-left-out": "Left out: {count} times of steps that some workers do not have.",
    "few-steps": "Only {count} steps: too few to be representative.",
    "slow-alike": (
        "Workers are slow {how}; if independent, a step would take {times} times the mean: replay "
        "whole steps."
    ),
    "slowdown-alone": "Slowdown alone: mean step over mean time, if all others ran at the mean.",
    "two-backups": "Waiting for all but two workers saves {saved}: {gain} more steps/s.",
    "spread": "Coefficient of variation: {within} within a step, {all} overall.",
    "autocorrelation": "Autocorrelation of a worker's steps, by lag: {lags}.",
    "sampled": "{share} of the times equal the previous one, so they look sampled.",
    "recorded": "{said}",
    "incomplete-run": (
        "{who} was to make {of} updates; it deadlocked after {count}, predicted {predicted}."
    ),
    "calibrated-on": "{who}, {half} half: calibrated on {runs}.",
    "not-calibrated": "{who}, {half} half: no overheads can be learnt from it.",
    "busiest": _busiest,
    "cells-run": _cells_run,
    "cells-chosen": "{count} configurations tried of {of}, {runs} runs; a better one may exist.",
    "horizon-short": "{who}: the horizon, {horizon}, is shorter than one {what} ({lasts}).",
    "hopeless": _hopeless,
    "never-saved": "{who}: no checkpoint was completed; one is due after {due} of work.",
    "optimal-interval": "The optimal checkpoint interval is {best}.",
    "approximate-goodput": (
        "Goodput is approximate for {who}: steps are drawn from {count} simulated ones."
    ),
    "share-rows": "{count} {domain}s share {rows} rows of recorded times: some fail together.",
    "fail-together": "All {count} {domain}s fail at the same instants: their times are all alike.",
    "new-at-first": "New {domain}s fail {times} times as often in the first {lasts} as on average.",
    "late-failures": "{late} of {known} recorded failures come after the horizon, {horizon}.",
    "long-repair": "The repair of a {domain}, {repair}, ends after the horizon, {horizon}.",
    "explain-deadlock": "{who} deadlocked: varsim run FILE shows where.",
    "no-update": "{who} made no update before its run was stopped.",
    "shares": "A cause's share: the step time saved by removing it after those to its left.",
    "iteration": "For {who}, a step is as many updates as there are workers.",
    "beginning": _beginning,
    "slower-alike": "Slower with {changes}: {who}, as identical workers hit a link all at once.",
    "failed-rows": _failed_rows,
    "memory-rows": "{count} of {of} rows do not fit into memory ({who}); not ranked.",
    "unjudged": "A sweep does not judge targets ({targets}): varsim run or varsim plan does.",
    "no-step": "{count} of {of} rows have no step within the horizon ({who}): no goodput.",
    "short-rows": _short_rows,
    "wide": "{count} of {of} rows are wider than ± {precision} after {most} replications.",
    "stopped-when-precise": "Replications stopped once precise: intervals hold in 90 % or more.",
    "exact-rows": "{count} of {of} rows are exact: nothing in them is random.",
    "interval-rows": _interval_rows,
    "shared-draws": "All points share their draws, so they err together: trust differences more.",
    "no-effect": "No effect on examples/s: {what}.",
    "few-in-common": (
        "Too close to call on the {few} replications that both have: try --replications {many}."
    ),
    "marks": "* best in the column; = tied with the best.",
    "hosts-missing": "Losses ignore missing hosts.",
    # of check
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
    "slow-later": "{who} would be slow from {first} on, but every run ended by {over}.",
    "asks": "More than {gradients} gradients: varsim {command} needs --yes.",
    # of programs of variables
    "exact-steps": "Times are exact; values are drawn, other ones with another --seed.",
    "first-values": "Values are those of the first replication.",
    "odd-replica": (
        "hierarchical_copy leaves replica {last} out of every sum, as TensorFlow does with an odd "
        "number."
    ),
    "by-rank": "3 | 1 | 2: one value per replica, in order; replica 0 is on worker 0.",
    "who-is-outside": "Outside: the program that drives the replicas, on the machine of worker 0.",
    "first-replication": "This is the first of {of} replications.",
    "array-means": "[mean 2]: the mean of all elements of an array.",
    "equal-elements": "One number for an array: all its elements are equal.",
}


def line(note: Note) -> str:
    """A coded sentence as text."""
    values = {key: written(value) for key, value in note.values.items()}
    template = SENTENCES.get(note.code) or NOTES[note.code]
    return template.format(**values) if isinstance(template, str) else template(values)


def coded(note: Note) -> str:
    """A note with its code, by which docs/reference/notes.md tells more."""
    return f"{line(note)}  [{note.code}]"


def plain(note: Note) -> dict[str, object]:
    """A coded sentence for JSON: its code, the text, its values."""
    return {
        "code": note.code,
        "text": unheld(line(note)),
        **{k: plain_value(v) for k, v in note.values.items()},
    }


def plain_rows(table: Table) -> list[dict[str, object]]:
    """A table for JSON: its rows, each with its name and its cells by the keys of columns."""
    return [
        {"row": row, **{one.key: plain_value(one.cells[index]) for one in table.columns}}
        for index, row in enumerate(table.rows)
    ]


def plain_value(value: Value | Cell) -> object:
    """A number, its unit and interval; names; shares; or text."""
    if isinstance(value, Number):
        known = {"mean": value.mean, "half": value.half}
        return {k: v for k, v in known.items() if math.isfinite(v)} | {"unit": value.unit}
    if isinstance(value, Shares):
        return dict(value.parts)
    return list(value) if isinstance(value, tuple) else value
