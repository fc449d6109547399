"""Which steps of a program are shown: one, or all since the replicas last met."""

from typing import TYPE_CHECKING, Final, NamedTuple

from varsim.distribute.program_run import CROSS_REPLICA

if TYPE_CHECKING:
    from varsim.cluster.program import ProgramTrace
    from varsim.study.variables import VariablesResult

MOST_STEPS: Final = 8  # shown in one panel


class Span(NamedTuple):
    """The steps that are shown, and those whose time can be told."""

    shown: range
    block: range  # from one meeting of all replicas to the next; of one step: `shown`
    whole: bool  # whether the block is over with its last step


def shown_step(result: "VariablesResult") -> int:
    """The first step in which as much as possible happens, of those that are kept whole."""
    actions = [action for _, action in result.scenario.program.actions()]
    last = min(last_whole(result, mode) for mode in result.modes)
    first = min(action.every for action in actions)
    steps = range(first, max(first, min(last, result.scenario.program.steps)) + 1)
    return max(steps, key=lambda step: sum(action.happens_in(step) for action in actions))


def span(result: "VariablesResult") -> Span:
    """The step in which most happens; where replicas are ahead in it, all since they last met.

    Of more than MOST_STEPS only that step: what the replicas that are ahead do meanwhile is of
    other steps.
    """
    number = shown_step(result)
    one = range(number, number + 1)
    block = next(block for block in result.scenario.program.blocks() if number in block)
    if not any(_overlaps(result.trace(mode), number, block) for mode in result.modes):
        return Span(one, one, whole=True)
    last = min(last_whole(result, mode) for mode in result.modes)
    kept = range(block.start, max(number, min(last, block[-1])) + 1)
    shown = kept if len(kept) <= MOST_STEPS else one
    return Span(shown, kept, whole=kept == block)


def length(trace: "ProgramTrace", steps: range) -> float:
    """From the first act in these steps to the end of the last, s."""
    acts = [act for act in trace.acts if act.step in steps]
    return (max(act.end for act in acts) - min(act.begin for act in acts)) / 1e9


def last_whole(result: "VariablesResult", mode: str) -> int:
    """The last step of which every act and message is kept, or 0."""
    trace, scenario = result.trace(mode), result.scenario
    last = scenario.program.steps
    if len(trace.acts) < trace.all_acts:
        # Of every actor's last step more may be missing.
        reached = {act.replica: act.step for act in trace.acts}
        actors = range(scenario.cluster.workers) if scenario.program.replicas else [CROSS_REPLICA]
        last = min(reached.get(replica, 0) for replica in actors) - 1
    if len(trace.sent) < trace.all_sent:
        late = [act.step for act in trace.acts if act.end > _known_until(trace)]
        last = min([last, *(step - 1 for step in late)])
    return max(last, 0)


def _known_until(trace: "ProgramTrace") -> int:
    """Until when all messages are kept, ns."""
    if len(trace.sent) == trace.all_sent:
        return trace.end
    return trace.sent[-1].end - 1 if trace.sent else -1


def _overlaps(trace: "ProgramTrace", number: int, block: range) -> bool:
    """Whether other steps of the block go on during this one."""
    if len(block) == 1:
        return False
    mine = [act for act in trace.acts if act.step == number]
    begin, end = min(act.begin for act in mine), max(act.end for act in mine)
    return any(
        act.step != number and act.begin < end and act.end > begin
        for act in trace.acts
        if act.step in block
    )
