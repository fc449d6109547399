"""Scenarios of kind variables: what they take, and each refusal at its place in the file."""

import pytest

from tests.programs import MODES, add, read, scenario, variable
from tests.scenario_text import JARGON, problems
from tests.seams import VariablesScenario, dump_scenario, load_text
from varsim import Scenario, ScenarioError

TEXT = """\
# What does a metric cost?
kind: variables
name: metric
cluster:
  workers: 3
  network: {kind: star, bandwidth: 1 Gbit/s, latency: 50 us}
variables:
  - {name: correct, aggregation: sum}
  - {name: seen, dtype: int64, aggregation: sum}
modes: [on_read, on_write, none]
program:
  steps: 4
  replicas:
    - {kind: assign_add, variable: correct, value: [3, 1, 2]}
    - kind: assign_add
      variable: seen
      value: 8
      times: 2
  outside:
    - {kind: read, variable: correct, every: 2}
    - {kind: save, every: 4}
"""


def test_the_text_is_a_scenario() -> None:
    loaded = load_text(TEXT)
    assert isinstance(loaded, VariablesScenario)
    assert loaded.labels == loaded.all_modes == MODES
    assert [variable.name for variable in loaded.variables] == ["correct", "seen"]
    assert loaded.program.replicas[1].times == 2


def test_a_file_of_variables_without_a_kind_is_told_once() -> None:
    said = problems(TEXT.replace("kind: variables\n", ""))
    assert said == [(10, 1, "program belongs to 'kind: variables': add it")]


@pytest.mark.parametrize("kind", ["variable", "training", "[variables]"])
def test_a_kind_nobody_knows_is_told_once(kind: str) -> None:
    ((line, column, said),) = problems(TEXT.replace("kind: variables", f"kind: {kind}"))
    assert (line, column) == (2, 7)
    assert said.startswith("unknown kind ")
    assert said.endswith("write 'kind: variables', or leave it out to train a model")


def test_a_file_of_variables_is_no_scenario_of_training() -> None:
    assert not isinstance(load_text(TEXT), Scenario)


def test_a_dumped_scenario_is_the_same_scenario() -> None:
    loaded = load_text(TEXT)
    again = dump_scenario(loaded)
    assert again.startswith("kind: variables\n")
    assert load_text(again) == loaded
    assert dump_scenario(load_text(again)) == again


def test_what_is_drawn_survives_a_dump() -> None:
    value = {"kind": "normal", "mean": 2.0, "standard_deviation": 0.5}
    made = scenario((add(value), add(1.0, 2.0, 3.0)), (read(),), variables=(variable(shape=(2,)),))
    assert load_text(dump_scenario(made)) == made


