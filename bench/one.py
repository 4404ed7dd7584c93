"""Run one contender in this process and print one line `RESULT {…}`.

python one.py train   CONTENDER --data DIR --size tiny
python one.py decode  CONTENDER --data DIR --beam 4 --precision int8
python one.py trained CONTENDER --data DIR --run RUN --beam 4 --precision int8
python one.py encode  CONTENDER --data DIR --precision int8
python one.py startup CONTENDER --data DIR
python one.py loop    glassformer_own --data DIR
python one.py limits  machine_limits --data DIR
python one.py tricks  tricks --data DIR
python one.py quality hf --data DIR --size small --minutes 5 --beam 4 --outputs FILE
python one.py scaling scaling --data DIR --size tiny --processes 2 --threads 1

Nothing is imported here that a contender does not need: its memory is measured from outside.
"""

from __future__ import annotations

import argparse
import importlib
import json
import random
import sys
import time
from pathlib import Path

HERE = Path(__file__).parent
sys.path[:0] = [str(HERE), str(HERE / "contenders")]

import common  # noqa: E402

WHAT = ("train", "decode", "trained", "encode", "startup", "loop", "limits", "tricks", "scaling", "quality")
# Largest relative difference between the hidden states of a contender and of Glassformer in fp32.
TOLERANCES = {"fp32": 1e-4, "int8": 0.1}
PEAK_LR, WARMUP_SHARE = 1e-3, 0.05  # of the training in `quality`


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("what", choices=WHAT)
    parser.add_argument("contender")
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--size", default="base", choices=common.SIZES)
    parser.add_argument("--layers", type=int, help="instead of those of the size")
    parser.add_argument("--vocab", type=int, help="instead of that of the data, with random sentences")
    parser.add_argument("--source-length", type=int, help="random sentences of so many tokens, not the data's")
    parser.add_argument("--run", type=Path, help="run folder of a trained model")
    parser.add_argument("--precision", default="fp32")
    parser.add_argument("--beam", type=int, default=1)
    parser.add_argument("--batch", type=int, default=32)
    parser.add_argument("--sentences", type=int, default=512)
    parser.add_argument("--length", type=int, default=30, help="of every output")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--batches", type=int, default=12)
    parser.add_argument("--processes", type=int, default=1)
    parser.add_argument("--steps", type=int, default=50)
    parser.add_argument("--shard", type=int, default=0, help="1: the model is spread over the processes")
    parser.add_argument("--minutes", type=float, default=5, help="of training (for quality)")
    parser.add_argument("--outputs", type=Path, help="file for the translated test set (for quality)")
    args = parser.parse_args()
    args.model = common.SIZES[args.size] | ({"layers": args.layers} if args.layers else {})
    if args.vocab and not args.source_length:
        args.source_length = 15
    if not args.vocab and args.what != "limits":
        args.vocab = common.load(args.data, "meta")["vocab"]
    module = importlib.import_module(args.contender)
    measured = globals()[args.what](module, args)
    measured |= {"version": module.version(), "own_peak_megabytes": common.peak_megabytes()}
    print("RESULT " + json.dumps(measured), flush=True)


