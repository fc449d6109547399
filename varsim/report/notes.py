"""Every coded sentence as text: SENTENCES of headlines, and NOTES, each with an anchor in
docs/reference/notes.md.

A code stands for one line in which the values of the note stand, written by `wording`:

    {name}                  a value
    {count:step|steps}      so many of something
    {low..high}             from one to another, once where both are told alike
    {once=for one run}      these words where there is such a value
    <, with {spare}>        a part that is left out where one of its values is missing, or 0
"""

import math
import re
from collections.abc import Callable, Mapping
from typing import Final, TypeAlias

from varsim.report.told import Cell, Note, Number, Shares, Table, Value
from varsim.report.wording import unheld, written

Values: TypeAlias = Mapping[str, str]
Line: TypeAlias = str | Callable[[Values], str]

_PART: Final = re.compile(r"<([^<>]*)>")
_SLOT: Final = re.compile(r"\{(\w+)(?:\.\.(\w+)|:([^|}]*)\|([^}]*)|(=)([^}]*))?\}")


def filled(template: str, of: Values) -> str:
    """A template with its values."""

    def part(found: re.Match[str]) -> str:
        names = [name for slot in _SLOT.finditer(found[1]) for name in slot.group(1, 2) if name]
        return found[1] if all(of.get(name, "0") != "0" for name in names) else ""

    def slot(found: re.Match[str]) -> str:
        name, until, one, many, there, words = found.groups()
        if there:
            return words
        if until:
            return _between(of[name], of[until])
        return of[name] if one is None else f"{of[name]} {one if of[name] == '1' else many}"

    return _SLOT.sub(slot, _PART.sub(part, template))


def _between(low: str, high: str) -> str:
    """`12 to 24 %`, or one number."""
    number, _, unit = low.partition("\N{NO-BREAK SPACE}")
    if unit and high.endswith(f"\N{NO-BREAK SPACE}{unit}"):
        return high if low == high else f"{number}\N{NO-BREAK SPACE}to\N{NO-BREAK SPACE}{high}"
    return low if low == high else f"{low} to {high}"


def _joined(of: Values, between: str, parts: Mapping[str, str]) -> str:
    """Those parts whose value is there."""
    return between.join(filled(part, of) for key, part in parts.items() if key in of)


_PRICES: Final = {
    "stale": "gradients are {stale} {ages} stale",
    "behind": "copies are {behind} updates behind",
    "wasted": "{wasted} of compute is wasted",
}
_LOST: Final = {
    "checkpoint": "checkpoints {checkpoint}",
    "lost": "lost work {lost}",
    "down": "recovery {down}",
}
_SIDES: Final = {
    "met": "met by {met}",
    "missed": "missed by {missed}",
    "unsure": "undecided for {unsure}",
}


def _goodput(of: Values) -> str:
    lost = _joined(of, ", ", _LOST)
    kept = filled("<Loses least: {who}, goodput>", of) or "Goodput"
    return f"{kept} {of['kept']}{'; the rest: ' * bool(lost)}{lost}."


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
    each = _EACH.get(of["objective"], "")
    answer = "{value}" + each + ", {who}< (too large for its {large})>< with {where}>."
    return f"{_BEST[of['objective']]}{goal}: {filled(answer, of)}"


def _goal(of: Values) -> str:
    return {"1": "the target", "2": "both targets"}.get(
        of["targets"], f"all {of['targets']} targets"
    )


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
    found = filled("Closest: {who}< with {where}>, at {value}", of)
    return f"{found}, {_reaching(of)} ({of['target']})."


def _reaching(of: Values) -> str:
    if "reached" not in of:
        return "does not reach the target in every replication"
    off = filled("<{off} {side}>", of) or "but not with 95 % confidence"
    return f"reaches {of['reached']}, {off}"


def _fastest_from(of: Values) -> str:
    """Which modes of a program are the fastest along an axis."""
    axis = of["axis"]
    if "best2" not in of:
        return f"Fastest from {axis} = {of['least']} to {of['most']}: {of['best1']}."
    said, number = [f"{of['best1']} below {axis} = {of['until1']}"], 2
    while f"best{number + 1}" in of:
        said.append(f"{of[f'best{number}']} from there to {of[f'until{number}']}")
        number += 1
    return f"Fastest: {', '.join(said)}, {of[f'best{number}']} above."