# What is wrong -> the text, and what is said about it where. Lines count from 1.
WRONG: dict[str, tuple[str, str, int, int, str]] = {
    # old, new, line, column, message
    "two variables of one name": (
        "name: seen", "name: correct", 9, 6,
        "variables[1].name: two variables are called 'correct'; give them different names",
    ),
    "modes that nothing needs": (
        "aggregation: sum", "aggregation: sum, synchronization: on_read", 10, 1,
        "modes has no effect: every variable has its own synchronization; leave modes out",
    ),
    "no modes": (
        "modes: [on_read, on_write, none]\n", "", 2, 1,
        "modes is missing: for example [on_write, on_read, none]",
    ),
    "more than memory holds": (
        "{name: correct,", "{name: correct, shape: [10000000, 100],", 8, 21, "shape: at most",
    ),
    "a mode twice": ("[on_read, on_write, none]", "[on_read, on_read]", 10, 1,
                     "modes names 'on_read' twice"),
    "mirrored without copies": (
        "{name: correct,", "{name: correct, synchronization: on_write,", 10, 1,
        "modes: none keeps one copy of every variable on a parameter server, but correct is to be "
        "mirrored; leave its synchronization out",
    ),
    "a variable that is not there": (
        "variable: correct, value", "variable: corect, value", 14, 26,
        "program.replicas[0].variable: there is no variable 'corect' (there are: correct, seen)",
    ),
    "a variable outside that is not there": (
        "variable: correct, every", "variable: wrong, every", 20, 20,
        "program.outside[0].variable: there is no variable 'wrong' (there are: correct, seen)",
    ),
    "too few numbers": (
        "[3, 1, 2]", "[3, 1]", 14, 45,
        "program.replicas[0].value: there are 3 replicas: give 3 numbers, or one",
    ),
    "a fraction for whole numbers": (
        "value: 8", "value: 8.5", 17, 7,
        "program.replicas[1].value: value 8.5 is not a whole number: seen is int64",
    ),
    "whole numbers that are drawn": (
        "value: 8", "value: {kind: normal, standard_deviation: 1}", 17, 7,
        "program.replicas[1].value: drawn numbers are not whole: seen is int64",
    ),
    "a moving average of whole numbers": (
        "- kind: assign_add", "- kind: moving_average\n      momentum: 0.9", 17, 7,
        "program.replicas[1].variable: an average of whole numbers is refused, its shares would be "
        "cut: seen is int64",
    ),
    "one number per replica from outside": (
        "{kind: save, every: 4}", "{kind: assign, variable: seen, value: [1, 2, 3]}", 21, 38,
        "program.outside[1].value: from outside a variable is given one number, not one per "
        "replica",
    ),
    "without end": (
        "times: 2",
        "times: 100000\n    - {kind: read, variable: seen, times: 100000}", 12, 3,
        "program.steps: more than 2,000,000 reads and writes in all; lower steps or times",
    ),
    "a variable nobody uses": (
        TEXT[TEXT.index("    - kind: assign_add") :], "", 9, 5,
        "variables[1]: the program does nothing with 'seen'",
    ),
    "compute without a law": (
        "    - kind: assign_add", "    - {kind: compute}\n    - kind: assign_add", 4, 1,
        "cluster.compute is missing: the program computes; write for example compute: {kind: ",
    ),
    "a law without compute": (
        "workers: 3", "workers: 3\n  compute: {kind: constant, value: 1 ms}", 6, 3,
        "cluster.compute has no effect: the program does not {kind: compute}",
    ),
    "slow workers that do not compute": (
        "workers: 3", "workers: 3\n  slow_workers: [{rank: 0, factor: 2.0}]", 6, 3,
        "cluster.slow_workers has no effect: the program does not compute",
    ),
    "servers nobody uses": (
        "modes: [on_read, on_write, none]", "modes: [on_read]\n", 6, 3,
        "cluster.parameter_servers has no effect: no mode uses servers",
    ),
    "server links nobody uses": (
        "modes: [on_read, on_write, none]", "modes: [on_read]\n\n", 6, 62,
        "cluster.network.server_bandwidth has no effect: no mode uses servers",
    ),
    "more servers than variables": (
        "workers: 3", "workers: 3\n  parameter_servers: 3", 6, 3,
        "cluster.parameter_servers 3: whole variables lie on the servers in turn, and there are "
        "only 2",
    ),
    "an algorithm nobody uses": (
        "modes: [on_read, on_write, none]",
        "modes: [on_read, none]\ncross_device_ops: reduction_to_one_device", 11, 1,
        "cross_device_ops has no effect: no replica writes a variable that is mirrored (on_write) "
        "and summed or averaged; int32 always goes to one device",
    ),
    "replications of what is not random": (
        "name: metric", "name: metric\nreplications: 5", 4, 1,
        "replications has no effect: no time is random",
    ),
    "what TensorFlow refuses": (
        "{name: correct, aggregation: sum}", "{name: correct}", 20, 7,
        "program.outside[0]: under on_read TensorFlow raises ValueError (no_reduce_op): Could not "
        "convert",
    ),
    "what TensorFlow refuses to make": (
        "dtype: int64, aggregation: sum", "dtype: int64, aggregation: mean", 9, 5,
        "variables[1]: under on_read TensorFlow raises ValueError (mean_of_non_float): ",
    ),
    "what TensorFlow refuses from outside": (
        "{kind: save, every: 4}", "{kind: assign_add, variable: seen, value: 1}", 21, 7,
        "program.outside[1]: under on_read TensorFlow raises ValueError (sum_cross_replica_add): ",
    ),
    "nothing to do": (
        TEXT[TEXT.index("  replicas:") :], "", 11, 1,
        "replicas and outside are both empty: nothing would happen",
    ),
    "beyond the last step": (
        "every: 4", "every: 5", 21, 20,
        "program.outside[1].every 5 is beyond the last step, 4: it would never happen",
    ),
    "restored before it is saved": (
        "{kind: save, every: 4}", "{kind: restore, every: 4}", 21, 7,
        "program.outside[1]: nothing has been saved when it restores for the first time; put "
        "{kind: save} before it",
    ),
    "a rank that does not exist": (
        "latency: 50 us", "latency: 50 us, slow_links: [{rank: 3, factor: 2.0}]", 6, 82,
        "rank 3 does not exist: ranks go from 0 to 2 (workers: 3)",
    ),
    "a name with a hyphen": (
        "name: seen", "name: seen-so-far", 9, 12,
        "name may have letters, digits and '_' only, at most 40, and begins with a letter; not "
        "'seen-so-far'",
    ),
    "too many elements": (
        "{name: correct,", "{name: correct, shape: [100000, 1000],", 8, 21,
        "shape: at most 10,000,000 elements can be simulated",
    ),
    "an initial value that does not fit": (
        "dtype: int64,", "dtype: int64, initial: 0.5,", 9, 41,
        "initial 0.5 is not a whole number: seen is int64",
    ),
    "an action of replicas outside": (
        "{kind: save, every: 4}", "{kind: compute}", 21, 14,
        "unknown kind 'compute' (one of: assign, assign_add, assign_sub, read, save, restore)",
    ),
    "an action of the outside in replicas": (
        "- kind: assign_add", "- kind: save", 15, 13,
        "unknown kind 'save' (one of: compute, assign, assign_add, assign_sub, moving_average, "
        "read)",
    ),
    "a key of another action": (
        "{kind: save, every: 4}", "{kind: save, every: 4, variable: seen}", 21, 30,
        "unknown key 'variable'; it belongs in program.replicas (kind: assign)",
    ),
    "a momentum of 1": (
        "{kind: assign_add, variable: correct, value: [3, 1, 2]}",
        "{kind: moving_average, variable: correct, value: 3, momentum: 1}", 14, 69,
        "momentum must be a number above 0 and below 1, not '1'",
    ),
    "a deviation of nothing": (
        "[3, 1, 2]", "{kind: normal, standard_deviation: 0}", 14, 87,
        "standard_deviation must be a number above 0, not '0'",
    ),
    "no steps": ("steps: 4", "steps: 0", 12, 10, "steps must be a whole number above 0"),
    "a mode that does not exist": (
        "none]", "auto]", 10, 28, "unknown modes[2] 'auto' (one of: on_write, on_read, none)",
    ),
    "a dtype that does not exist": (
        "int64", "int46", 9, 25, "unknown dtype 'int46'; did you mean 'int64'?",
    ),
}  # fmt: skip