def train(module, args) -> dict[str, float]:
    trainer = module.Trainer(args.model, args.vocab)
    if args.source_length:
        batches = common.random_batches(args.batches, args.source_length, args.vocab)
    else:
        make = getattr(trainer, "batches", common.length_sorted_batches)
        batches = make(common.load(args.data, "train"), args.batches)
    prepared = [trainer.prepare(batch) for batch in batches]
    for one in prepared[: max(1, len(prepared) // 2)]:
        trainer.step(one)
    began = time.perf_counter()
    for one in prepared:
        trainer.step(one)
    seconds = time.perf_counter() - began
    tokens = sum(common.target_tokens(batch) for batch in batches)
    lengths = [[sum(t != common.PAD for t in row) for batch in batches for row in batch[side]] for side in (0, 2)]
    flops = common.useful_flops(args.model, *lengths, args.vocab)
    return {"tokens_per_second": tokens / seconds, "useful_gflops": flops / seconds / 1e9, "seconds": seconds}


def decode(module, args) -> dict[str, float]:
    sources = sentences(args)
    decoder = module.Decoder(args.data, args.model, args.vocab, args.precision, args.threads)
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


def trained(module, args) -> dict[str, float]:
    """Translate with a trained run: tokens in, tokens out, outputs of their natural length."""
    sources = common.load(args.data, "trained")["sources"][: args.sentences]
    decoder = module.RunDecoder(args.data, args.run, args.precision, args.threads)
    prepared = decoder.prepare(sources)
    decoder.warm_up(prepared, args.beam)
    began = time.perf_counter()
    outputs = decoder.translate(prepared, args.beam)
    seconds = time.perf_counter() - began
    assert len(outputs) == len(sources)
    return {
        "sentences_per_second": len(sources) / seconds,
        "tokens_per_sentence": sum(map(len, outputs)) / len(outputs),
        "seconds": seconds,
    }


def encode(module, args) -> dict[str, float]:
    """Run the encoder over batches of similar length."""
    sources = [[*source, common.EOS] for source in sentences(args)]
    batches = [sources[i : i + args.batch] for i in range(0, len(sources), args.batch)]
    encoder = module.Encoder(args.data, args.precision, args.threads)
    _check_hidden_states(encoder, args)
    prepared = encoder.prepare(batches)
    encoder.warm_up(prepared)
    began = time.perf_counter()
    outputs = encoder.encode(prepared)
    seconds = time.perf_counter() - began
    assert len(outputs) == len(batches)
    return {"sentences_per_second": len(sources) / seconds, "seconds": seconds}


def _check_hidden_states(encoder, args) -> None:
    """Assert that a contender computes the hidden states that Glassformer computes in fp32."""
    known = common.load(args.data, "encoded")
    (hidden,) = encoder.encode(encoder.prepare([known["sources"]]))
    for expected, found in zip(known["first_tokens"], encoder.first_tokens(known["sources"], hidden), strict=True):
        difference = common.relative_difference(found, expected)
        assert difference < TOLERANCES[args.precision], f"hidden states differ by {difference:.2g}"


def startup(module, args) -> dict[str, float]:
    """Translate the first sentence of the test set; the time counts from the start of this process."""
    decoder = module.Decoder(args.data, args.model, args.vocab, args.precision, args.threads)
    first, _ = common.load(args.data, "test")[0]
    decoder.translate([[first]], args.beam, args.length)
    return {"done_at": time.time()}


def loop(module, args) -> dict[str, float]:
    """Compare the whole loop of a trainer with its step alone over the same batches, in one process."""
    return module.loop(args.model, args.vocab, common.load(args.data, "train"), args.batches)


def limits(module, args) -> dict[str, float]:
    return module.measure(args.threads)


def tricks(module, args) -> dict[str, float]:
    return module.measure(args.data, args.vocab)


def scaling(module, args) -> dict[str, float]:
    return module.measure(args.data, args.size, args.processes, args.threads, args.steps, bool(args.shard))


def quality(module, args) -> dict[str, float]:
    """Train for some minutes with warm-up and a linear decay of the learning rate to 0; translate the test set."""
    trainer = module.Trainer(args.model, args.vocab)
    batches = common.length_sorted_batches(common.load(args.data, "train"), max_tokens=2048)
    shuffled, steps, began = random.Random(1), 0, time.perf_counter()
    while (done := (time.perf_counter() - began) / (60 * args.minutes)) < 1:
        if steps % len(batches) == 0:
            shuffled.shuffle(batches)
        trainer.set_learning_rate(PEAK_LR * min(done / WARMUP_SHARE, (1 - done) / (1 - WARMUP_SHARE)))
        trainer.step(trainer.prepare(batches[steps % len(batches)]))
        steps += 1
    sources = [source for source, _ in common.load(args.data, "test")]
    args.outputs.write_text(json.dumps(trainer.translate(sources, args.beam)), encoding="utf-8")
    return {"minutes": args.minutes, "steps": steps}


def sentences(args):
    """Return sources for decoding, in order of length."""
    if args.source_length:
        return common.random_sentences(args.sentences, args.source_length, args.vocab)
    return sorted((source for source, _ in common.load(args.data, "test")[: args.sentences]), key=len)


if __name__ == "__main__":
    main()
