"""`pytest tests/transcripts --approve` writes the transcripts anew, to be read in the diff."""

import pytest


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--approve", action="store_true", help="write the approved transcripts anew")


@pytest.fixture
def approve(pytestconfig: pytest.Config) -> bool:
    """Whether what is said now is right from now on."""
    return bool(pytestconfig.getoption("--approve", default=False))
