"""What a variable of a program may hold."""

import pytest
from pydantic import ValidationError

from tests.programs import variable
from varsim.distribute.attributes import Aggregation, Synchronization
from varsim.distribute.program import (
    VariableDescription,
)


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
