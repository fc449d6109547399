"""Which recorded cases of strategies in between are replayed."""

import pytest

from tests.conformance.conftest import folder
from tests.conformance.files import BETWEEN, gone
from tests.conformance.in_between.recorded import cases


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "between" in metafunc.fixturenames:
        found = [
            one
            for one in cases(folder(metafunc.config))
            if one.record["kind"] in BETWEEN and not gone(one.record)
        ]
        metafunc.parametrize("between", found, ids=[one.name for one in found])
