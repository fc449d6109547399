"""Every coded sentence as text: SENTENCES of headlines, and NOTES, each with an anchor in
docs/reference/notes.md.

A code stands for one line; `{name}` is a value of the note, written by `wording`.
"""

import math
from typing import Final

from varsim.report import notes_of_check, notes_of_variables
from varsim.report.notes_of_variables import Line, Values
from varsim.report.told import Cell, Note, Number, Shares, Value
from varsim.report.wording import unheld, written


def _fastest(of: Values) -> str:
    return f"Fastest: {of['best']}, {of['rate']}{_lead(of)}."


def _tie(of: Values) -> str:
    return f"Tied fastest: {of['tied']}, {of['rate']}{_lead(of)}."


def _close(of: Values) -> str:
    return f"Too close to call: {of['tied']}, at {of['low']} to {of['high']}{_lead(of)}."


def _untold(of: Values) -> str:
    few = {"1": "One replication is", "2": "Two replications are"}[of["count"]]
    return (
        f"{few} too few to rank {of['tied']} ({of['low']} to {of['high']}); "
        f"try {of.get('more', '--set replications=5')}."
    )


def _lead(of: Values) -> str:
    return f": {of['times']} times {of['next']}" if "next" in of else ""


def _price(of: Values) -> str:
    said = [text.format(**of) for key, text in _PRICES.items() if key in of]
    return f"Its price: {' and '.join(said)}."


_PRICES: Final = {
    "stale": "gradients are {stale} {ages} stale",
    "behind": "copies miss {behind} updates of others",
    "wasted": "{wasted} of its compute is wasted",
}


def _life(of: Values) -> str:
    parts = ", ".join(f"{what} {of[key]}" for key, what in _LOST.items() if key in of)
    return f"It keeps {of['kept']} of its time{': ' * bool(parts)}{parts}."


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
    repair = f"; {of['repair']} of the time it waits for repairs" if "repair" in of else ""
    return f"{of['who']} keeps hardly anything: {often}{of['needs']} to notice and restart{repair}."


def _due_to(of: Values) -> str:
    return f"{of['who']}: {_span(of)} of a step is due to {of['cause']}."


def _due_to_either(of: Values) -> str:
    return f"{of['who']}: too close to call what takes most of a step, {of['causes']}."


def _span(of: Values) -> str:
    """A share, or from which to which, with its unit once."""
    if "share" in of:
        return of["share"]
    number, _, _ = of["low"].partition("\N{NO-BREAK SPACE}")
    return f"{number} to {of['high']}"


def _beginning(of: Values) -> str:
    updates = _to(of)
    runs = f"{of['count']} of {of['of']} replications" if of["of"] != "1" else "one replication"
    return f"From the first {updates} updates of each strategy, in {runs}."


