"""The one loader: a file, a text or a dict as an experiment's data, whatever its kind."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Final, NamedTuple, TypeAlias

from varsim.scenario.document import MappingNode, read_document
from varsim.scenario.fault import Fault, ScenarioError, Source
from varsim.scenario.loading import load_text, read_text
from varsim.scenario.plan.loading import question_of_text
from varsim.scenario.plan.question import Question
from varsim.scenario.sweep.loading import sweep_of_text
from varsim.scenario.sweep.space import Sweep
from varsim.scenario.training import Scenario
from varsim.scenario.variables import VariablesScenario

# A path; a text of at least one line; or what such a text says, as a dict.
ScenarioSource: TypeAlias = str | Path | Mapping[str, Any]
Loaded: TypeAlias = Scenario | VariablesScenario | Sweep | Question

_NAME: Final = "scenario"  # of what comes from no file


class Document(NamedTuple):
    """The text of a scenario, what errors call it, and the folder that its files are in.

    `seen`: whether anybody has seen the lines of the text.
    """

    text: str
    name: str = _NAME
    folder: Path = Path()
    seen: bool = True

    @classmethod
    def of(cls, given: ScenarioSource) -> "Document":
        """What was given, as a text; ScenarioError where there is none to be had."""
        if isinstance(given, Mapping):
            try:
                return cls(json.dumps(given, indent=1, allow_nan=False, default=dict), seen=False)
            except (TypeError, ValueError) as error:
                why = f"not made of mappings, lists, texts and numbers: {error}"
                raise ScenarioError([Fault(Source(_NAME), 0, 0, why)]) from None
        if isinstance(given, str) and "\n" in given:
            return cls(given)
        path = Path(given)
        return cls(read_text(path), str(path), path.parent)

    def as_seen(self, error: ScenarioError) -> ScenarioError:
        """The error without lines, where nobody has seen them: every message names its key."""
        if self.seen:
            return error
        return ScenarioError([replace(one, line=0) for one in error.problems], error.left_out)


def load(given: ScenarioSource, sets: Sequence[str] = (), strategies: Sequence[str] = ()) -> Loaded:
    """A scenario of training or of variables, or a sweep or plan where there is a block of one.

    Each of `sets` is `key.path=value`, as after `--set`. `strategies`: only those of these kinds or
    labels; by default all. Raises ScenarioError with everything that is wrong, each with its place.
    """
    document = Document.of(given)
    try:
        text, name, folder, _ = document
        root, _ = read_document(text, Source(name))
        blocks = root.keys if isinstance(root, MappingNode) else {}
        if "sweep" in blocks:
            return sweep_of_text(text, name, folder, sets, strategies=strategies)
        if "plan" in blocks:
            return question_of_text(text, name, folder, sets, strategies=strategies)
        return load_text(text, name, folder, sets, strategies)
    except ScenarioError as error:
        raise document.as_seen(error) from None
