"""What strategies are called: by people, in files and in options."""

from tests.building import scenario
from tests.seams import STRATEGIES


def test_people_know_every_strategy_by_a_name_of_its_own() -> None:
    names = [model.called for model in STRATEGIES.values()]
    assert len(set(names) - {""}) == len(names)
    assert max(map(len, names)) <= 30  # longer ones are cut in titles of figures
    (made,) = scenario({"kind": "none"}).strategies
    given = made.model_copy(update={"name": "mine"})
    assert (made.label, made.title, made.mention) == ("none", *["async PS"] * 2)
    assert (given.label, given.title, given.mention) == ("mine", "mine", "'mine'")