def assert_refused(text: str, case: tuple[str, str, int, int, str]) -> None:
    old, new, line, column, message = case
    assert old in text
    ((found_line, found_column, said),) = problems(text.replace(old, new))
    assert message in said  # behind the path of the key
    assert (found_line, found_column) == (line, column), said
    assert not JARGON.search(said)


# What stands in the place of [3, 1, 2], and the one thing said about it.
GIVEN = {
    "abc": (
        14, 52,
        "program.replicas[0].value must be a number, a list or a mapping with kind, mean, "
        "standard_deviation, not 'abc'",
    ),
    "'3'": (
        14, 52,
        "program.replicas[0].value must be a number, a list or a mapping with kind, mean, "
        "standard_deviation, not '3'; leave out the quotation marks",
    ),
    "[3, x, 1]": (14, 56, "program.replicas[0].value[1] must be a number, not 'x'"),
    "[[1, 2], 3, 4]": (14, 53, "program.replicas[0].value[0] must be a number, not a list"),
    "[]": (14, 45, "program.replicas[0].value: there are 3 replicas: give 3 numbers, or one"),
    "{kind: normal}": (
        14, 45, "program.replicas[0].value.standard_deviation is missing: a number above 0",
    ),
    "{kind: nromal, standard_deviation: 1}": (
        14, 59,
        "program.replicas[0].value: unknown kind 'nromal'; did you mean 'normal'? (one of: normal)",
    ),
    "{kind: normal, standard_deviation: 1, sd: 3}": (
        14, 90, "program.replicas[0].value: unknown key 'sd'; did you mean 'standard_deviation'?",
    ),
    "{kind: normal, standard_deviation: x}": (
        14, 87, "program.replicas[0].value.standard_deviation must be a number above 0, not 'x'",
    ),
}  # fmt: skip


