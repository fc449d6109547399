"""How often what is new fails, in words."""

from collections.abc import Iterator
from typing import Final

from varsim.report.words.phrases import digits, long
from varsim.scenario.training import Scenario
from varsim.values.distribution import Weibull

_AS_NEW: Final = 0.05  # by which more or fewer failures are told
_SETTLED: Final = 200.0  # times the mean; over a longer time that is not worked out


def new_at_first(scenario: Scenario) -> Iterator[str]:
    """How much more or less often new members fail, all together, than the mean of their law says.

    Told where they age all the time, and it is known for how long.
    """
    failures = scenario.failures
    if failures is None or failures.strike != "always":
        return
    lasts = failures.horizon or scenario.stop.time
    for one in failures.of:
        law = one.between
        if lasts is None or not isinstance(law, Weibull) or lasts > _SETTLED * law.mean:
            continue
        times = law.renewals(lasts) * law.mean / lasts
        if abs(times - 1) > _AS_NEW:
            yield (
                f"Every {one.domain} is new when the job begins: by its law (weibull, shape "
                f"{law.shape:g}) each fails {digits(times)} times as often in the first "
                f"{long(lasts)} as its mean of {long(law.mean)} says."
            )
