"""What varsim deliberately does not do as TensorFlow does; accidents only, never the contract."""

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Final

import pytest

from tests.conformance.variables.records import Case

# Case: "not reproduced: why". A case that is here must differ, so that the table stays true.
_ABORTED: Final = (
    "not reproduced: numbers of several types in one collective end it with InternalError, which "
    "every later collective of the same process repeats; they were recorded in one process"
)
NOT_REPRODUCED: Final[dict[str, str]] = dict.fromkeys(
    [f"random/{number}" for number in (5178, 5185, 5189, 5190, 5196, 5199)], _ABORTED
)

# More than this would be another system.
LIMIT: Final = 15

# Case: why it ends otherwise on a cluster where the last replica is the first to act. In
# TensorFlow replicas act in turn, so what is recorded is what the first of them do.
DEPENDS_ON_ORDER: Final[dict[str, str]] = {
    "errors/shapes-differ-between-replicas-none": (
        "depends on the order of replicas: replica 0 writes its own copy, replica 1 fails; where "
        "replica 1 is ahead its error ends the run before replica 0 has written"
    ),
}


def check(case: Case, differences: Sequence[str], *, ours: bool) -> None:
    """Fail unless a case was as recorded, or differs as it is known to.

    A quirk that is not followed is listed. Among the cases of this repository (`ours`) that is
    only what stands in the table.
    """
    if case.name in NOT_REPRODUCED:
        assert differences, "it does agree: take it off the table"
        pytest.xfail(NOT_REPRODUCED[case.name])
    if differences and case.status == "quirk" and not ours:
        pytest.xfail(differences[0])
    assert not differences, "\n".join(differences)


def summary(found: Iterable[Case]) -> str:
    """How many cases there are, of which status."""
    listed = list(found)
    kinds = Counter(case.status for case in listed)
    return f"recorded cases of variables: {len(listed)} (" + (
        ", ".join(f"{number} {status}" for status, number in sorted(kinds.items())) + ")"
    )
