"""What models say of settings that do not go together names settings that there are."""

from collections.abc import Iterator
from typing import Any

from tests.seams import STRATEGIES
from varsim import Scenario

Models = dict[str, Any]


def models(base: Any) -> Iterator[Any]:
    """All that derive from a model."""
    for model in base.__subclasses__():
        yield model
        yield from models(model)


def is_there(key: str, model: Any) -> bool:
    """Whether a model has a key, or something that it is checked against."""
    first, *rest = key.split(".")
    if first not in model.model_fields:
        return first == "events" or (first == "cluster" and rest[0] in CLUSTER)
    return not rest


CLUSTER = Scenario.model_fields["cluster"].annotation.model_fields  # type: ignore[union-attr]
ROOT: Any = next(one for one in Scenario.__mro__ if one.__name__ == "Model")


def test_conflicts_name_settings() -> None:
    known = {model for model in models(ROOT) if model.conflicts}
    assert len(known) > len([model for model in STRATEGIES.values() if model.conflicts]) > 3
    for model in known:
        for conflict in model.conflicts:
            for setting in (conflict.if_, conflict.with_):
                key, _, values = setting.removeprefix("no ").partition(": ")
                found = is_there(key, model) or model.__name__ == "LocalSgd"  # it has no groups
                assert found, (model.__name__, setting)
                assert values == values.strip(), setting