def _steps_shown(of: Values) -> str:
    """How long the steps that are shown take in each mode."""
    steps, every = of["steps"], of["of"]
    one = steps == "1"
    who = f"The first of {every} steps" if one else f"The first {steps} of {every} steps"
    if steps == every:
        who = "The one step" if one else f"All {every} steps"
    more = "" if steps == every else f"; --steps {every} shows all"
    return f"{who} take{'s' * one} {of['took']}{more}."


def _compared(of: Values) -> str:
    """How many times as much a strategy does in another scenario."""
    how = "as fast as {first}" if "what" not in of else "the {what} of {first}"
    return filled(
        f"{{other}} {'is' if 'what' not in of else 'has'} {{low..high}} times {how} with {{who}}.",
        of,
    )


# How far behind the next is; at which rates strategies are compared; what a step takes.
_LEAD: Final = "<: {times} times {next}>"
_TUNING: Final = (
    "<First to loss {loss}><Lowest loss at {end}>, each at its best learning rate"
    "< {edge=of those tried}>"
)
_STEP: Final = (
    ": <{best}><{tied}>, <{rate}><{low..high}> a step<; {next} takes {times} times as long>."
)

SENTENCES: Final[dict[str, Line]] = {
    "fastest": f"Fastest: {{best}}, {{rate}}{_LEAD}.",
    "tie": f"Tied fastest: {{tied}}, {{rate}}{_LEAD}.",
    "close": f"Too close to call: {{tied}}, at {{low..high}}{_LEAD}.",
    "too-few": (
        "{count:replication is|replications are} too few to rank {tied} ({low..high}); try {more}."
    ),
    "alone": "{best}: {rate}.",
    "nothing": "No strategy applied gradients in every replication.",
    "none-compared": "Nothing to compare: {who} deadlocked.",
    "none-fits": "Nothing to rank: {who} do not fit into memory.",
    "too-short": "Too short to rank: {count:gradient|gradients} per worker with {who}{more}.",
    "price": lambda of: f"Trade-off: {_joined(of, ' and ', _PRICES)}.",
    "goodput": _goodput,
    "soonest": "First to loss {target}: {best}, after {time}.",
    "soonest-tie": "Tied first to loss {target}: {tied}, after {time..last}.",
    "soonest-too-few": (
        "{count:replication is|replications are} too few to say which is first to loss {target}: "
        "{tied}, after {time..last}."
    ),
    "reached-unranked": (
        "Loss {target} is reached after {low..high}; not ranked, as the strategies share a "
        "learning "
        "rate."
    ),
    "cheapest": "Cheapest: {best}, {price} per million examples.",
    "cheapest-tie": "Tied cheapest: {tied}, {price..last} per million examples.",
    "cheapest-too-few": (
        "{count:replication is|replications are} too few to say which is cheapest: {tied}, "
        "{price..last} per million examples."
    ),
    "same-everywhere": "{who}: {rate} at every point.",
    "never": "No strategy reached loss {target} in every replication.",
    "target": lambda of: f"{of['target']}: {_joined(of, '; ', _SIDES)}.",
    "due-to": "{who}: <{share}><{low..high}> of a step is due to {cause}.",
    "due-to-either": "{who}: main cause too close to call, {causes} of a step.",
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
    "runs-too-short": "No answer: the runs are too short to rank the configurations.",
    "closest": _closest,
    "tuned": (
        f"{_TUNING}: {{best}}, {{value}} at {{rate}}<; {{next}} takes {{times}} times as "
        f"long{{loss=}}>"
        "<; {next} ends at {times} times the loss{end=}>."
    ),
    "tuned-close": f"{_TUNING}: too close to call, {{tied}} ({{low..high}}).",
    "tuned-tie": f"{_TUNING}: {{tied}} tie at {{low}}.",
    "tuned-none": (
        "No strategy <reaches loss {loss}><has a finite loss at {end}> in every fresh run, even at "
        "its "
        "best learning rate."
    ),
    "compared": _compared,
    "compared-once": lambda of: f"From one replication, {_compared(of)}",
    "compared-close": lambda of: f"Too close to call: {_compared(of)}",
    "compared-same": "{first} and {other} are alike with {who}.",
    "compared-nothing": "Nothing to compare: no strategy has {what} in both.",
    "waiting": (
        "Waiting for the slowest worker makes a step {times} times the mean, {barrier}: {share} of "
        "device time is spent waiting."
    ),
    "one-backup": "Waiting for all but one worker saves {saved} of the time: {gain} more steps/s.",
    "comes-last": "Worker {who} comes last in {share} of the steps.",
    "one-worker": "Only one worker, so there is no waiting to measure.",
    "times-hold-waiting": "{why}",
    "predicted": (
        "Total times of {count:recorded run|recorded runs}: median error {median}, at most {worst} "
        "({who})."
    ),
    "forecast": (
        "Total times of {count:recorded run|recorded runs}, predicted by {name}: median error "
        "{median}, at most {worst} ({who})."
    ),
    # of check
    "valid": (
        "{name} is valid: {strategies:strategy|strategies}, "
        "{replications:replication|replications} of "
        "each, {workers:worker|workers}; a run computes about {gradients} gradients."
    ),
    "batch": "A batch takes {mean} to compute ({how}).",
    "wire": "Model: {model}, {size} of parameters. Network: {network}.",
    "valid-variables": (
        "{name} is valid: {variables:variable|variables}, {modes:mode|modes}, "
        "{replications:replication|replications} of each, {workers:worker|workers}."
    ),
    "valid-sweep": (
        "{name} is valid: {points:point|points}, {rows:row|rows} ({different} different), {runs} "
        "runs, {gradients} {what} or more."
    ),
    "valid-plan": (
        "{name} is valid: {configurations:configuration|configurations} ({different} different), "
        "{low} to {high} runs of each; the first runs compute at most {gradients} gradients."
    ),
    "valid-search": (
        "{name} is valid: {configurations} of {of} configurations are tried, {low} to {high} runs "
        "of each; the first runs compute at most {gradients} gradients."
    ),
    "asked": "The plan minimizes {objective}< with {targets}>, over {who}.",
    # of programs of variables
    "step-fastest": f"Fastest{_STEP}",
    "step-tie": f"Tied fastest{_STEP}",
    "step-close": f"Too close to call{_STEP}",
    "step-alone": "{best}: {rate} a step.",
    "step-free": "A step takes no time in {who}: nothing is computed, and nothing sent.",
    "steps-shown": _steps_shown,
    "fastest-from": _fastest_from,
    "read-outside": "Last read from outside: {seen}.",
}


