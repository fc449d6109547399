"""What every test needs: BLAS with one thread, so that tests leave the other cores alone.

Output as in a pipe, whatever a terminal is as wide as. And Ctrl-C: who is started in the background
by a shell ignores it, and so would the commands that tests interrupt. In `.ci/run`, besides: a test
that is skipped turns it red, none begins after a given time, and both are named; too many that do
not begin turn it red, too.
"""

import os
import signal
import time
from pathlib import Path

import pytest

for _name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(_name, "1")

os.environ.pop("COLUMNS", None)

if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

NOTES = os.environ.get("CI_NOTES")  # a folder
UNTIL = float(os.environ.get("CI_UNTIL", "inf"))  # seconds since 1970
LEFT_OUT = float(os.environ.get("CI_LEFT_OUT", "1"))  # the share that may not begin
NO_TIME = "no time was left"

_skipped: dict[str, str] = {}


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Those of the site come first: it takes longest to build, and one process builds it."""
    items.sort(key=lambda item: "site" not in getattr(item, "fixturenames", ()))


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup() -> None:
    if NOTES and time.time() > UNTIL:
        pytest.skip(NO_TIME)


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    if report.skipped and not hasattr(report, "wasxfail") and isinstance(report.longrepr, tuple):
        _skipped[report.nodeid] = report.longrepr[2].removeprefix("Skipped: ")


def pytest_collectreport(report: pytest.CollectReport) -> None:
    if report.skipped and isinstance(report.longrepr, tuple):
        _skipped[report.nodeid] = report.longrepr[2].removeprefix("Skipped: ")


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish(session: pytest.Session) -> None:
    if not NOTES or hasattr(session.config, "workerinput") or not _skipped:
        return
    (Path(NOTES) / "names").mkdir(exist_ok=True)
    lines = [f"not tested: {name} ({reason})\n" for name, reason in sorted(_skipped.items())]
    name = str(len([*(Path(NOTES) / "names").iterdir()]))
    (Path(NOTES) / "names" / name).write_text("".join(lines), encoding="utf-8")
    reasons = [*_skipped.values()]
    too_many = reasons.count(NO_TIME) > LEFT_OUT * session.testscollected
    if session.exitstatus == 0 and (too_many or {*reasons} != {NO_TIME}):
        session.exitstatus = pytest.ExitCode.TESTS_FAILED