_BEST: Final = {
    "cost_per_hour": "Cheapest",
    "cost_per_million_examples": "Cheapest",
    "cost_to_target": "Cheapest",
    "time_to_target": "Soonest at its loss",
    "step_time_mean": "Shortest steps",
    "staleness_mean": "Least stale",
    "wasted_compute": "Least wasted",
    "workers": "Fewest workers",
    "parameter_servers": "Fewest servers",
}
_EACH: Final = {
    "cost_per_million_examples": " per million examples",
    "cost_to_target": " to its loss",
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
    return f"In its way: {of['target']}; {where}, at {of['value']}, {_reaching(of)}."


def _closest(of: Values) -> str:
    return f"Closest: {of['who']}{_with(of)}, at {of['value']}, {_reaching(of)} ({of['target']})."


def _reaching(of: Values) -> str:
    if "reached" not in of:
        return "does not reach it in every replication"
    if "off" not in of:
        return f"reaches {of['reached']}, but not with 95 % certainty"
    return f"reaches {of['reached']}, {of['off']} {of['side']}"


def _tuning(of: Values) -> str:
    tried = " of those tried" if "edge" in of else ""
    goal = f"Soonest at loss {of['loss']}" if "loss" in of else f"Lowest loss at {of['end']}"
    return f"{goal}, each at its best learning rate{tried}"


def _tuned(of: Values) -> str:
    what = "takes {times} times as long" if "loss" in of else "ends at {times} times the loss"
    lead = f"; {of['next']} {what.format(**of)}" if "next" in of else ""
    return f"{_tuning(of)}: {of['best']}, {of['value']} at {of['rate']}{lead}."


def _tuned_none(of: Values) -> str:
    what = f"reaches loss {of['loss']}" if "loss" in of else f"has a finite loss at {of['end']}"
    return f"No strategy {what} in every fresh run, each at the best of its rates."


def _failed_rows(of: Values) -> str:
    if of["count"] == "1":
        return f"1 of {of['of']} rows failed, {of['who']}: {of['why']}"
    return f"{of['count']} of {of['of']} rows failed, the first {of['who']}: {of['why']}"


def _short_rows(of: Values) -> str:
    out = f"; {of['out']} are too short to rank" if "out" in of else ""
    return (
        f"Short runs in {of['count']} of {of['of']} rows, {of['gradients']} gradients per worker "
        f"at the least ({of['who']}){out}{of['more']}."
    )


def _interval_rows(of: Values) -> str:
    return f"± 95 % interval over {_to(of)} replications; left out below 1 %."


def _to(of: Values) -> str:
    """`12 to 24`, or one number."""
    return of["low"] if of["low"] == of["high"] else f"{of['low']} to {of['high']}"


SENTENCES: Final[dict[str, Line]] = {
    **notes_of_variables.SENTENCES,
    "fastest": _fastest,
    "tie": _tie,
    "close": _close,
    "untold": _untold,
    "alone": "{best}: {rate}.",
    "nothing": "No strategy applied gradients in every replication.",
    "none-compared": "Nothing to compare: {who} deadlocked.",
    "none-fits": "Nothing to rank: {who} do not fit into memory.",
    "too-short": "Too short to rank: {count} gradients per worker with {who}{more}.",
    "price": _price,
    "life": _life,
    "soonest": "Soonest at loss {target}: {best}, after {time}.",
    "soonest-tie": "Soonest at loss {target}: a tie of {tied}, after {time}.",
    "reached-unranked": (
        "Loss {target} is reached after {low} to {high}, not ranked: one learning rate does not "
        "suit all."
    ),
    "cheapest": "Cheapest: {best}, {price} per million examples.",
    "cheapest-tie": "Cheapest: a tie of {tied}, {price} per million examples.",
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
        f"The space has no {_LOWER.get(of['objective'], 'lower')} cell of {of['who']}: widen it?"
    ),
    "holds": "It holds in {count} runs with fresh seeds.",
    "no-answer": lambda of: f"No answer: no cell is certain to meet {_goal(of)}.",
    "no-numbers": "No answer: no cell has a number to minimize in every replication.",
    "no-work-kept": "No answer: at no cell is any work kept; varsim run of one says why.",
    "cells-too-short": "No answer: the runs are too short to say which cell it is.",
    "closest": _closest,
    "tuned": _tuned,
    "tuned-close": lambda of: (
        f"{_tuning(of)}: too close to call, {of['tied']} ({of['low']} to {of['high']})."
    ),
    "tuned-tie": lambda of: f"{_tuning(of)}: a tie of {of['tied']}, {of['low']}.",
    "tuned-none": _tuned_none,
    "waiting": (
        "Waiting for the slowest makes a step {times} times the mean, {barrier}: {share} of all "
        "device time is waiting."
    ),
    "one-backup": "Waiting for all but one worker saves {saved} of that time: {gain} more steps.",
    "one-worker": "One worker only: nothing here tells of waiting for others.",
    "times-hold-waiting": "{why}",
    **notes_of_check.SENTENCES,
}