def _configurations_run(of: Values) -> str:
    lower = _LOWER.get(of.get("objective", ""), "lower")
    left = f"; no other can be {lower}" * ("left" in of)
    return filled("{count} of {of} configurations tried, {runs} runs", of) + f"{left}."


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
        "Losses are not ranked: updates of {low..high} gradients share a learning rate; "
        "try varsim tune FILE."
    ),
    "unequal-work": "{many} saw {times} times the examples of {few}: {set}.",
    "short-run": (
        "Short runs: {count:gradient|gradients} per worker with {who}; rates may be far off{more}."
    ),
    "undecided-interval": "{who}: {target} is undecided; try more replications.",
    "undecided-once": "{who}: {target} is undecided from one run: --set replications=5.",
    "undecided-short": "{who}: {target} is undecided: the runs are too short.",
    "undecided-ended": "{who}: {target} is undecided: the runs end too early.",
    "some-reach": "{who}: loss {target} was reached in {count} of {of} replications.",
    "differs": "{who} has {what}.",
    "differs-nowhere": "{who} says what {first} says.",
    "redrawn": "Run with seed {seed}, {count:replication|replications}, to be paired: {who}.",
    "deadlocked-there": "{who} deadlocked in {where}.",
    "not-in-all": "Not in all scenarios, so not compared: {who}.",
    "interval": "± 95 % interval over {count} replications; left out below 1 %.",
    "exact": "Exact: nothing here is random, so one run of each.",
    "exact-times": "Times are exact; losses are from one replication.",
    "one-run": "One replication, so no intervals: --set replications=5.",
    "pushed-late": "Pushes take {share} of the time of {who}; overlap: true (MXNet) hides some.",
    "recorded-order": "{who}: rates are accurate to 0.4 %; nanoseconds decide who queues first.",
    "lockstep": "Step times are fixed, so workers of {who} queue in lockstep; real ones vary.",
    "guess": "The step time, {mean}, is a guess; measured jobs ran {low..high} times as fast.",
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
    "overlap": "With overlap: true, as in PyTorch, {who} is {times} times as fast.",
    "stopped": "Runs ended for different reasons: {reasons}.",
    "events": "Events: {events}.",
    "by-luck": "{who}: met the targets at first, but not with fresh seeds.",
    "short-configurations": (
        "Short runs in {count} of {of} configurations, as few as {gradients:gradient|gradients} "
        "per worker ({who})<; {out} too short to judge>{more}."
    ),
    "undecided": "Too close to a target after {most} replications: {count} configurations.",
    "failed-configurations": "{count} of {of} configurations failed, such as {who}: {why}",
    "memory-left-out": (
        "Not run, too little memory: {who}; the first needs {needs}, a {where} has {has}."
    ),
    "memory-marked": "{who}: {needs} needed, {has} per {where}; timed anyway.",
    "other-speed": (
        "At {speed} times the guessed speed, the answer <fails: {failed}><misses {missed}><does "
        "{rate}>"
        "<{met=still meets every target}><; to plan for that: {again}>."
    ),
    "close-to-answer": (
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
    "margin": (
        "In parentheses: margin to the target, with 95 % confidence<, {guess=if the guess is "
        "right}>; "
        "below 0 it may be missed."
    ),
    "step-times": "{source}: {workers:worker|workers}, {steps:step|steps}, mean {mean}.",
    "times-left-out": "Left out: {count:time|times} of steps that some workers do not have.",
    "few-steps": "Only {count:step|steps}: too few to be representative.",
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
    "other-workload": (
        "{runs}: not the scenario's workload, so only their communication is predicted, with the "
        "compute times that they recorded."
    ),
    "seen-run": "The scenario was fitted to {runs}: their errors prove little.",
    "with-its-times": (
        "Error with its compute times: predicted with those that the run recorded, so what is left "
        "is the error of communication."
    ),
    "busiest": (
        "<Busiest in the answer: {what}. >Worker time< {alive=while nothing fails}>: {time}."
    ),
    "configurations-run": _configurations_run,
    "configurations-chosen": (
        "{count} configurations tried of {of}, {runs} runs; a better one may exist."
    ),
    "horizon-short": "{who}: the horizon, {horizon}, is shorter than one {what} ({lasts}).",
    "hopeless": (
        "{who} hardly progresses: <a failure every {every}, >{needs} to detect and restart"
        "<; repairs take {repair} of the time>."
    ),
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
    "beginning": (
        "Measured on the first {low..high} updates of each strategy<, in {count} of {of} "
        "replications>."
    ),
    "slower-alike": "Slower with {changes}: {who}, as identical workers hit a link all at once.",
    "failed-rows": "{count} of {of} rows failed, such as {who}: {why}",
    "memory-rows": "{count} of {of} rows do not fit into memory ({who}); not ranked.",
    "unjudged": "A sweep does not judge targets ({targets}): varsim run or varsim plan does.",
    "no-step": "{count} of {of} rows have no step within the horizon ({who}): no goodput.",
    "short-rows": (
        "Short runs in {count} of {of} rows, as few as {gradients:gradient|gradients} per worker "
        "({who})<; {out} are too short to rank>{more}."
    ),
    "wide": "{count} of {of} rows are wider than ± {precision} after {most} replications.",
    "stopped-when-precise": "Replications stopped once precise: intervals hold in 90 % or more.",
    "exact-rows": "{count} of {of} rows are exact: nothing in them is random.",
    "interval-rows": "± 95 % interval over {low..high} replications; left out below 1 %.",
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
    "others-cross": "{first} is faster than {second} below {axis} = {where}.",
    "between-points": "Between the points that were run, step times are interpolated linearly.",
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
    return filled(template, values) if isinstance(template, str) else template(values)


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
