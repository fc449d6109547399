"""A real cluster of dask for the tests: a scheduler and two workers, each a process."""

import subprocess
import sys
import time
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

import pytest

_QUIET = ["--no-dashboard"]


@pytest.fixture(scope="session")
def scheduler(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of its scheduler."""
    if find_spec("distributed") is None:
        pytest.skip("needs the extra 'cluster'")
    folder = tmp_path_factory.mktemp("dask")
    file = folder / "scheduler.json"
    dask = [sys.executable, "-m", "dask"]
    local = ["--host", "127.0.0.1", *_QUIET]
    started = [
        start([*dask, "scheduler", "--port", "0", *local, "--scheduler-file", str(file)], folder)
    ]
    try:
        address = address_in(file)
        for _ in range(2):
            worker = [*dask, "worker", address, "--nthreads", "1", "--no-nanny", *local]
            started.append(start(worker, folder))
        wait_for_workers(address, 2)
        yield address
    finally:
        for process in reversed(started):
            process.kill()
            process.wait()


def start(command: list[str], folder: Path) -> "subprocess.Popen[bytes]":
    return subprocess.Popen(
        command, cwd=folder, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )


def address_in(file: Path) -> str:
    """What the scheduler writes when it is ready."""
    import json

    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        if file.exists() and file.read_text():
            return str(json.loads(file.read_text())["address"])
        time.sleep(0.1)
    raise AssertionError("the scheduler of dask did not start")


def wait_for_workers(address: str, count: int) -> None:
    from distributed import Client

    with Client(address, timeout=30, set_as_default=False) as client:
        client.wait_for_workers(count, timeout=60)
