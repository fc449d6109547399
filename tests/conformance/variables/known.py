"""What varsim deliberately does not do as TensorFlow does; accidents only, never the contract."""

from collections import Counter
from collections.abc import Iterable
from typing import Final

from conformance.variables.records import Case

# Case: "not reproduced: why". A case that is here must differ, so that the table stays true.
NOT_REPRODUCED: Final[dict[str, str]] = {}

# More than this would be another system.
LIMIT: Final = 15


def summary(found: Iterable[Case]) -> str:
    """How many cases there are, and how many are known to differ."""
    listed = list(found)
    kinds = Counter(case.status for case in listed)
    known = sum(case.name in NOT_REPRODUCED for case in listed)
    return (
        f"recorded cases of variables: {len(listed)} ("
        + ", ".join(f"{number} {status}" for status, number in sorted(kinds.items()))
        + f"), of which {known} deliberately not reproduced"
    )
