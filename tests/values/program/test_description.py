"""The steps of a program, and how they are cut into blocks."""

from typing import Any

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
