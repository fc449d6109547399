"""How many random scenarios, and from which seed: 1,000 from 0 unless told otherwise.

Or as many as the module says by `SCENARIOS`.
"""

import pytest

CHUNK = 50


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--scenarios", metavar="NUMBER", type=int, help="random scenarios to compare")
    parser.addoption("--first", metavar="SEED", type=int, help="the seed of the first one")


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """The options are unknown where pytest starts from another folder."""
    if "seeds" in metafunc.fixturenames:
        first = metafunc.config.getoption("first", None) or 0
        usual = getattr(metafunc.module, "SCENARIOS", 1000)
        number = metafunc.config.getoption("scenarios", None) or usual
        end = first + number
        chunks = [range(seed, min(seed + CHUNK, end)) for seed in range(first, end, CHUNK)]
        metafunc.parametrize("seeds", chunks, ids=[f"from {chunk.start}" for chunk in chunks])
