"""Training in PyTorch DDP, recorded on every rank.

    torchrun --nproc_per_node 4 validation/loop.py DIR RUN

Every rank sleeps for 20 ms a step, the last one `--slow` times as long, as if it computed; the
backward pass, the gradients and their all-reduce are real. `validation/data/loop` was made so, and
`varsim validate --runs validation/data/loop` predicts each half of it from the other.
"""

import argparse
import time

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

from varsim.record import Recorder

INPUTS = 64
PACE = 0.02  # seconds


def main() -> None:
    """Record one run, as the options say."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("directory")
    parser.add_argument("run")
    parser.add_argument("--width", type=int, default=1024, help="of the hidden layer")
    parser.add_argument("--slow", type=float, default=1.0, help="how much slower the last rank is")
    parser.add_argument("--steps", type=int, default=60)
    asked = parser.parse_args()
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    last = dist.get_rank() == dist.get_world_size() - 1
    wide = asked.width
    layers = torch.nn.Linear(INPUTS, wide), torch.nn.ReLU(), torch.nn.Linear(wide, INPUTS)
    model = DistributedDataParallel(torch.nn.Sequential(*layers))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    with Recorder(asked.directory, asked.run) as recorder:
        recorder.watch(model)
        for _ in range(asked.steps):
            time.sleep(PACE * (asked.slow if last else 1.0))
            optimizer.zero_grad()
            model(torch.randn(32, INPUTS)).square().mean().backward()
            optimizer.step()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
