"""One contender, one process: prints one line `RESULT {…}`.

python one.py train  CONTENDER --data DIR --size tiny
python one.py decode CONTENDER --data DIR --model DIR --beam 4 --precision int8
"""

from __future__ import annotations

import argparse
import importlib
import json
import sys
import time
from pathlib import Path

HERE = Path(__file__).parent
sys.path[:0] = [str(HERE), str(HERE / "contenders")]

import common  # noqa: E402


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("what", choices=["train", "decode"])
    parser.add_argument("contender")
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--model", type=Path)
    parser.add_argument("--size", default="tiny")
    parser.add_argument("--precision", default="fp32")
    parser.add_argument("--beam", type=int, default=1)
    parser.add_argument("--batch", type=int, default=32)
    parser.add_argument("--sentences", type=int, default=128)
    parser.add_argument("--length", type=int, default=30)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--batches", type=int, default=12)
    args = parser.parse_args()
    import torch

    torch.set_num_threads(args.threads)
    torch.manual_seed(0)
    module = importlib.import_module(args.contender)
    measured = {"train": train, "decode": decode}[args.what](module, args)
    told = {"contender": args.contender, "version": module.version(), "peak_megabytes": common.peak_megabytes()}
    print("RESULT " + json.dumps(told | measured), flush=True)


def train(module, args) -> dict[str, float]:
    pairs, vocab = common.load(args.data, "train"), common.load(args.data, "meta")["vocab"]
    trainer = module.Trainer(args.size, vocab)
    make = getattr(trainer, "batches", common.length_sorted_batches)
    batches = make(pairs, args.batches)
    prepared = [trainer.prepare(batch) for batch in batches]
    for one in prepared[: max(1, len(prepared) // 2)]:
        trainer.step(one)
    began = time.perf_counter()
    for one in prepared:
        trainer.step(one)
    seconds = time.perf_counter() - began
    tokens = sum(common.target_tokens(batch) for batch in batches)
    lengths = [[sum(t != common.PAD for t in row) for batch in batches for row in batch[side]] for side in (0, 2)]
    flops = common.useful_flops(args.size, *lengths, vocab)
    return {"tokens_per_second": tokens / seconds, "useful_gflops": flops / seconds / 1e9, "seconds": seconds}


def decode(module, args) -> dict[str, float]:
    sources = sorted((source for source, _ in common.load(args.data, "test")[: args.sentences]), key=len)
    decoder = module.Decoder(args.model, args.precision, args.threads)
    batches = [sources[i : i + args.batch] for i in range(0, len(sources), args.batch)]
    decoder.translate(batches[-1:], args.beam, args.length)
    began = time.perf_counter()
    outputs = decoder.translate(batches, args.beam, args.length)
    seconds = time.perf_counter() - began
    assert len(outputs) == len(sources)
    return {
        "tokens_per_second": args.length * len(sources) / seconds,
        "milliseconds_a_sentence": 1000 * seconds / len(sources),
        "seconds": seconds,
    }


if __name__ == "__main__":
    main()
