"""Scenario of distributed variables alone, `kind: variables`."""

from collections.abc import Sequence
from typing import Annotated, ClassVar, Literal, Self

from pydantic import Field, StringConstraints, model_validator

from varsim.cluster.programs import ProgramTrace, ReplicaCluster, run_program
from varsim.core.operation import DistributionError, finish
from varsim.core.stream import stream
from varsim.distribute.program import (
    Action,
    Program,
    VariableDescription,
    Writing,
    check_written,
)
from varsim.distribute.program_run import MOST_COPIES, Algorithm, Mode, ProgramRun
from varsim.scenario.targets import Reporting, Targets
from varsim.scenario.writing import ShownAsFile
from varsim.strategies import STRATEGIES, Strategy

AS_WRITTEN = "as written"

# What is kept of all runs of a scenario, at most about 100 MB of text: acts, the copies that are
# looked at in them, and messages.
MOST_ACTS, MOST_GLANCES, MOST_SENT = 200_000, 800_000, 300_000
_MOST_ACTIONS = 2_000_000
_MOST_BYTES = 8e9  # of all copies of all variables


class VariablesScenario(ShownAsFile):
    """Variables, a program that writes and reads them, and a cluster to run it on.

    Each of `modes` is a strategy: what the variables without a synchronization of their own are
    given. `cross_device_ops`: how mirrored copies are reduced (tf.distribute.CrossDeviceOps).
    """

    kind: Literal["variables"]
    name: Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9][A-Za-z0-9_.-]{0,63}$")]
    """Name of the scenario, and of the folder of its report."""
    seed: int = Field(0, ge=0, lt=2**63)
    """Where all random numbers come from."""
    replications: int = Field(1, ge=1, le=10_000)
    """Runs of each mode, each on draws of its own."""
    cluster: ReplicaCluster
    """Workers with a replica each, servers and the network between them."""
    variables: tuple[VariableDescription, ...] = Field(min_length=1, max_length=100)
    """The variables of the program."""
    modes: tuple[Mode, ...] = ()
    """What is compared: the synchronization of all variables that do not say their own."""
    cross_device_ops: Algorithm = "ring"
    """How mirrored copies are reduced."""
    program: Program
    """What is done with the variables, step by step."""

    # What of training there is none of here.
    failures: ClassVar[None] = None
    prices: ClassVar[None] = None
    target_loss: ClassVar[None] = None
    targets: ClassVar[Targets] = Targets()
    report: ClassVar[Reporting] = Reporting()

    @model_validator(mode="after")
    def _modes_fit(self) -> Self:
        names = [variable.name for variable in self.variables]
        for index, name in enumerate(names):
            if name in names[:index]:
                raise ValueError(
                    f"variables.{index}.name: two variables are called '{name}'; give them "
                    "different names"
                )
        fixed = [one.name for one in self.variables if one.synchronization is not None]
        if len(fixed) == len(names) and self.modes:
            raise ValueError(
                "modes has no effect: every variable has its own synchronization; leave modes out, "
                "or leave synchronization out of a variable"
            )
        if len(fixed) < len(names) and not self.modes:
            raise ValueError("modes is missing: for example [on_write, on_read, none]")
        for mode in self.modes:
            if self.modes.count(mode) > 1:
                raise ValueError(f"modes names '{mode}' twice")
        if fixed and "none" in self.modes:
            raise ValueError(
                f"modes: none keeps one copy of every variable on a parameter server, but "
                f"{fixed[0]} is to be mirrored; leave its synchronization out"
            )
        return self

    @model_validator(mode="after")
    def _program_fits(self) -> Self:
        there = self._names
        for place, action in self.program.actions():
            for name in action.on(there):
                if name and name not in there:
                    known = ", ".join(there)
                    raise ValueError(
                        f"program.{place}.variable: there is no variable '{name}' (there are: "
                        f"{known})"
                    )
                if isinstance(action, Writing):
                    inside = self.cluster.workers if place.startswith("replicas") else None
                    try:
                        check_written(action.value, there[name], inside)
                    except ValueError as error:
                        raise ValueError(f"program.{place}.value: {error}") from None
                if action.kind == "moving_average" and there[name].whole_numbers:
                    raise ValueError(
                        f"program.{place}.variable: an average of whole numbers is refused, its "
                        f"shares would be cut: {name} is {there[name].dtype}"
                    )
        if self.acts(self.program.steps) > _MOST_ACTIONS:
            raise ValueError(
                f"program.steps: more than {_MOST_ACTIONS:,} reads and writes in all; lower steps "
                "or times"
            )
        self._check_memory()
        return self

    @model_validator(mode="after")
    def _no_unused_settings(self) -> Self:
        cluster, modes = self.cluster, self.labels
        used = {name for _, one in self.program.actions() for name in one.on(self._names)}
        for index, name in enumerate(self._names):
            if name not in used:
                raise ValueError(f"variables.{index}: the program does nothing with '{name}'")
        computes = any(action.kind == "compute" for action in self.program.replicas)
        if computes and cluster.compute is None:
            raise ValueError(
                "cluster.compute is missing: the program computes; write for example "
                "compute: {kind: constant, value: 4 ms}"
            )
        if not computes and cluster.compute is not None:
            raise ValueError("cluster.compute has no effect: the program does not {kind: compute}")
        if not computes and cluster.slow_workers:
            raise ValueError("cluster.slow_workers has no effect: the program does not compute")
        if "none" not in modes:
            for key, idle in (
                ("parameter_servers", cluster.parameter_servers == 1),
                ("network.server_bandwidth", cluster.network.server_bandwidth is None),
            ):
                if not idle:
                    raise ValueError(f"cluster.{key} has no effect: no mode uses servers")
        if cluster.parameter_servers > len(self.variables):
            raise ValueError(
                f"cluster.parameter_servers {cluster.parameter_servers}: whole variables lie on "
                f"the servers in turn, and there are only {len(self.variables)}"
            )
        if self.cross_device_ops != "ring" and not self._reduces_in_replicas():
            raise ValueError(
                "cross_device_ops has no effect: no replica writes a variable that is mirrored "
                "(on_write) and summed or averaged; int32 always goes to one device"
            )
        if self.replications > 1 and not self.times_are_random:
            raise ValueError("replications has no effect: no time is random")
        return self

    @model_validator(mode="after")
    def _tensorflow_accepts(self) -> Self:
        """Run every action once on variables of one element, to report what TensorFlow refuses."""
        small = [one.model_copy(update={"shape": (1,) * len(one.shape)}) for one in self.variables]
        # What is restored must have been saved, which may stand behind it.
        once = {
            part: tuple(
                one.model_copy(update={"times": 1, "every": 1 + (one.kind == "restore")})
                for one in actions
            )
            for part, actions in (
                ("replicas", self.program.replicas),
                ("outside", self.program.outside),
            )
        }
        program = self.program.model_copy(update={"steps": 2, **once})
        for mode, label in zip(self.all_modes, self.labels, strict=True):
            run = ProgramRun(
                program,
                small,
                mode,
                min(self.cluster.workers, 2),  # no refusal depends on how many more there are
                self.cluster.parameter_servers,
                lambda replica: stream(0, 0, "program", replica + 1),
                self.cross_device_ops,
            )
            try:
                finish(run.operation())
            except DistributionError as error:
                raise ValueError(
                    f"{_place(run)}: under {label} TensorFlow raises {error.tensorflow} "
                    f"({error.category}): {error}"
                ) from None
        return self

    @property
    def _names(self) -> dict[str, VariableDescription]:
        return {variable.name: variable for variable in self.variables}

    @property
    def all_modes(self) -> tuple[Mode, ...]:
        """What is run; one run where every variable has its own synchronization."""
        return self.modes or ("on_write",)

    @property
    def labels(self) -> tuple[str, ...]:
        """What the runs are called."""
        return self.modes or (AS_WRITTEN,)

    @property
    def strategies(self) -> tuple[Strategy, ...]:
        """Each mode as the strategy that is called so: a step of the program is its round."""
        pairs = zip(self.all_modes, self.labels, strict=True)
        return tuple(STRATEGIES[mode].model_validate({"name": label}) for mode, label in pairs)

    def strategy(self, label: str) -> Strategy:
        """The strategy of this label."""
        return self.strategies[self.labels.index(label)]

    def cluster_of(self, strategy: Strategy) -> ReplicaCluster:
        """The cluster, which is the same for all."""
        return self.cluster

    def too_large(self, strategy: Strategy) -> bool:
        """No: what would not fit into memory is refused."""
        return False

    def with_only(self, strategies: Sequence[Strategy]) -> Self:
        """The scenario under these of its modes, without all that makes no difference to them."""
        modes = tuple(mode for mode in self.modes if mode in [one.label for one in strategies])
        changes: dict[str, object] = {"modes": modes}
        if "none" not in modes:
            network = self.cluster.network.model_copy(update={"server_bandwidth": None})
            servers = {"parameter_servers": 1, "network": network}
            changes["cluster"] = self.cluster.model_copy(update=servers)
        found = self.model_copy(update=changes)
        reduces = found._reduces_in_replicas()
        return found if reduces else found.model_copy(update={"cross_device_ops": "ring"})

    @property
    def times_are_random(self) -> bool:
        """Whether the time of a step may differ between replications."""
        compute = self.cluster.compute
        return compute is not None and compute.is_random

    def acts(self, steps: int) -> int:
        """Reads, writes and computations of all in so many steps."""
        return sum(
            self.often(place, action, steps) * len(action.on(self._names))
            for place, action in self.program.actions()
        )

    def often(self, place: str, action: Action, steps: int) -> int:
        """How often all who carry out an action, at its place in the program, do in these steps."""
        actors = self.cluster.workers if place.startswith("replicas") else 1
        return action.times * (steps // action.every) * actors

    def run_of(
        self, mode: int, replication: int = 0, steps: int | None = None, *, whole: bool = False
    ) -> ProgramTrace:
        """One run under one of `all_modes`, by its index; `steps`: only so many.

        `whole`: all its acts and messages are kept, else what there is room for beside the others.
        """
        program, runs = self.program, len(self.all_modes) * self.replications
        glances = MOST_GLANCES // min(self.cluster.workers, MOST_COPIES)
        return run_program(
            self.cluster,
            program if steps is None else program.model_copy(update={"steps": steps}),
            self.variables,
            self.all_modes[mode],
            label=self.labels[mode],
            seed=self.seed,
            replication=replication,
            algorithm=self.cross_device_ops,
            most_acts=None if whole else max(1, min(MOST_ACTS, glances) // runs),
            most_sent=None if whole else max(1, MOST_SENT // runs),
        )

    def _reduces_in_replicas(self) -> bool:
        """Is there a write that the chosen algorithm reduces, in some mode?"""
        written = {one.variable for one in self.program.replicas if isinstance(one, Writing)}
        return self.cluster.workers > 1 and any(
            (one.synchronization or mode) == "on_write"
            and one.name in written
            and one.aggregation in ("sum", "mean")
            and one.dtype != "int32"
            for one in self.variables
            for mode in self.all_modes
        )

    def _check_memory(self) -> None:
        """Raise ValueError for copies that take too much memory."""
        sizes = [one.filled_size for one in self.variables]
        total = sum(sizes) * self.cluster.workers
        if total > _MOST_BYTES:
            largest = sizes.index(max(sizes))
            raise ValueError(
                f"variables.{largest}.shape: {self.cluster.workers} copies of all variables would "
                f"take {total / 1e9:.3g} GB of memory, {_MOST_BYTES / 1e9:g} GB at most; lower "
                "shape or cluster.workers"
            )


def _place(run: ProgramRun) -> str:
    """Key of the current action, or of the variable being created."""
    return f"program.{run.current}" if run.current else f"variables.{len(run.variables)}"
