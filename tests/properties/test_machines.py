"""What has a state, at random beside a model of it: accumulator, tokens, stored runs."""

import tempfile
from collections import deque
from pathlib import Path

import numpy as np
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

import varsim.tf as tf
from tests.properties.settings import examples
from tests.storing import FILE, Store, a_run

STEPS = st.integers(0, 5)


class AccumulatorMachine(RuleBasedStateMachine):
    """TensorFlow's rules: what is older than the step is dropped; a take gives the mean of all."""

    def __init__(self) -> None:
        super().__init__()
        self.real, self.step, self.inside = tf.ConditionalAccumulator(), 0, list[float]()

    @rule(value=st.integers(-9, 9), local_step=STEPS)
    def apply(self, value: int, local_step: int) -> None:
        fresh = local_step >= self.step
        assert self.real.apply_grad(float(value), local_step) is fresh
        self.inside += [float(value)] * fresh

    @rule(required=st.integers(1, 4))
    def take(self, required: int) -> None:
        if len(self.inside) < required:
            with pytest.raises(RuntimeError, match=f"only {len(self.inside)} have come"):
                self.real.take_grad(required)
            return
        expected = sum(self.inside) / len(self.inside)
        assert float(self.real.take_grad(required)) == pytest.approx(expected, rel=1e-6)
        self.step, self.inside = self.step + 1, []

    @rule(step=STEPS)
    def set_global_step(self, step: int) -> None:
        self.real.set_global_step(step)
        self.step = step

    @invariant()
    def holds_as_many(self) -> None:
        assert self.real.num_accumulated() == len(self.inside)


class TokenMachine(RuleBasedStateMachine):
    """First in, first out; an empty queue would wait for ever."""

    def __init__(self) -> None:
        super().__init__()
        self.real, self.inside = tf.FIFOQueue(), deque[int]()

    @rule(token=STEPS)
    def enqueue(self, token: int) -> None:
        self.real.enqueue(token)
        self.inside.append(token)

    @rule(tokens=st.lists(STEPS, max_size=4))
    def enqueue_many(self, tokens: list[int]) -> None:
        self.real.enqueue_many(tokens)
        self.inside.extend(tokens)

    @rule()
    def dequeue(self) -> None:
        if self.inside:
            assert np.asarray(self.real.dequeue()) == self.inside.popleft()
        else:
            with pytest.raises(RuntimeError, match="empty"):
                self.real.dequeue()

    @invariant()
    def holds_as_many(self) -> None:
        assert int(self.real.size()) == len(self.inside)


class StoreMachine(RuleBasedStateMachine):
    """Runs of a sweep that is interrupted: what was written whole is kept, and nothing else."""

    @initialize()
    def begin(self) -> None:
        self.folder = tempfile.TemporaryDirectory()
        self.file = Path(self.folder.name) / FILE
        self.kept: list[int] = []
        self.asides = 0

    @rule(numbers=st.lists(st.integers(0, 30), max_size=4, unique=True))
    def make_runs(self, numbers: list[int]) -> None:
        new = [number for number in numbers if number not in self.kept]
        with Store(Path(self.folder.name)) as store:
            store.add(map(a_run, new))
        self.kept += new

    @precondition(lambda self: self.kept)
    @rule(share=st.floats(0, 1))
    def be_killed_while_writing(self, share: float) -> None:
        """The last line is there in part."""
        content = self.file.read_bytes()
        *_, last = content.splitlines(keepends=True)
        left = int(share * (len(last) - 1))
        self.file.write_bytes(content[: len(content) - len(last) + left])
        self.kept.pop()

    @precondition(lambda self: len(self.kept) > 1)
    @rule(place=st.floats(0, 1, exclude_max=True), line=st.integers(0, 30))
    def have_a_byte_changed(self, place: float, line: int) -> None:
        """In the middle of a line: that one is lost, the file is kept aside."""
        lines = self.file.read_bytes().splitlines(keepends=True)
        hit = line % len(lines)
        at = int(place * (len(lines[hit]) - 1))
        lines[hit] = lines[hit][:at] + bytes([lines[hit][at] ^ 1]) + lines[hit][at + 1 :]
        self.file.write_bytes(b"".join(lines))
        self.kept.pop(hit)
        self.asides += 1
        with Store(Path(self.folder.name)) as store:
            assert store.aside is not None

    @invariant()
    def what_was_written_whole_is_there(self) -> None:
        with Store(Path(self.folder.name)) as store:
            assert [str(run) for run in store.runs()] == [str(a_run(n)) for n in self.kept]
        assert len([*Path(self.folder.name).glob("*unreadable*")]) == self.asides

    def teardown(self) -> None:
        self.folder.cleanup()


@pytest.mark.parametrize("machine", [AccumulatorMachine, TokenMachine, StoreMachine])
def test_it_does_as_its_model(machine: type[RuleBasedStateMachine]) -> None:
    machine.TestCase.settings = settings(examples(10), stateful_step_count=12)
    machine.TestCase().runTest()
