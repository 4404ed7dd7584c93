"""The trainer with several processes and threads; the training steps are the same for every number of processes."""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

MEETING = ("--rdzv-backend=c10d", "--rdzv-endpoint=localhost:0")


def version() -> str:
    import glassformer_own

    return glassformer_own.version()


def measure(data: Path, size: str, processes: int, threads: int, steps: int, shard: bool) -> dict[str, float]:
    launch = [sys.executable, "-m", "torch.distributed.run", f"--nproc-per-node={processes}", *MEETING, __file__]
    options = [str(data), "--size", size, "--steps", str(steps), *(["--shard"] if shard else [])]
    here = str(Path(__file__).parent)
    environment = os.environ | {
        "OMP_NUM_THREADS": str(threads),
        "PYTHONPATH": os.pathsep.join([here, str(Path(here).parent), *filter(None, [os.environ.get("PYTHONPATH")])]),
    }
    done = subprocess.run([*launch, *options], env=environment, stdout=subprocess.PIPE, text=True, check=True)
    line = next(line for line in done.stdout.splitlines() if line.startswith("SPEED "))
    return json.loads(line.removeprefix("SPEED "))


def work() -> None:
    """Run one of the processes."""
    import common
    import glassformer_own

    from glassformer.inference.run_folder import RunFolder
    from glassformer.training.distributed import init_process_group
    from glassformer.training.events import Event, Progress
    from glassformer.training.train import new_model
    from glassformer.training.trainer import Trainer

    parser = argparse.ArgumentParser()
    parser.add_argument("data", type=Path)
    parser.add_argument("--size", choices=common.SIZES)
    parser.add_argument("--steps", type=int)
    parser.add_argument("--shard", action="store_true")
    args = parser.parse_args()
    vocab = common.load(args.data, "meta")["vocab"]
    settings = glassformer_own.settings(common.SIZES[args.size], vocab, steps=args.steps)
    training = settings.train.model_copy(update={"shard_model": args.shard})
    task = glassformer_own.Task(common.load(args.data, "train"), settings)
    speeds: list[float] = []

    def listen(event: Event) -> None:
        if isinstance(event, Progress):
            speeds.append(event.tokens_per_second)

    with init_process_group() as group, tempfile.TemporaryDirectory() as folder:
        model = new_model(settings.model_copy(update={"train": training}), vocab, 0, group)
        Trainer(model, task, training, RunFolder(folder), listen, group=group).train()
        if group.is_rank0:  # the first steps warm up
            print("SPEED " + json.dumps({"tokens_per_second": statistics.median(speeds[1:])}), flush=True)


if __name__ == "__main__":
    work()
