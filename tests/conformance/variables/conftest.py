"""One test for every recorded case of distributed variables, one line about known differences."""

from pathlib import Path

import pytest

from conformance.variables.known import DEPENDS_ON_ORDER, NOT_REPRODUCED, summary
from conformance.variables.records import DATA, cases


def folder(config: pytest.Config) -> Path:
    """Where the cases are; the option belongs to the folder above."""
    return Path(config.getoption("cases", None) or DATA)


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "recorded" in metafunc.fixturenames:
        found = cases(folder(metafunc.config))
        metafunc.parametrize("recorded", found, ids=[case.name for case in found])


def pytest_terminal_summary(
    terminalreporter: pytest.TerminalReporter, config: pytest.Config
) -> None:
    found = cases(folder(config))
    if found:
        terminalreporter.write_line(summary(found))
        for case in found:
            for table in (NOT_REPRODUCED, DEPENDS_ON_ORDER):
                if case.name in table:
                    terminalreporter.write_line(f"  {case.name}: {table[case.name]}")
