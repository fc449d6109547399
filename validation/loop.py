"""Training in PyTorch DDP, recorded on every rank.

    torchrun --nproc_per_node 4 validation/loop.py DIR RUN

Every rank sleeps for 20 ms a step, as if it computed; the forward and the backward pass, the
gradients and their all-reduce are real. With `--slow 2` the last rank does all of that twice where
others do it once. `validation/data/loop` was made so.
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
    parser.add_argument("--slow", type=int, default=1, help="batches of the last rank in a step")
    parser.add_argument("--steps", type=int, default=60)
    asked = parser.parse_args()
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    last = dist.get_rank() == dist.get_world_size() - 1
    batches, wide = asked.slow if last else 1, asked.width
    layers = torch.nn.Linear(INPUTS, wide), torch.nn.ReLU(), torch.nn.Linear(wide, INPUTS)
    model = DistributedDataParallel(torch.nn.Sequential(*layers))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)

    def learn() -> None:
        time.sleep(PACE)
        model(torch.randn(32, INPUTS)).square().mean().backward()

    with Recorder(asked.directory, asked.run, slow=batches) as recorder:
        recorder.watch(model)
        for _ in range(asked.steps):
            optimizer.zero_grad()
            with model.no_sync():
                for _ in range(batches - 1):
                    learn()
            learn()
            optimizer.step()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
