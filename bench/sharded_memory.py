"""Measure peak memory per process by model size, replicated and with `train.shard_model=true` (gloo, CPU).

    python bench/sharded_memory.py                  # all sizes in 1, 2 and 4 processes
    python bench/sharded_memory.py --sizes 512 --processes 2

Each run trains three steps, evaluates (with decoding) and writes checkpoints, through the same code as
`glassformer train`. Memory is the largest resident set of a process (VmHWM) beyond that of a model of a few thousand
parameters in as many processes: Python, PyTorch and the text are not counted.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

MEETING = ("--rdzv-backend=c10d", "--rdzv-endpoint=localhost:0")
LAYERS = 4
TINY = 8


def settings(d_model: int, shard: bool) -> dict[str, object]:
    return {
        "tokenizer.vocab": 1000,
        "model.layers": LAYERS,
        "model.d_model": d_model,
        "model.heads": 4,
        "model.d_ff": 4 * d_model,
        "model.dropout": 0.0,
        "train.precision": "fp32",
        "train.batch_tokens": 64,
        "train.steps": 3,
        "train.warmup": 1,
        "train.lr": 1e-3,
        "train.validate_every": 3,
        "train.checkpoint_every": 3,
        "train.average": 1,
        "train.valid_sentences": 2,
        "train.shard_model": shard,
        "decode.max_length": 4,
        "decode.beam": 1,
    }


def measure(d_model: int, processes: int, shard: bool) -> dict[str, float]:
    """Return the number of parameters, and the peak MiB of rank 0 and of the largest other rank."""
    with tempfile.TemporaryDirectory() as folder:
        launch = [sys.executable, "-m", "torch.distributed.run", f"--nproc-per-node={processes}", *MEETING, __file__]
        command = [*launch, "--work", folder, "--sizes", str(d_model), *(["--shard"] if shard else [])]
        subprocess.run(command, env=os.environ | {"OMP_NUM_THREADS": "1"}, check=True, stderr=subprocess.DEVNULL)
        found = [json.loads(path.read_text()) for path in sorted(Path(folder).glob("rank-*.json"))]
    return {
        "parameters": found[0]["parameters"],
        "first": found[0]["peak"],
        "others": max((rank["peak"] for rank in found[1:]), default=found[0]["peak"]),
    }


def work(folder: Path, d_model: int, shard: bool) -> None:
    """Run one of the processes."""
    import glassformer as gf
    from glassformer.inference.run import read_weights
    from glassformer.phrasebook.corpus import phrasebook

    rank = os.environ["RANK"]
    triples, files = phrasebook(size=400), []
    for language in ("en", "fr"):
        files.append(str(folder / f"{rank}.{language}"))
        Path(files[-1]).write_text("".join(t.text(language) + "\n" for t in triples.train[:300]), encoding="utf-8")
    held_out = []
    for language in ("en", "fr"):
        held_out.append(str(folder / f"{rank}-valid.{language}"))
        Path(held_out[-1]).write_text("".join(t.text(language) + "\n" for t in triples.train[-8:]), encoding="utf-8")
    gf.train(*files, valid=held_out, out=folder / "run", settings=settings(d_model, shard))
    status = Path("/proc/self/status").read_text().splitlines()
    peak = next(int(line.split()[1]) / 1024 for line in status if line.startswith("VmHWM:"))
    parameters = sum(weight.numel() for weight in read_weights(folder / "run/model.safetensors").values())
    (folder / f"rank-{rank}.json").write_text(json.dumps({"peak": peak, "parameters": parameters}), encoding="utf-8")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sizes", type=int, nargs="+", default=[384, 768], help="d_model")
    parser.add_argument("--processes", type=int, nargs="+", default=[1, 2, 4])
    parser.add_argument("--shard", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--work", type=Path, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.work:
        work(args.work, args.sizes[0], args.shard)
        return
    print("| parameters | processes | model | rank 0, MiB | other ranks, MiB | bytes per parameter |")
    print("|---|---|---|---|---|---|")
    for processes in args.processes:
        for shard in [False, True] if processes > 1 else [False]:
            tiny = measure(TINY, processes, shard)
            for size in args.sizes:
                found = measure(size, processes, shard)
                first, others = found["first"] - tiny["first"], found["others"] - tiny["others"]
                kind = "sharded" if shard else "replicated"
                each = max(first, others) * 2**20 / found["parameters"]
                millions = found["parameters"] / 1e6
                print(
                    f"| {millions:.1f} M | {processes} | {kind} | {first:.0f} | {others:.0f} | {each:.1f} |", flush=True
                )


if __name__ == "__main__":
    main()
