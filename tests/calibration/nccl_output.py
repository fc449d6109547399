"""Output of nccl-tests as its versions print it, from a latency (s) and a bandwidth (bytes/s)."""

from collections.abc import Iterable

HEADER = """\
#                                                              out-of-place                       in-place
#       size         count      type   redop    root     time   algbw   busbw #wrong     time   algbw   busbw #wrong
#        (B)    (elements)                               (us)  (GB/s)  (GB/s)            (us)  (GB/s)  (GB/s)
"""  # noqa: E501
SIZES = tuple(2**power for power in range(10, 29))


def table(
    ranks: int,
    latency: float,
    bandwidth: float,
    *,
    sizes: Iterable[int] = SIZES,
    redop: str = "sum",
    root: int = -1,
    messages: int | None = None,
    bus: float | None = None,
) -> str:
    """Rows of an all-reduce; of another collective with its messages and bus factor."""
    messages = 2 * (ranks - 1) if messages is None else messages
    bus = 2 * (ranks - 1) / ranks if bus is None else bus
    rows = []
    for size in sizes:
        us = (messages * latency + bus * size / bandwidth) * 1e6
        rate = size / us / 1e3
        half = f"  {us:7.2f}  {rate:6.2f}  {rate * bus:6.2f}      0"
        rows.append(f"{size:12d}  {size // 4:12d}     float  {redop:>6}  {root:6d}{half}{half}\n")
    return HEADER + "".join(rows)


def devices(ranks: int, groups: int = 1) -> str:
    """The lines that list the ranks."""
    start = "# nThread 1 nGpus 1 minBytes 1024 maxBytes 268435456 step: 2(factor) graph: 0\n"
    lines = (
        f"#  Rank {rank:2d} Group {rank % groups:2d} Pid {4000 + rank} on node device {rank} "
        f"[0x1{rank}] NVIDIA A100\n"
        for rank in range(ranks)
    )
    return start + "#\n# Using devices\n" + "".join(lines) + "#\n"