def _short_cells(of: Values) -> str:
    dropped = f"; {of['dropped']} too short to judge" if of["dropped"] != "0" else ""
    return (
        f"Short runs in {of['count']} of {of['of']} cells: {of['fewest']} gradients per worker "
        f"at worst ({of['where']}){dropped}{of['more']}."
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
    return f"At {of['speed']} times that speed the answer {found}{again}."


def _margin(of: Values) -> str:
    right = ", if the guess is right" if "guess" in of else ""
    return f"In brackets: how far a target is surely met (95 %{right}); below 0 it may be missed."


def _busiest(of: Values) -> str:
    what = f"Busiest of the answer: {of['what']}; its" if "what" in of else "The answer's"
    return f"{what} workers' time{' while nothing fails' * ('alive' in of)}: {of['time']}."


def _cells_run(of: Values) -> str:
    left = f"; no other can be {_LOWER.get(of['objective'], 'lower')}" if "left" in of else ""
    return f"{of['count']} of {of['of']} cells run, {of['runs']} runs{left}."


# Each has a paragraph of the same name in docs/reference/notes.md.
NOTES: Final[dict[str, Line]] = {
    **notes_of_variables.NOTES,
    "deadlock": "{who} deadlocked at {when}{often}; not ranked.",
    "memory": "{who}: {needs} needed, {has} per {where}; not ranked, timed as if it fitted.",
    "memory-kept": "Everything fits into memory; {who} needs most, {needs} per device.",
    "model-lost": "{who}: nobody holds the model at the end, so there is no final loss.",
    "diverged": (
        "{who}: the loss is not finite in {count} of {of} runs; lower its learning rate, {rate}."
    ),
    "grew": "{who}: the loss grew from {first} to {last}; lower its learning rate, {rate}.",
    "shared-rate": (
        "Losses are not ranked: one learning rate for updates of {low} to {high} gradients; "
        "varsim tune FILE."
    ),
    "unequal-work": "{many} saw {times} times the examples of {few}; for equal work {set}.",
    "short-run": "Short runs: {count} gradients per worker with {who}; rates may be far off{more}.",
    "undecided-interval": "{who}: {target} is undecided; more replications may tell.",
    "undecided-once": "{who}: {target} is undecided from one run: --set replications=5.",
    "undecided-short": "{who}: {target} is undecided: the runs are too short.",
    "undecided-ended": "{who}: {target} is undecided: the runs end before it.",
    "some-reach": "{who}: loss {target} was reached in {count} of {of} replications.",
    "interval": "± 95 % interval over {count} replications; left out below 1 %.",
    "exact": "Exact: nothing here is random, so one run of each.",
    "exact-times": "Times are exact; losses are from one replication.",
    "one-run": "One replication, so no intervals: --set replications=5.",
    "pushed-late": "Pushes take {share} of the time of {who}; overlap: true (MXNet) hides some.",
    "recorded-order": "{who}: recorded times meet in queues, so rates are good to 0.4 %.",
    "lockstep": (
        "Every step takes exactly {mean}, so workers of {who} queue in lockstep; real ones vary."
    ),
    "guess": "The step time, {mean}, is a guess: {low} to {high} times that speed where measured.",
    "guess-measured": "The step time, {mean}, is a guess from another workload.",
    "contradicted": "{reason}",
    "presets": "Nothing was measured on this cluster; published jobs are off by {errors}.",
    "heavy-tail": "Compute times have no finite variance (tail index {index}): compare medians.",
    "few-spells": (
        "Runs of {who} last {count} correlation times, too few for intervals; run longer."
    ),
    "not-settled": "{who} is still speeding up ({times} times in the second half): run longer.",
    "drops-at-first": "{who} drops {count} gradients after its first update: {why}.",
    "no-price": "No price is given for {what}, counted as free: set prices.{key}.",
    "overlap": "With overlap: true, as in DDP, {who} is {times} times as fast.",
    "stopped": "Runs ended for different reasons: {reasons}.",
    "events": "Events: {events}.",
    "by-luck": "{who}: met the targets at first by luck, and not with fresh seeds.",
    "short-cells": _short_cells,
    "undecided-cells": "{count} cells are too close to a target even after {most} replications.",
    "failed-cells": "{count} cells failed, such as {where}: {why}",
    "memory-cells": (
        "Not run, as memory is too small: {who}; the first needs {needs}, a {where} has {has}."
    ),
    "memory-marked": "{who}: {needs} needed, {has} per {where}; timed as if it fitted.",
    "other-speed": _other_speed,
    "close-cells": "Too close to call: {count} others meet the targets, too; this mean is lowest.",
    "unpriced": "No price is given for {what}: the answer uses {has} at no cost ({remedy}).",
    "file-rates": (
        "Times to loss {target} are at the learning rates of the file: {rates}; varsim tune has "
        "better ones."
    ),
    "rates-fail": "{who} fails at every rate that was tried: {why}",
    "rates-in-vain": (
        "{who} reaches loss {target} at none of {count} rates; its lowest final loss is {low}: "
        "{set} if it still falls."
    ),
    "edge-rate": "{who}: {rate} is at the edge of the rates that were tried; next --rates {rates}.",
    "unread": "{who}: a loss is that of the mean of all copies; nobody need have read it then.",
    "fresh-seeds": "± 95 % interval over {count} runs with fresh seeds (seed {seed}).",
    "as-good": "As good: rates that are not told from the best.",
    "margin": _margin,
    "step-times": "{source}: {workers} workers, {steps} steps, mean {mean}.",
    "times-left-out": "Left out: {count} times of steps that not all workers have.",
    "few-steps": "Only {count} steps: too few to say what is usual.",
    "slow-alike": (
        "Workers are slow {how}: drawn apart, a step would take {times} times the mean; replay "
        "whole steps."
    ),
    "slowdown-alone": "Slowdown alone: mean step over mean time, were all others at the mean.",
    "two-backups": "Waiting for all but two workers saves {saved}: {gain} more steps a second.",
    "spread": "Coefficient of variation: {within} within a step, {all} of all.",
    "autocorrelation": "Autocorrelation of a worker's steps, by lag: {lags}.",
    "sampled": "{share} of the times equal the one before: that looks like samples.",
    "recorded": "{said}",
    "busiest": _busiest,
    "cells-run": _cells_run,
    "cells-chosen": (
        "{count} cells run, chosen from {of} combinations, {runs} runs: a better one may exist."
    ),
    "horizon-short": "{who}: the horizon, {horizon}, is shorter than one {what} ({lasts}).",
    "hopeless": _hopeless,
    "never-saved": "{who}: no checkpoint was completed; one is due after {due} of work.",
    "optimal-interval": "The optimal checkpoint interval is {best}.",
    "approximate-life": (
        "The life of {who} is approximate: its steps are drawn from {count} simulated."
    ),
    "share-rows": "{count} {domain}s share {rows} rows of recorded times: some fail together.",
    "fail-together": "All {count} {domain}s fail at the same instants: their times are all alike.",
    "new-at-first": "New {domain}s fail {times} times as often in the first {lasts} as on average.",
    "late-failures": "{late} of {known} recorded failures come after the horizon, {horizon}.",
    "long-repair": "The repair of a {domain}, {repair}, ends after the horizon, {horizon}.",
    "explain-deadlock": "{who} deadlocked: varsim run FILE says where.",
    "no-update": "{who} made no update before its run was stopped.",
    "shares": "A cause's share is how much less a step takes without it and those to its left.",
    "iteration": "Steps of {who} are iterations: as many updates as there are workers.",
    "beginning": _beginning,
    "slower-alike": "Slower with {changes}: {who}, as equal workers want a link all at once.",
    "failed-rows": _failed_rows,
    "memory-rows": "{count} of {of} rows do not fit into memory ({who}); not ranked.",
    "unjudged": "A sweep does not judge targets ({targets}): varsim run or varsim plan does.",
    "no-step": "{count} of {of} rows have no step within the horizon ({who}): no goodput.",
    "short-rows": _short_rows,
    "wide": "{count} of {of} rows are wider than ± {precision} after {most} replications.",
    "stopped-when-precise": "Replications ended once precise: intervals hold in 90 % or more.",
    "exact-rows": "{count} of {of} rows are exact: nothing in them is random.",
    "interval-rows": _interval_rows,
    "no-effect": "No effect on examples/s: {what}.",
    "few-in-common": (
        "Too close by the {few} replications that both have: --replications {many} for all."
    ),
    "marks": "* best of its column; = not told from the best.",
    **notes_of_check.NOTES,
    "hosts-missing": "Losses are those of a job that has all its hosts.",
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


def plain_value(value: Value | Cell) -> object:
    """A number, its unit and interval; names; shares; or text."""
    if isinstance(value, Number):
        known = {"mean": value.mean, "half": value.half}
        return {k: v for k, v in known.items() if math.isfinite(v)} | {"unit": value.unit}
    if isinstance(value, Shares):
        return dict(value.parts)
    return list(value) if isinstance(value, tuple) else value
