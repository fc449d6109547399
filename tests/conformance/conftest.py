"""One test for every recorded case that can be replayed, one line about those that cannot."""

from pathlib import Path

import pytest

from conformance.cases import DATA, cases, summary, why_not


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--cases", metavar="DIR", help="replay the recorded cases of this folder instead"
    )


def folder(config: pytest.Config) -> Path:
    """Where the cases are. The option is unknown where pytest starts from another folder."""
    return Path(config.getoption("cases", None) or DATA)


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "case" in metafunc.fixturenames:
        found = [case for case in cases(folder(metafunc.config)) if why_not(case) is None]
        metafunc.parametrize("case", found, ids=[case.name for case in found])


def pytest_terminal_summary(
    terminalreporter: pytest.TerminalReporter, config: pytest.Config
) -> None:
    terminalreporter.write_line(summary(cases(folder(config))))
