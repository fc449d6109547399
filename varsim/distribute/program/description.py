"""The steps of a program: a frozen description, as a scenario writes it."""

from collections.abc import Sequence
from typing import Self

from pydantic import Field, PositiveInt, model_validator

from varsim.distribute.program.action import Action, AnyOutsideAction, AnyReplicaAction
from varsim.values.schema import Model


class Program(Model):
    """What happens in every step: first the replicas' part, in each of them, then the outside's.

    Replicas wait for each other where a variable has it so, and at the end of a step in which
    something happens outside. Outside is the chief, on the machine of replica 0.
    """

    steps: PositiveInt = Field(le=100_000)
    replicas: tuple[AnyReplicaAction, ...] = ()
    outside: tuple[AnyOutsideAction, ...] = ()

    @model_validator(mode="after")
    def _something_happens(self) -> Self:
        if not self.replicas and not self.outside:
            raise ValueError("replicas and outside are both empty: nothing would happen")
        for place, action in self.actions():
            if action.every > self.steps:
                raise ValueError(
                    f"{place}.every {action.every} is beyond the last step, {self.steps}: "
                    "it would never happen"
                )
        return self

    @model_validator(mode="after")
    def _saved_before_restored(self) -> Self:
        for index, action in enumerate(self.outside):
            if action.kind == "restore" and not self._saved(index, action.every):
                raise ValueError(
                    f"outside.{index}: nothing has been saved when it restores for the first time; "
                    "put {kind: save} before it"
                )
        return self

    def actions(self) -> Sequence[tuple[str, Action]]:
        """All actions, each with its place: `replicas.0`."""
        return [
            *[(f"replicas.{index}", action) for index, action in enumerate(self.replicas)],
            *[(f"outside.{index}", action) for index, action in enumerate(self.outside)],
        ]

    @property
    def longest(self) -> int:
        """After so many steps everything has happened."""
        return max(action.every for _, action in self.actions())

    def blocks(self) -> list[range]:
        """The steps, cut after every one in which something happens outside; the first is 1."""
        blocks, start = [], 1
        for step in range(1, self.steps + 1):
            if step == self.steps or any(one.happens_in(step) for one in self.outside):
                blocks.append(range(start, step + 1))
                start = step + 1
        return blocks

    def _saved(self, index: int, step: int) -> bool:
        """Is a checkpoint there when the action at `index` first happens, in `step`?"""
        return any(
            one.kind == "save" and (one.every < step or (one.every == step and place < index))
            for place, one in enumerate(self.outside)
        )
