"""What a variable of a program is and is given: numbers that fit, numbers that are drawn."""

import numpy as np
import pytest
from pydantic import ValidationError

from tests.programs import variable
from varsim.distribute.program import (
    NormalElements,
    VariableDescription,
    WrittenValue,
    check_written,
    draw_value,
)
from varsim.values.stream import stream
from varsim.values.variable import Aggregation, Synchronization


def describe(**changes: object) -> VariableDescription:
    return VariableDescription.model_validate(variable(**changes))


class TestVariable:
    @pytest.mark.parametrize("dtype", ["float32", "float64", "int32", "int64"])
    def test_is_filled_with_one_number(self, dtype: str) -> None:
        value = describe(dtype=dtype, shape=(2, 3)).filled(7)
        assert value.dtype == dtype
        assert value.tolist() == [[7, 7, 7], [7, 7, 7]]

    def test_takes_the_mode_unless_it_has_a_synchronization_of_its_own(self) -> None:
        assert describe().options("on_read").synchronization is Synchronization.ON_READ
        fixed = describe(synchronization="on_write").options("on_read")
        assert fixed.synchronization is Synchronization.ON_WRITE
        assert fixed.aggregation is Aggregation.SUM
        assert fixed.name == "v"

    @pytest.mark.parametrize(
        ("changes", "message"),
        [
            ({"shape": (10_000, 1_001)}, "shape: at most 10,000,000 elements can be simulated"),
            ({"dtype": "int32", "initial": 1.5}, "initial 1.5 is not a whole number: v is int32"),
            ({"dtype": "int32", "initial": 2.0**31}, "initial 2.14748e+09 is too large for int32"),
            (
                {"dtype": "int64", "initial": 2.0**53},
                "initial 9.0072e+15 is too large to be given to the last digit",
            ),
            ({"initial": 1e39}, "initial 1e+39 is too large for float32"),
        ],
    )
    def test_refuses_what_it_cannot_hold(self, changes: dict[str, object], message: str) -> None:
        with pytest.raises(ValidationError) as caught:
            describe(**changes)
        assert message in str(caught.value)

    def test_holds_the_largest_that_fit(self) -> None:
        assert describe(dtype="int32", initial=-(2.0**31)).filled(-(2**31)) == -(2**31)
        assert describe(initial=3.4e38).initial == 3.4e38
        assert describe(shape=(10_000, 1_000)).shape == (10_000, 1_000)


NORMAL = NormalElements(mean=2.0, standard_deviation=0.5)


class TestGiven:
    @pytest.mark.parametrize(
        ("given", "replicas", "changes", "message"),
        [
            ((1.0, 2.0), 3, {}, "there are 3 replicas: give 3 numbers, or one"),
            ((1.0, 2.0), None, {}, "from outside a variable is given one number, not one per"),
            (NORMAL, 3, {"dtype": "int64"}, "drawn numbers are not whole: v is int64"),
            (0.5, 3, {"dtype": "int32"}, "value 0.5 is not a whole number: v is int32"),
            ((1.0, 2.5, 3.0), 3, {"dtype": "int32"}, "value 2.5 is not a whole number"),
            (1e39, 3, {}, "value 1e+39 is too large for float32"),
            (
                NormalElements(mean=1e39, standard_deviation=1.0), 3, {},
                "mean 1e+39 is too large for float32",
            ),
            (
                NormalElements(standard_deviation=1e39), 3, {},
                "standard_deviation 1e+39 is too large for float32",
            ),
        ],
    )  # fmt: skip
    def test_what_does_not_fit_is_refused(
        self, given: WrittenValue, replicas: int | None, changes: dict[str, object], message: str
    ) -> None:
        with pytest.raises(ValueError, match=message.replace("+", r"\+")):
            check_written(given, describe(**changes), replicas)

    @pytest.mark.parametrize("given", [1.0, (1.0, 2.0, 3.0), NORMAL])
    def test_what_fits_passes(self, given: WrittenValue) -> None:
        check_written(given, describe(), 3)

    def test_one_number_is_for_all(self) -> None:
        for replica in range(3):
            assert draw_value(4.0, describe(), replica, stream(0, 0, "program", 0)) == 4.0

    def test_of_a_list_each_gets_its_own(self) -> None:
        values = [
            draw_value((3.0, 1.0, 2.0), describe(), rank, stream(0, 0, "program", 0))
            for rank in (0, 1)
        ]
        assert values == [3.0, 1.0]

    def test_drawn_elements_are_normal(self) -> None:
        generator = stream(0, 0, "program", 0)
        value = draw_value(NORMAL, describe(shape=(100_000,)), 0, generator)
        assert value.dtype == np.float32
        # Standard errors: 0.5 / sqrt(100,000) = 0.0016, and 0.5 / sqrt(200,000) = 0.0011.
        assert float(value.mean()) == pytest.approx(2.0, abs=0.008)
        assert float(value.std()) == pytest.approx(0.5, abs=0.006)
        again = draw_value(NORMAL, describe(shape=(100_000,)), 0, generator)
        assert not np.array_equal(value, again), "new ones for each write"

    def test_beyond_the_largest_number_is_infinity_without_a_warning(self) -> None:
        wide = NormalElements(mean=0.0, standard_deviation=3e38)
        value = draw_value(wide, describe(shape=(1000,)), 0, stream(0, 0, "program", 0))
        assert np.isinf(value).any()
