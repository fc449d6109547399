"""One step of a program as a chart: what every replica did, and what was sent where."""

from collections import Counter
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Final

from varsim.distribute.program_run import CROSS_REPLICA, ActionRecord
from varsim.report.told import Chart, Number
from varsim.report.wording import shown
from varsim.study.program.tables import actor, place
from varsim.units import counted

if TYPE_CHECKING:
    from varsim.cluster.program import ProgramTrace
    from varsim.study.variables import VariablesResult

WAITING: Final = "waiting for others"
MOST_STEPS: Final = 8  # shown where replicas are ahead of each other
MOST_REPLICAS: Final = 12
_MOST_SERVERS: Final = 4
MOST_MESSAGES: Final = 60  # drawn in one panel: more cannot be told apart
_SHORTEST: Final = 0.02  # of what is shown: shorter messages are upright lines


def chart(result: "VariablesResult") -> Chart:
    """The step in which most happens, a panel per mode, in the first replication.

    Rows: of `row` (who) the `activity`, from `start` to `end` (s), in `step`, `often` times;
    messages go `to` another row.
    """
    steps = shown_steps(result)
    spans = [_span(result.trace(mode), steps) for mode in result.modes]
    longest = max(end - begin for begin, end in spans)
    rows, remarks = [], {}
    for mode, span in zip(result.modes, spans, strict=True):
        own, remarks[mode] = _panel(result, mode, steps, span, longest)
        rows += [{"who": mode, **row} for row in own]
    since = f"time since step {steps[0]} began (s)"
    return Chart.of("step", "spans", rows, since, "", panel="who", remarks=remarks)


def shown_steps(result: "VariablesResult") -> range:
    """The step in which most happens, of those that are kept whole.

    Where replicas are ahead of each other in it, all since they last met, if these are few.
    """
    actions = [action for _, action in result.scenario.program.actions()]
    last = min(last_whole(result, mode) for mode in result.modes)
    first = min(action.every for action in actions)
    steps = range(first, max(first, min(last, result.scenario.program.steps)) + 1)
    number = max(steps, key=lambda step: sum(action.happens_in(step) for action in actions))
    block = next(block for block in result.scenario.program.blocks() if number in block)
    kept = range(block.start, max(number, min(last, block[-1])) + 1)
    ahead = any(_overlaps(result.trace(mode), number) for mode in result.modes)
    return kept if ahead and len(kept) <= MOST_STEPS else range(number, number + 1)


def last_whole(result: "VariablesResult", mode: str) -> int:
    """The last step of which every act and message is kept, or 0."""
    trace, program = result.trace(mode), result.scenario.program
    last = program.steps
    if len(trace.acts) < trace.all_acts:
        # Of every actor's last step more may be missing.
        reached = {act.replica: act.step for act in trace.acts}
        workers = range(result.scenario.cluster.workers)
        actors = workers if program.replicas else [CROSS_REPLICA]
        last = min(reached.get(replica, 0) for replica in actors) - 1
    if len(trace.sent) < trace.all_sent:
        known = trace.sent[-1].end - 1 if trace.sent else -1
        last = min([last, *(act.step - 1 for act in trace.acts if act.end > known)])
    return max(last, 0)


def _span(trace: "ProgramTrace", steps: range) -> tuple[int, int]:
    """When the first act in these steps begins, and the last ends, ns."""
    acts = [act for act in trace.acts if act.step in steps]
    return min(act.begin for act in acts), max(act.end for act in acts)


def _overlaps(trace: "ProgramTrace", number: int) -> bool:
    """Whether other steps go on during this one."""
    begin, end = _span(trace, range(number, number + 1))
    return any(act.step != number and act.begin < end and act.end > begin for act in trace.acts)


def _panel(
    result: "VariablesResult", mode: str, steps: range, span: tuple[int, int], longest: int
) -> tuple[list[dict[str, Any]], str]:
    """What is drawn of a mode, and what is said beside its name."""
    trace, (begin, end) = result.trace(mode), span
    acts = [
        act  # of these steps, or meanwhile of replicas that are ahead or behind
        for act in trace.acts
        if act.step in steps or (act.begin < end and act.end > begin)
    ]
    sent = [one for one in trace.sent if begin <= one.start and one.end <= end]
    lasting = sorted(one.end - one.start for one in sent)
    why = "too many to draw" if len(sent) > MOST_MESSAGES else ""
    if lasting and not why and lasting[len(lasting) // 2] < _SHORTEST * longest:
        why = "too short to draw"
    drawn = [] if why else sent
    busy = {place(device) for one in drawn for device in (one.source, one.target)}
    names = list(_names(result, acts, busy))

    def row(name: str, activity: str, start: int, stop: int, **more: Any) -> dict[str, Any]:
        start, stop = ((min(max(time, begin), end) - begin) for time in (start, stop))
        own = {"row": name, "activity": activity, "start": start / 1e9, "end": stop / 1e9}
        return {**own, "to": "", "step": 0, "often": 1, **more}

    rows = [row(name, "", begin, end) for name in names]
    first = {one.movement: one.start for one in reversed(trace.sent)}
    at_once: Counter[tuple[str, str, int, int]] = Counter()
    for act in acts:
        name = actor(act.replica)
        if name in names and act.end > act.begin:
            # What is sent for a write in which all meet is sent when the last of them has come.
            met = max(act.begin, min((first.get(m, 0) for m in act.moved), default=act.begin))
            for kind, since, until in ((WAITING, act.begin, met), (act.kind, met, act.end)):
                rows += [row(name, kind, since, until, step=act.step)] if until > since else []
        elif name in names:
            at_once[name, act.kind, act.end, act.step] += 1
    for (name, kind, time, step), often in at_once.items():
        rows.append(row(name, kind, time, time, step=step, often=often))
    for one in drawn:
        source, target = place(one.source), place(one.target)
        if {source, target} <= {*names}:
            rows.append(row(source, "message", one.start, one.end, to=target))
    return rows, _remark(result, mode, steps, span, len(sent), why)


def _names(result: "VariablesResult", acts: list[ActionRecord], busy: set[str]) -> Iterator[str]:
    """Replicas, the slow ones among them; the outside where it acts; servers that took part."""
    cluster = result.scenario.cluster
    slow = [one.rank for one in cluster.slow_workers]
    slow += [one.rank for one in cluster.network.slow_links]
    ranks = dict.fromkeys([*slow[: MOST_REPLICAS // 2], *range(min(cluster.workers, 12))])
    yield from map(actor, sorted(list(ranks)[:MOST_REPLICAS]))
    if any(act.replica == CROSS_REPLICA for act in acts):
        yield actor(CROSS_REPLICA)
    servers = [f"ps {task}" for task in range(cluster.parameter_servers)]
    yield from [name for name in servers if name in busy][:_MOST_SERVERS]


def _remark(
    result: "VariablesResult", mode: str, steps: range, span: tuple[int, int], sent: int, why: str
) -> str:
    """How long it took, and what is not drawn."""
    number = f"step {steps[0]}" if len(steps) == 1 else f"steps {steps[0]} to {steps[-1]}"
    said = [f"{number}: {shown(Number((span[1] - span[0]) / 1e9, unit='s'))}"]
    if steps[-1] > last_whole(result, mode):
        said = [f"{number}, not all is kept"]
    messages = counted(sent, "message") if sent else "nothing is sent"
    said.append(f"{messages}, {why}" if why else messages)
    workers = result.scenario.cluster.workers
    if workers > MOST_REPLICAS:
        said.append(f"{MOST_REPLICAS} of {workers:,} replicas")
    return "; ".join(said)