@pytest.mark.parametrize("value", GIVEN)
def test_one_thing_is_said_of_a_value_that_may_be_of_several_types(value: str) -> None:
    assert problems(TEXT.replace("[3, 1, 2]", value)) == [GIVEN[value]]


SERVERS = {
    "servers nobody uses": ("workers: 3", "workers: 3\n  parameter_servers: 2"),
    "server links nobody uses": ("latency: 50 us}", "latency: 50 us, server_bandwidth: 1 Gbit/s}"),
}


@pytest.mark.parametrize("name", WRONG)
def test_a_wrong_scenario_is_refused_at_the_right_place(name: str) -> None:
    text = TEXT.replace(*SERVERS[name]) if name in SERVERS else TEXT
    assert_refused(text, WRONG[name])


class TestSets:
    def test_a_set_reaches_into_the_program(self) -> None:
        changed = load_text(TEXT, sets=["program.outside.0.every=4", "modes=[none]"])
        assert isinstance(changed, VariablesScenario)
        assert changed.program.outside[0].every == 4
        assert changed.labels == ("none",)

    def test_what_it_makes_wrong_is_told_at_the_set(self) -> None:
        (found,) = problems(TEXT, "program.outside.1.every=5")
        assert found == (
            1,
            1,
            "program.outside[1].every 5 is beyond the last step, 4: it would never happen",
        )


class TestScenario:
    def test_without_a_mode_there_is_one_run(self) -> None:
        fixed = variable(synchronization="on_read")
        made = scenario((add(1.0),), (read(),), variables=(fixed,), modes=())
        assert (made.labels, made.all_modes) == (("as written",), ("on_write",))

    def test_what_is_saved_after_it_is_restored_in_the_list_is_no_refusal(self) -> None:
        outside = ({"kind": "restore", "every": 4}, {"kind": "save", "every": 2})
        assert scenario((add(1.0),), outside, steps=4).program.steps == 4

    def test_a_thousand_replicas_are_checked_at_once(self) -> None:
        made = scenario((add(1.0),), (read(),), cluster={"workers": 1000, "network": {
            "bandwidth": 1e6, "latency": 1e-4}})  # fmt: skip
        assert made.cluster.workers == 1000

    def test_copies_that_no_memory_would_hold(self) -> None:
        big = (variable(), variable(name="w", shape=(1_000_000,), dtype="float64"))
        outside = (read(), {**read(), "variable": "w"})
        with pytest.raises(ValueError, match=r"variables\.1\.shape: 1000 copies .* 8 GB of memory"):
            scenario((add(1.0),), outside, variables=big, cluster={"workers": 1000, "network": {
                "bandwidth": 1e6, "latency": 1e-4}})  # fmt: skip


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ("program.step=2", "program: unknown key 'step'; did you mean 'steps'?"),
        ("cluster.workers=1", "replicas[0].value: there is 1 replica: give one number"),
    ],
)
def test_a_refusal_says_what_to_write(change: str, said: str) -> None:
    with pytest.raises(ScenarioError) as caught:
        load_text(TEXT, sets=[change])
    assert said in str(caught.value)
