"""How many random scenarios, from which seed: 1,000 from 0, most of them slow, unless told.

Or as many as the module says by `SCENARIOS`.
"""

import pytest

CHUNK = 50
QUICK = 250  # so many are no slow test


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--scenarios", metavar="NUMBER", type=int, help="random scenarios to compare")
    parser.addoption("--first", metavar="SEED", type=int, help="the seed of the first one")


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """The options are unknown where pytest starts from another folder."""
    if "seeds" in metafunc.fixturenames:
        first = metafunc.config.getoption("first", None) or 0
        usual = getattr(metafunc.module, "SCENARIOS", 1000)
        asked = metafunc.config.getoption("scenarios", None)
        number = asked or usual
        end = first + number
        metafunc.parametrize(
            "seeds",
            [
                pytest.param(
                    range(seed, min(seed + CHUNK, end)),
                    id=f"from {seed}",
                    marks=[pytest.mark.slow] if seed >= QUICK and not asked else [],
                )
                for seed in range(first, end, CHUNK)
            ],
        )
