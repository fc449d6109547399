"""The steps of a program: how it is cut into blocks, and what it refuses."""

from typing import Any

import pytest
from pydantic import ValidationError

from tests.programs import add, read
from varsim.distribute.program import Program


def program(steps: int = 6, **parts: Any) -> Program:
    return Program.model_validate({"steps": steps, **parts})


class TestBlocks:
    """Replicas go on until something happens outside."""

    def test_nothing_outside_is_one_block(self) -> None:
        assert program(5, replicas=(add(1.0),)).blocks() == [range(1, 6)]

    def test_something_in_every_step_cuts_after_each(self) -> None:
        found = program(3, replicas=(add(1.0),), outside=(read(),)).blocks()
        assert found == [range(1, 2), range(2, 3), range(3, 4)]

    def test_a_block_ends_with_the_step_in_which_something_happens(self) -> None:
        # Every 4 steps and every 3: after 3, 4, 6, and at the end.
        outside = (read(every=4), {"kind": "save", "every": 3})
        found = program(7, replicas=(add(1.0),), outside=outside).blocks()
        assert [(block[0], block[-1]) for block in found] == [(1, 3), (4, 4), (5, 6), (7, 7)]

    def test_all_steps_are_in_one_block_each(self) -> None:
        blocks = program(100, outside=(read(every=7), read(every=11))).blocks()
        assert [step for block in blocks for step in block] == list(range(1, 101))


class TestRefusals:
    @pytest.mark.parametrize(
        ("parts", "message"),
        [
            ({}, "replicas and outside are both empty: nothing would happen"),
            (
                {"replicas": (add(1.0), read(every=7))},
                "replicas.1.every 7 is beyond the last step, 6: it would never happen",
            ),
            (
                {"outside": ({"kind": "restore"},)},
                "outside.0: nothing has been saved when it restores for the first time; "
                "put {kind: save} before it",
            ),
            (
                {"outside": ({"kind": "restore", "every": 2}, {"kind": "save", "every": 2})},
                "outside.0: nothing has been saved",
            ),
            (
                {"outside": ({"kind": "save", "every": 3}, {"kind": "restore", "every": 2})},
                "outside.1: nothing has been saved",
            ),
        ],
    )
    def test_says_where(self, parts: dict[str, Any], message: str) -> None:
        with pytest.raises(ValidationError) as caught:
            program(**parts)
        assert message in str(caught.value)

    @pytest.mark.parametrize(
        "outside",
        [
            ({"kind": "save"}, {"kind": "restore"}),
            ({"kind": "restore", "every": 2}, {"kind": "save"}),  # that of step 1
            ({"kind": "restore", "every": 4}, {"kind": "save", "every": 3}),
        ],
    )
    def test_restores_what_was_saved_before(self, outside: Any) -> None:
        assert len(program(outside=outside).outside) == 2


def test_actions_have_their_places() -> None:
    found = program(replicas=(add(1.0), read()), outside=(read(),)).actions()
    assert [(place, action.kind) for place, action in found] == [
        ("replicas.0", "assign_add"),
        ("replicas.1", "read"),
        ("outside.0", "read"),
    ]


def test_an_action_happens_in_the_steps_that_every_divides() -> None:
    (action,) = program(replicas=(add(1.0, every=3),)).replicas
    assert [step for step in range(1, 10) if action.happens_in(step)] == [3, 6, 9]
