"""One test for every recorded case, and lines about what is not as recorded."""

from collections import Counter
from pathlib import Path

import pytest

from tests.conformance.records import DATA, VARIABLES, cases, left_out

LONGEST = 300
TEST = "::test_recorded_case["


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--cases", metavar="DIR", help="replay the recorded cases of this folder instead"
    )


def folder(config: pytest.Config) -> Path:
    """Where the cases are. The option is unknown where pytest starts from another folder."""
    return Path(config.getoption("cases", None) or DATA).resolve()


@pytest.fixture
def ours(request: pytest.FixtureRequest) -> bool:
    """Whether the cases are those of this repository: what is known to differ there is listed."""
    return folder(request.config) == DATA


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    found = cases(folder(metafunc.config))
    if "on_cluster" in metafunc.fixturenames:
        found = [case for case in found if case.kind == VARIABLES]
        if folder(metafunc.config) == DATA:  # of random programs every eighth
            found = [
                case
                for case in found
                if not case.name.startswith("random/") or int(case.name[7:]) % 8 == 0
            ]
        metafunc.parametrize("on_cluster", found, ids=[case.name for case in found])
    elif "case" in metafunc.fixturenames:
        metafunc.parametrize("case", found, ids=[case.name for case in found])


def pytest_terminal_summary(
    terminalreporter: pytest.TerminalReporter, config: pytest.Config
) -> None:
    found = cases(folder(config))
    lines = left_out(folder(config))
    kinds = Counter(case.status for case in found)
    numbers = ", ".join(f"{number} {status}" for status, number in sorted(kinds.items()))
    passed = {one.nodeid for one in terminalreporter.stats.get("passed", ()) if TEST in one.nodeid}
    quirks = [case.name for case in found if case.status == "quirk"]
    followed = sum(f"[{name}]" in nodeid for nodeid in passed for name in quirks)
    if found:
        lines.append(f"recorded cases: {len(found)} ({numbers})")
    if passed and quirks:
        lines.append(f"quirks among these cases: {followed} of {len(quirks)} followed")
    for report in terminalreporter.stats.get("xfailed", ()):
        if "[" in report.nodeid and "conformance" in report.nodeid:
            _, _, test = report.nodeid.rpartition("::")
            why = " ".join(report.wasxfail.removeprefix("reason: ").split())
            lines.append(f"  {test}: {why if len(why) <= LONGEST else why[:LONGEST] + '...'}")
    for line in lines:
        terminalreporter.write_line(line)
