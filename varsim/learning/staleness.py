"""Staleness policies: what becomes of a gradient of values that have been updated meanwhile."""

from abc import ABC
from typing import TYPE_CHECKING, ClassVar, Final, Literal, TypeAlias

from pydantic import Field, NonNegativeInt

from varsim.core.refusal import refused
from varsim.core.schema import Model, one_of
from varsim.learning.gradient import Array, Value
from varsim.learning.gradient_form import IndexedSlices
from varsim.learning.optimizer import Optimizer


class StalenessPolicy(Model, ABC):
    """What is done with a gradient by its staleness, just before it is applied.

    Staleness: the updates of the model from the read that the gradient was computed at to this
    moment. Of an update by several gradients each is treated by its own, before their mean. Where
    variables are updated one by one, each part is treated as it comes.
    """

    # Whether it only changes values: without effect where there are none.
    about_values: ClassVar[bool] = True
    # Whether it compares with the values that the gradient was computed at, which servers keep.
    needs_read: ClassVar[bool] = False

    kind: str

    def check(self, rule: Optimizer) -> None:
        """Raise ValueError where the policy does not go with an optimizer."""

    def drops(self, staleness: int) -> bool:
        """Whether a gradient so stale is dropped."""
        return False

    def adjusted(self, gradient: Value, staleness: int, now: Array, read: Array) -> Value:
        """What is applied in place of a gradient of one variable.

        `now`: the variable just before the update; `read`: at which the gradient was computed.
        """
        return gradient


class Unadjusted(StalenessPolicy):
    """Gradients are applied as they are, however stale."""

    about: ClassVar[str] = "gradients are applied as they are, however stale; the default"
    about_values: ClassVar[bool] = False

    kind: Literal["none"] = "none"


class InverseStaleness(StalenessPolicy):
    """The learning rate of a gradient is divided by its staleness: rate / max(1, staleness).

    Zhang et al., 2016 (Staleness-aware Async-SGD for Distributed Deep Learning): in an update by
    several gradients each has a rate of its own. They have plain SGD, where that is a gradient so
    much smaller; optimizers that remember are refused, as Adam would make up for it, and of
    momentum it is not said what happens to what is remembered.
    """

    about: ClassVar[str] = "the learning rate is divided by max(1, staleness), each gradient's own"

    kind: Literal["inverse"] = "inverse"

    def check(self, rule: Optimizer) -> None:
        """Plain SGD only."""
        if rule.kind != "sgd":
            raise refused(
                "staleness_policy",
                f"inverse goes with plain sgd only, not {rule.kind}: a rate for each gradient says "
                "nothing about what an optimizer remembers (delay_compensated and drop_above go "
                "with all)",
            )

    def adjusted(self, gradient: Value, staleness: int, now: Array, read: Array) -> Value:
        if staleness <= 1:
            return gradient
        if isinstance(gradient, IndexedSlices):
            return gradient.with_values(gradient.values / staleness)
        return gradient / staleness


class DelayCompensated(StalenessPolicy):
    """A gradient g becomes g + lambda g g (x - x_read), elementwise: DC-ASGD.

    An estimate of the gradient at x, the values just before the update, from the values x_read at
    which it was computed: its square stands for the Hessian. lambda is `variance_control`. Of a
    sparse gradient only its rows change.
    Zheng et al., 2017 (Asynchronous Stochastic Gradient Descent with Delay Compensation), with a
    constant lambda.
    """

    about: ClassVar[str] = "DC-ASGD: g + lambda g g (x - x_read); lambda is variance_control"
    needs_read: ClassVar[bool] = True

    kind: Literal["delay_compensated"] = "delay_compensated"
    variance_control: float = Field(ge=0)
    """lambda, the weight of the compensation."""

    def adjusted(self, gradient: Value, staleness: int, now: Array, read: Array) -> Value:
        if isinstance(gradient, IndexedSlices):
            gradient = gradient.summed()
            rows, g = gradient.indices, gradient.values
            moved = now[rows] - read[rows]
            return gradient.with_values(g + self.variance_control * g * g * moved)
        return gradient + self.variance_control * gradient * gradient * (now - read)


class DropAbove(StalenessPolicy):
    """A gradient staler than `staleness` is dropped: its computation is wasted.

    Its worker goes on as if it had been applied, but it makes no update.
    """

    about: ClassVar[str] = "gradients staler than a bound are dropped"
    about_values: ClassVar[bool] = False

    kind: Literal["drop_above"] = "drop_above"
    staleness: NonNegativeInt
    """The most updates that a gradient may be stale."""

    def drops(self, staleness: int) -> bool:
        return staleness > self.staleness


STALENESS_POLICIES: Final[dict[str, type[StalenessPolicy]]] = {
    "none": Unadjusted,
    "inverse": InverseStaleness,
    "delay_compensated": DelayCompensated,
    "drop_above": DropAbove,
}

if TYPE_CHECKING:
    AnyStalenessPolicy: TypeAlias = StalenessPolicy
else:
    AnyStalenessPolicy = one_of(STALENESS_POLICIES)
