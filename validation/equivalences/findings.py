"""The identities of one scenario as lines of a validation."""

from validation.equivalences.identities import IDENTITIES, Identity
from validation.finding import Finding, Verdict
from varsim.scenario.training import Scenario


def findings(scenario: Scenario) -> list[Finding]:
    """Try every identity on a scenario; strategies that are not of it have its first optimizer."""
    if scenario.workload.optimizer is None:
        workload = scenario.workload_of(scenario.strategies[0])
        scenario = scenario.model_copy(update={"workload": workload})
    return [one for identity in IDENTITIES for one in _tried(identity, scenario)]


def _tried(identity: Identity, scenario: Scenario) -> list[Finding]:
    why = identity.unless(scenario)
    if why:
        return [
            Finding(
                identity.name,
                scenario.name,
                "",
                "1",
                0.0,
                None,
                None,
                "",
                Verdict.OUT_OF_SCOPE,
                identity.statement,
                why,
            )
        ]
    return [
        Finding(
            identity.name,
            f"{scenario.name}: {name}",
            quantity,
            "1",
            0.0,
            apart,
            None,
            "0, bit for bit" if most == 0 else f"at most {most:g}",
            Verdict.PASS if apart <= most else Verdict.MISS,
            identity.statement,
        )
        for name, quantity, apart, most in identity.compare(scenario)
    ]
