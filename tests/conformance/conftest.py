"""One test for every recorded case of training, and a line about what is not as recorded."""

from pathlib import Path

import pytest

from tests.conformance.cases import DATA, cases, quirks, summary
from tests.conformance.files import left_out

LONGEST = 300
TEST = "test_conformance.py::test_recorded_case["


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--cases", metavar="DIR", help="replay the recorded cases of this folder instead"
    )


def folder(config: pytest.Config) -> Path:
    """Where the cases are. The option is unknown where pytest starts from another folder."""
    return Path(config.getoption("cases", None) or DATA).resolve()


def is_ours(config: pytest.Config) -> bool:
    """Whether the cases are those of this repository: what is known to differ there is listed."""
    return folder(config) == DATA


@pytest.fixture
def ours(request: pytest.FixtureRequest) -> bool:
    """See `is_ours`."""
    return is_ours(request.config)


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    for name, between in (("case", False), ("between", True)):
        if name in metafunc.fixturenames:
            found = cases(folder(metafunc.config), between)
            metafunc.parametrize(name, found, ids=[case.name for case in found])


def pytest_terminal_summary(
    terminalreporter: pytest.TerminalReporter, config: pytest.Config
) -> None:
    for line in left_out(folder(config)):
        terminalreporter.write_line(line)
    found = cases(folder(config))
    if found:
        terminalreporter.write_line(summary(found))
        for line in quirks(found, names(terminalreporter, "passed"), listed(terminalreporter)):
            terminalreporter.write_line(line)


def names(reporter: pytest.TerminalReporter, outcome: str, test: str = TEST) -> set[str]:
    """The cases of one test function with some outcome."""
    ids = [report.nodeid for report in reporter.stats.get(outcome, ()) if test in report.nodeid]
    return {found.split("[", 1)[1].removesuffix("]") for found in ids if "[" in found}


def listed(reporter: pytest.TerminalReporter, test: str = TEST) -> dict[str, str]:
    """What was not as recorded and does not make the run fail: case, and why."""
    return {
        report.nodeid.split("[", 1)[1].removesuffix("]"): _in_a_line(report.wasxfail)
        for report in reporter.stats.get("xfailed", ())
        if test in report.nodeid
    }


def _in_a_line(reason: str) -> str:
    words = " ".join(reason.removeprefix("reason: ").split())
    return words if len(words) <= LONGEST else words[:LONGEST] + "..."
