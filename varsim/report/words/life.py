"""The life of a job among random failures, in words: its cells, its sentence, its notes."""

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Final

from varsim.report.words.phrases import digits, long, plus_minus
from varsim.scenario.training import Scenario
from varsim.values.distribution import Weibull

if TYPE_CHECKING:
    from varsim.study.statistics import Estimate
    from varsim.study.why.lives import Help


_AS_NEW: Final = 0.05  # by which more or fewer failures are told
_SETTLED: Final = 200.0  # times the mean; over a longer time that is not worked out


def helped(helps: "Sequence[Help]") -> str:
    """What is left of a job's time among failures, which change would help most, which not."""
    base, *changes = helps
    kept = plus_minus(base.goodput, 100, "%")
    best = max(changes, key=lambda one: one.gain.mean, default=None)
    if best is None or best.gain.mean <= 0:
        return f"With failures it keeps {kept} of its time; nothing that was tried would help."
    sure = "" if best.gain.low > 0 else ", if anything does"
    useless = ", ".join(one.title for one in changes if one.gain.mean <= 0)
    return (
        f"With failures it keeps {kept} of its time; of what was tried, {best.title} would help "
        f"most{sure}: {_points(best.gain)}.{f' Of no help: {useless}.' if useless else ''}"
    )


def helps_as_text(helps: "Sequence[Help]") -> list[tuple[str, str, str]]:
    """What if: the change, goodput, how much more that is; of those that leave more."""
    return [
        (one.title, plus_minus(one.goodput, 100, "%"), _points(one.gain) if one.key else "-")
        for one in helps
        if not one.key or one.gain.mean > 0
    ]


def _points(gain: "Estimate") -> str:
    sign = "+" if gain.mean > 0 else ""
    return f"{sign}{plus_minus(gain, 100)} points"


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
