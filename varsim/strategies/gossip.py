"""Gossip averaging: copies are averaged with those of neighbours, without servers or all-reduce."""

from collections.abc import Mapping, Sequence
from typing import Annotated, ClassVar, Literal

from pydantic import Field, NonNegativeInt

from varsim.cluster.clock import Activity
from varsim.cluster.copies.drifting import MixedReplicas, PairedReplicas
from varsim.cluster.description.cluster import Cluster
from varsim.cluster.record.memory import Copies, Holds
from varsim.cluster.workers.job import Job
from varsim.cluster.workers.worker import Worker
from varsim.core.refusal import Refusal, no_effect, refused
from varsim.core.units import span
from varsim.learning.mixing import (
    Graph,
    Matrix,
    Shares,
    check_matrix,
    hops,
    one_peer,
    shares,
    undirected_ring,
)
from varsim.strategies.base import Strategy
from varsim.strategies.traits import Pair, Round, Sends, Traits

Partners = Annotated[tuple[NonNegativeInt, ...], Field(min_length=1)]


class Gossip(Strategy):
    """Average the copies of neighbours; nobody ever waits for all.

    `mode: synchronous` (D-PSGD, algorithm 1): replicas (S1) send their copy to their neighbours and
    (S2) compute a gradient on it meanwhile, (S3) wait for their neighbours' copies of this step and
    take the weighted average, (S4) apply the gradient to that.
    `asynchronous` (AD-PSGD, algorithm 1): (A1) compute a gradient on their own copy, (A2) average
    it with a partner's, atomically: send it there, where both become their mean, and get that back;
    (A3) apply the gradient to what their copy is then. Nobody waits for anybody.
    `push_sum` (SGP, algorithm 1): (P1) compute a gradient at z, (P2) apply it to x, (P3) send
    shares of x and of the push-sum weight w to the peers of this step, (P4) wait for the shares of
    others, and add them up, (P5) z = x / w. The 8 bytes of w are not counted.
    `graph`: ring (default): weights of 1/3 for both sides and oneself, in push_sum half for the
    next rank; exponential: in step k half for the rank 2^(k mod L) further, L = floor(log2(workers
    - 1)) + 1 (one peer a step). Asynchronous partners take turns in that order: +1, -1, or +1, +2,
    +4, ... (the paper draws them). In place of a graph, `partners`: of every worker the ranks, in
    turn; or `matrices`, [to][from], in turn, whose columns add up to 1, if synchronous rows, too.
    What is measured, for free, is the mean of the copies (push_sum: of x, which is that of z by w).
    Lian et al., 2017 and 2018; Assran et al., 2019 (Stochastic Gradient Push).
    """

    kind: Literal["gossip"] = "gossip"
    mode: Literal["synchronous", "asynchronous", "push_sum"] = "synchronous"
    """Whether a worker waits for its neighbours (D-PSGD), for nobody (AD-PSGD), or sends weights
    along (SGP)."""
    graph: Graph | None = None
    """Who averages with whom."""
    partners: tuple[Partners, ...] | None = None
    """Whom each worker averages with, in turn (`asynchronous`)."""
    matrices: Annotated[tuple[Matrix, ...], Field(min_length=1)] | None = None
    """Mixing matrices, `[to][from]`, in turn; columns add up to 1."""

    def synchronous(self, worker: Worker, copies: MixedReplicas) -> Activity[None]:
        """One replica's training loop in D-PSGD."""
        while True:
            copies.send_copy(worker)  # (S1)
            gradient = yield from worker.compute_gradient(copies.read(worker))  # (S2)
            yield from copies.mix(worker)  # (S3)
            yield from worker.update_copy()
            copies.apply(worker, gradient)  # (S4)
            yield from copies.settle()

    def push_sum(self, worker: Worker, copies: MixedReplicas) -> Activity[None]:
        """One replica's training loop in SGP."""
        while True:
            gradient = yield from worker.compute_gradient(copies.read(worker))  # (P1)
            yield from worker.update_copy()
            copies.apply(worker, gradient)  # (P2)
            copies.send_copy(worker)  # (P3)
            yield from copies.mix(worker)  # (P4, P5)
            yield from copies.settle()

    def asynchronous(
        self, worker: Worker, copies: PairedReplicas, partners: Sequence[int]
    ) -> Activity[None]:
        """One replica's training loop in AD-PSGD."""
        while True:
            gradient = yield from worker.compute_gradient(copies.read(worker))  # (A1)
            partner = partners[copies.steps[worker.rank] % len(partners)]
            yield from copies.average(worker, partner)  # (A2)
            yield from worker.update_copy()
            copies.apply(worker, gradient)  # (A3)
            yield from copies.settle()

    def start(self, job: Job) -> None:
        workers = len(job.workers)
        copies: MixedReplicas | PairedReplicas
        if self.mode == "asynchronous":
            copies = PairedReplicas(job)
            turns = self.partners or [
                [(rank + hop) % workers for hop in hops(self._graph, workers)]
                for rank in range(workers)
            ]
            for worker in job.workers:
                job.start_on(worker, self.asynchronous, worker, copies, turns[worker.rank])
        else:
            overlap = self.mode == "synchronous"
            copies = MixedReplicas(job, self._rounds(workers), overlap=overlap)
            role = self.synchronous if overlap else self.push_sum
            for worker in job.workers:
                job.start_on(worker, role, worker, copies)
        job.observe(copies.aggregate, copies.divergence, at_any_time=True)

    conflicts: ClassVar[Sequence[Refusal]] = (
        no_effect("matrices", "mode: asynchronous", "it averages two at a time"),
        no_effect("partners", "mode: not asynchronous", "it mixes by matrices"),
        *(
            no_effect("graph", key, "that says who averages with whom")
            for key in ("matrices", "partners")
        ),
        Refusal(
            "kind: gossip",
            "events",
            "neighbours would wait for a model, or an answer, that a dead worker never sends",
        ),
    )

    @property
    def traits(self) -> Traits:
        """See Strategy; where nobody waits, every gradient is an update."""
        sends = Sends("parameters", to="neighbours")
        if self.mode != "asynchronous":
            return Traits(sends, Round("step"))
        why = (
            "each worker is in a step of its own, so that there is no moment to save all copies, "
            "and what one does whose partner is dead, AD-PSGD does not say: write mode: "
            "synchronous or push_sum"
        )
        own = Round("iteration", gradients=1, ages_by="exchanges")
        return Traits(sends, own, no_rollback=why)

    def recurs_after(self, cluster: Cluster) -> int:
        """See Strategy; when all matrices have had their turn."""
        return len(self._rounds(cluster.workers))

    def holds(self, cluster: Cluster) -> Holds:
        """And the models of neighbours that a worker mixes its own with at once."""
        others = 2 if self.mode == "synchronous" else 1
        if self.matrices is not None:
            rows = (row for matrix in self.matrices for row in enumerate(shares(matrix)))
            others = max(len(row) - (to in row) for to, row in rows)
        models = Copies("models of neighbours", min(others, cluster.workers - 1))
        return super().holds(cluster) + Holds(device=(models,))

    def check(self, cluster: Cluster) -> None:
        """Everybody must have a neighbour, and weights must be shares."""
        super().check(cluster)
        workers = cluster.workers
        if workers < 2:
            raise ValueError("gossip needs at least 2 workers: one alone has no neighbour")
        for number, matrix in enumerate(self.matrices or ()):
            try:
                check_matrix(matrix, workers, doubly=self.mode == "synchronous")
            except ValueError as error:
                raise refused("matrices", f": number {number} {error}") from None
        if self.partners is not None and len(self.partners) != workers:
            says = f"must be {workers} lists, one of every worker, not {len(self.partners)}"
            raise refused("partners", says)
        for rank, partners in enumerate(self.partners or ()):
            for partner in partners:
                if partner == rank or partner >= workers:
                    why = "is that worker itself" if partner == rank else "does not exist"
                    raise refused(
                        "partners",
                        f": {partner} of worker {rank} {why}; others are {span(0, workers - 1)}",
                    )

    @property
    def _graph(self) -> Graph:
        return self.graph or "ring"

    def _rounds(self, workers: int) -> Sequence[Shares]:
        """Who takes what share of whose copy, round by round, in turn."""
        if self.matrices is not None:
            return [shares(matrix) for matrix in self.matrices]
        if self.mode == "synchronous" and self._graph == "ring":
            return [undirected_ring(workers)]
        return one_peer(self._graph, workers)

    @property
    def known_name(self) -> str:
        return {"synchronous": "gossip (D-PSGD)", "asynchronous": "gossip (AD-PSGD)"}.get(
            self.mode, "gossip (SGP)"
        )

    called: ClassVar[str] = "gossip averaging"
    about: ClassVar[str] = "copies averaged with neighbours only: D-PSGD, AD-PSGD, push-sum (SGP)"
    also_known_as: ClassVar[tuple[str, ...]] = (
        "d_psgd",
        "dpsgd",
    )
    known_with: ClassVar[Mapping[str, str]] = {
        "ad_psgd": "mode: asynchronous",
        "adpsgd": "mode: asynchronous",
        "push_sum": "mode: push_sum",
        "sgp": "mode: push_sum",
    }
    others: ClassVar[Mapping[str, object]] = {
        "mode": "push_sum",
        "graph": "exponential",
        "partners": Pair(
            {"mode": "asynchronous", "partners": ((1,), (2,), (3,), (0,))},
            {"mode": "asynchronous", "partners": ((2,), (3,), (0,), (1,))},
        ),
        "matrices": Pair(
            {"matrices": (((0.25,) * 4,) * 4,)},
            {"matrices": (((0.5, 0.5, 0.0, 0.0),) * 2 + ((0.0, 0.0, 0.5, 0.5),) * 2,)},
        ),
    }
