"""Sharded training of language models on many nodes, as LLM Foundry measured it.

MPT models under PyTorch's FSDP: tokens/s of 8 to 512 GPUs. What computing takes is told by the
smallest number of GPUs of a setup and model, in proportion to the tokens of a micro-batch; the
others are predicted. A unit of FSDP is a transformer block (12 d^2 + 13 d parameters), beside
them all else: the embeddings, and the last norm with the product by the same embedding again.
FULL_SHARD is `sharding: parameters`, SHARD_GRAD_OP, whose forward pass gathers what the update
has changed, `sharding: gradients` with `overlap: forward`.
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Final, NamedTuple

from validation.finding import Finding, Section, Verdict
from validation.points.scenario import NANOSECONDS, Part, layered, ran, scenario
from validation.references import table
from varsim.cluster.description.device import DEVICE_SIGMA

SECTION: Final = Section(
    "sharded",
    "Sharded training on many nodes",
    "Tokens/s of MPT models under PyTorch's FSDP on 8 to 512 GPUs (LLM Foundry). Of every setup "
    "and model computing is calibrated on the smallest number of GPUs, and nothing else; all "
    "others are predicted. Rings leave a node by 8 network cards. By hand: presets of links, 5 us "
    "between nodes, the default spread of a device's steps, and gradients sent in the 2 bytes of "
    "parameters (mixed precision DEFAULT reduces them in 4, which is hidden just as well).",
    "Each row within 6 %; written down before any of them was run.",
)
GROUP: Final = "FSDP on many nodes"
GROUPS: Final = (GROUP,)
_SOURCE: Final = "mosaicml/llm-foundry, scripts/train/benchmarking"
_MOST: Final = 0.06
_VOCABULARY: Final = 50368
_SHAPES: Final = {"1b": (24, 2048), "7b": (32, 4096), "30b": (48, 7168)}  # layers, width
_BYTES: Final = 2
_NODE: Final = 8
# Of a node's GPUs the links inside, and its cards; A100s: 1,600 Gbit/s of RoCE between nodes.
_LINKS: Final = {"h100": ("nvlink_4", "infiniband_ndr"), "a100": ("nvlink_3", "200gbe")}
_STEPS: Final = 4
_ROUNDS: Final = 2  # of the calibration, each of which leaves a few percent of the error before
_WHY_BATCH: Final = (
    "a micro-batch of {} sequences, and {} where it was calibrated: larger products are faster"
)
_WHY_ALONE: Final = "more GPUs of the same setup were faster by far, each"
_WHY: Final = "what each GPU loses to more of them beside is in nothing that is simulated"


class Row(NamedTuple):
    """A measurement: a model trained on so many GPUs, `batch` sequences in a micro-batch."""

    setup: str
    model: str
    gpus: int
    gpu: str
    tokens: int  # of a sequence
    batch: int
    micro_batches: int
    sharding: str
    recomputes: bool  # activations, in the backward pass
    speed: float  # tokens/s

    @property
    def setting(self) -> tuple[object, ...]:
        """What rows have in common that differ in their GPUs alone."""
        return self.setup, self.model, self.tokens, self.sharding, self.recomputes

    @property
    def name(self) -> str:
        """What it is called in a report."""
        return f"{self.setup}: {self.model}, {self.gpus} GPUs"

    @property
    def work(self) -> int:
        """Tokens of a micro-batch."""
        return self.batch * self.tokens

    def layers(self) -> tuple[Part, ...]:
        """Units and the work of their backward passes, as products per token."""
        number, width = _SHAPES[self.model]
        block = 12 * width**2 + 13 * width
        attention = 2 * self.tokens * width  # scores and weighted sums beside the parameters
        ends = _VOCABULARY * width
        return (
            {"size": float(_BYTES * (ends + self.tokens * width)), "backward": 0.0},
            *({"size": float(_BYTES * block), "backward": float(block + attention)},) * number,
            {"size": float(_BYTES * 2 * width), "backward": float(ends)},
        )


def findings() -> list[Finding]:
    """Every row: the smallest of a setting calibrates, the others are predicted."""
    settings: dict[object, list[Row]] = {}
    for row in rows():
        settings.setdefault(row.setting, []).append(row)
    return [
        line
        for own in settings.values()
        for line in _of_setting(sorted(own, key=lambda row: row.gpus))
    ]


def rows() -> list[Row]:
    """The bundled rows."""
    return [
        Row(
            cells["setup"],
            cells["model"],
            int(cells["gpus"]),
            cells["gpu"],
            int(cells["seq_len_tokens"]),
            int(cells["micro_batch"]),
            int(cells["grad_accum"]),
            cells["sharding"],
            cells["activation_checkpointing"] == "True",
            float(cells["tokens_per_s"]),
        )
        for cells in table("llm_foundry_mpt_fsdp.csv")
    ]


def calibrated(row: Row) -> float:
    """Seconds of computing for each token with which its speed is what was measured."""
    seconds = row.gpus / row.speed
    for _ in range(_ROUNDS):
        seconds *= predicted(row, seconds) / row.speed
    return seconds


def predicted(row: Row, seconds: float) -> float:
    """Tokens/s, if a GPU computes that long for each."""
    inside, outside = _LINKS[row.gpu.split("_")[0]]
    strategy: Part = {
        **{"kind": "on_write", "micro_batches": row.micro_batches},
        **(
            {"sharding": "parameters", "overlap": True}
            if row.sharding == "FULL_SHARD"
            else {"sharding": "gradients", "overlap": "forward"}
        ),
    }
    described = scenario(
        strategy,
        row.gpus,
        {"kind": "lognormal", "mean": seconds * row.work, "sigma": DEVICE_SIGMA},
        _STEPS,
        network={
            **{"kind": "nodes", "workers_per_node": _NODE, "nics": _NODE},
            **{"preset": outside, "latency": 5e-6, "inside": {"preset": inside}},
        },
        workload=layered(row.layers()),
        # A backward pass is two forward passes, and a third one where activations are recomputed.
        backward_share=3 / 4 if row.recomputes else 2 / 3,
    )
    trace = ran(described)
    each = int(trace.steps[-1] - trace.steps[0]) / (len(trace.steps) - 1) / NANOSECONDS
    return row.gpus * row.micro_batches * row.work / each


def _of_setting(own: Sequence[Row]) -> Iterator[Finding]:
    """Rows of one setting, the fewest GPUs first."""
    first, *_ = own
    seconds = calibrated(first)
    for row in own:
        got = predicted(row, seconds)
        measured = (GROUP, row.name, "throughput", "tokens/s", row.speed)
        line = Finding(*measured, got, source=_SOURCE)
        if row is first:
            verdict = Verdict.CALIBRATED
            yield replace(line, bound=str(verdict), verdict=verdict)
        else:
            yield line.within(_MOST, _reason(row, own, got))


def _reason(row: Row, own: Sequence[Row], got: float) -> str:
    """What explains a miss."""
    each, batch = row.speed / row.gpus, own[0].batch
    if row.batch > batch and got < row.speed:
        return _WHY_BATCH.format(row.batch, batch)
    if any(one.speed / one.gpus > (1 + _MOST) * each for one in own if one.gpus > row.gpus):
        return _WHY_ALONE
    return _WHY
