"""One test for every recorded case of distributed variables, one line about known differences."""

import pytest

from tests.conformance.cases import told
from tests.conformance.conftest import folder, is_ours, listed, names
from tests.conformance.variables.known import summary
from tests.conformance.variables.records import cases, is_in_sample

TEST = "variables/test_variables.py::test_recorded_case["
BACKWARDS = "test_recorded_case_with_the_last_replica_first["


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "recorded" in metafunc.fixturenames:
        found = cases(folder(metafunc.config))
        if is_ours(metafunc.config) and metafunc.module.__name__.endswith("test_on_a_cluster"):
            found = [case for case in found if is_in_sample(case)]
        metafunc.parametrize("recorded", found, ids=[case.name for case in found])


def pytest_terminal_summary(
    terminalreporter: pytest.TerminalReporter, config: pytest.Config
) -> None:
    found = cases(folder(config))
    if not found:
        return
    terminalreporter.write_line(summary(found))
    quirks = [case.name for case in found if case.status == "quirk"]
    passed, differing = names(terminalreporter, "passed", TEST), listed(terminalreporter, TEST)
    for line in told("cases of variables", quirks, passed, differing):
        terminalreporter.write_line(line)
    backwards = listed(terminalreporter, BACKWARDS)
    for case in found:
        if case.name in backwards and case.name not in differing:
            terminalreporter.write_line(f"  {case.name}: {backwards[case.name]}")
