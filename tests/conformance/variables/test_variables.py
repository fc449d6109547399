"""varsim does, step by step, what TensorFlow was recorded to do (see data/variables/SOURCES.md)."""

from conformance.variables.known import NOT_REPRODUCED
from conformance.variables.records import DATA, Case, cases
from conformance.variables.replay import Replay


def test_recorded_case(recorded: Case) -> None:
    differences = Replay(recorded).run()
    if recorded.name in NOT_REPRODUCED:
        assert differences, "it does agree: take it off the table"
    else:
        assert not differences, "\n".join(differences)


def test_only_accidents_are_not_reproduced() -> None:
    by_name = {case.name: case for case in cases(DATA)}
    assert all(by_name[name].status != "contract" for name in NOT_REPRODUCED)
    assert all(reason.startswith("not reproduced: ") for reason in NOT_REPRODUCED.values())
    assert len(NOT_REPRODUCED) <= 15
