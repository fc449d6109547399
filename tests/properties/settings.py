"""How many examples a property is tried with: a few always, many at night."""

import os

from hypothesis import HealthCheck, Phase, settings

# `VARSIM_EXAMPLES=10000 pytest tests/properties` is what runs at night.
MANY = os.environ.get("VARSIM_EXAMPLES")


def examples(few: int) -> settings:
    """The decorator of a property that is tried with `few` examples by default."""
    return settings(
        max_examples=int(MANY) if MANY else few,
        derandomize=MANY is None,
        deadline=None,
        phases=(Phase.explicit, Phase.reuse, Phase.generate, Phase.shrink),
        suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much],
    )
