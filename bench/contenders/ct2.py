"""CTranslate2 in its fastest setup: one single-threaded worker per core, batches queued."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path

import common
import ctranslate2
import numpy as np
import run_files

NAMES = {"fp32": "float32", "int8": "int8"}
ACTIVATIONS = {"relu": "RELU", "gelu": "GELU", "gelu_tanh": "GELUTanh", "swish": "SWISH"}
BATCH_SIZES = (16, 32, 64, 128)  # the fastest one is used
LENGTH_PENALTY = 0.6


class Decoder:
    """Random weights of a given size, outputs of a given length."""

    def __init__(self, folder: Path, size: dict, vocab: int, precision: str, threads: int) -> None:
        path = folder / "ctranslate2" / f"random-{size['layers']}-{size['d_model']}-{vocab}-{precision}"
        if not path.exists():
            settings = random_settings(size)
            convert(settings, random_weights(settings, vocab), _numbered_tokens(vocab), precision, path)
        self.translator = load(path, precision, threads)
        self.tokens = _numbered_tokens(vocab)

    def translate(self, batches, beam: int, length: int) -> list[list[str]]:
        jobs = [
            self.translator.translate_batch(
                [[*(self.tokens[i] for i in ids), self.tokens[common.EOS]] for ids in batch],
                beam_size=beam,
                min_decoding_length=length,
                max_decoding_length=length,
                max_batch_size=0,
                asynchronous=True,
            )
            for batch in batches
        ]
        return [one.result().hypotheses[0] for job in jobs for one in job]


class RunDecoder:
    """A trained run of Glassformer, outputs of their natural length. Tokens in, tokens out."""

    def __init__(self, folder: Path, run: Path, precision: str, threads: int) -> None:
        self.tokens = run_files.vocabulary(run)
        paths = {name: _converted(folder, run, name) for name in {"fp32", precision}}
        verified = paths["fp32"] / "verified"
        if not verified.exists():
            self.translator = load(paths["fp32"], "fp32", threads)
            self._verify(common.load(folder, "trained"))
            verified.touch()
        self.translator = load(paths[precision], precision, threads)
        self.batch_size: int | None = None

    def prepare(self, sources: list[list[int]]) -> list[list[str]]:
        return [[*(self.tokens[i] for i in ids), self.tokens[common.EOS]] for ids in sources]

    def warm_up(self, prepared: list[list[str]], beam: int) -> None:
        """Find the fastest batch size."""
        self.batch_size = common.fastest(BATCH_SIZES, lambda size: self._translate(prepared, beam, size))

    def translate(self, prepared: list[list[str]], beam: int) -> list[list[str]]:
        return self._translate(prepared, beam, self.batch_size)

    def _translate(self, prepared, beam: int, batch_size: int, alpha: float = LENGTH_PENALTY, limit: int | None = None):
        """CTranslate2 sorts the sentences by length, and distributes the batches among its workers."""
        results = self.translator.translate_batch(
            prepared,
            beam_size=beam,
            length_penalty=alpha,
            min_decoding_length=0,
            max_decoding_length=limit or max(map(len, prepared)) + 49,  # 50 more than the source without <eos>
            max_batch_size=batch_size,
        )
        return [result.hypotheses[0] for result in results]

    def _verify(self, known: dict) -> None:
        """Assert that the converted model writes the tokens that Glassformer writes, in fp32."""
        for beam, expected in known["expected"].items():
            prepared = self.prepare(known["sources"][: len(expected)])
            written = self._translate(prepared, int(beam), 32, alpha=0.0, limit=known["limit"])
            for number, (ours, theirs) in enumerate(zip(expected, written, strict=True)):
                assert [self.tokens[i] for i in ours] == theirs, f"sentence {number}, beam {beam}: {ours} {theirs}"


def load(path: Path, precision: str, threads: int) -> ctranslate2.Translator:
    return ctranslate2.Translator(
        str(path), device="cpu", compute_type=NAMES[precision], inter_threads=threads, intra_threads=1
    )


def _converted(folder: Path, run: Path, precision: str) -> Path:
    """Return the converted weights of a run, which are kept until the weights of the run change."""
    status = (run / "model.safetensors").stat()
    path = folder / "ctranslate2" / f"{run.name}-{status.st_size}-{status.st_mtime_ns}-{precision}"
    if not path.exists():
        convert(run_files.model_settings(run), run_files.weights(run), run_files.vocabulary(run), precision, path)
    return path


def convert(settings: dict, tensors: dict[str, np.ndarray], tokens: list[str], precision: str, path: Path) -> None:
    """Write a Transformer of Glassformer in the format of CTranslate2.

    Args:
        settings: section [model] of run.toml.
        tensors: weights by their names in model.safetensors.
        tokens: the vocabulary, in the order of the ids.
    """
    from ctranslate2.specs import TransformerSpec, common_spec  # imports PyTorch, which decoding does not need

    assert not settings["ablations"]
    spec = TransformerSpec.from_config(
        (settings["encoder_layers"], settings["decoder_layers"]),
        settings["heads"],
        pre_norm=settings["norm"] == "pre",
        activation=common_spec.Activation[ACTIVATIONS[settings["activation"]]],
    )
    _fill(spec, settings, tensors)
    spec.config.unk_token, spec.config.bos_token, spec.config.eos_token = (
        tokens[i] for i in (common.PAD, common.SOS, common.EOS)
    )
    spec.config.decoder_start_token = tokens[common.SOS]
    spec.register_source_vocabulary(tokens)
    spec.register_target_vocabulary(tokens)
    spec.validate()
    spec.optimize(quantization=NAMES[precision])
    path.parent.mkdir(exist_ok=True)
    unfinished = Path(tempfile.mkdtemp(dir=path.parent))
    spec.save(str(unfinished))
    shutil.rmtree(path, ignore_errors=True)
    unfinished.rename(path)


def _fill(spec, settings: dict, tensors: dict[str, np.ndarray]) -> None:
    def linear(layer, name: str) -> None:
        layer.weight, layer.bias = tensors[f"{name}.weight"], tensors[f"{name}.bias"]

    def norm(layer, name: str) -> None:
        layer.gamma, layer.beta = tensors[f"{name}.weight"], tensors[f"{name}.bias"]

    tied = tensors["source_embedding.weight_VD"]
    spec.encoder.embeddings[0].weight = tied
    spec.decoder.embeddings.weight = tensors.get("target_embedding.weight_VD", tied)
    spec.decoder.projection.weight = tensors.get("output.weight_VD", tied)
    if settings["output_bias"]:
        spec.decoder.projection.bias = tensors["output.bias_V"]
    for name, stack, side in (("encoder", spec.encoder, "source"), ("decoder", spec.decoder, "target")):
        stack.scale_embeddings = True  # by the square root of d_model
        # The sinusoids of CTranslate2 have all sines first, and begin at position 1.
        stack.position_encodings.encodings = run_files.position_table(settings, tensors, side)
        for i, layer in enumerate(stack.layer):
            at = f"{name}.{i}"
            linear(layer.self_attention.linear[0], f"{at}.self_attention.query_key_value")
            linear(layer.self_attention.linear[1], f"{at}.self_attention.output")
            norm(layer.self_attention.layer_norm, f"{at}.self_residual.norm")
            if stack is spec.decoder:
                for j, part in enumerate(("query", "key_value", "output")):
                    linear(layer.attention.linear[j], f"{at}.cross_attention.{part}")
                norm(layer.attention.layer_norm, f"{at}.cross_residual.norm")
            linear(layer.ffn.linear_0, f"{at}.feed_forward.expand")
            linear(layer.ffn.linear_1, f"{at}.feed_forward.contract")
            norm(layer.ffn.layer_norm, f"{at}.feed_forward_residual.norm")
        if settings["norm"] == "pre":
            norm(stack.layer_norm, f"{name}_norm")


def random_settings(size: dict) -> dict:
    return {
        "encoder_layers": size["layers"],
        "decoder_layers": size["layers"],
        **{name: size[name] for name in ("d_model", "d_ff", "heads")},
        "norm": "post",
        "activation": "relu",
        "positions": "sinusoidal",
        "combine_positions": "add",
        "output_bias": False,
        "ablations": [],
    }


def random_weights(settings: dict, vocab: int) -> dict[str, np.ndarray]:
    """Return random weights by their names in a run folder, with tied embeddings."""
    random, d, ff = np.random.default_rng(0), settings["d_model"], settings["d_ff"]
    found = {"source_embedding.weight_VD": (random.standard_normal((vocab, d)) * d**-0.5).astype(np.float32)}

    def linear(name: str, outputs: int, inputs: int) -> None:
        weight = random.standard_normal((outputs, inputs)) * 2 * inputs**-0.5
        found[f"{name}.weight"] = weight.astype(np.float32)
        found[f"{name}.bias"] = np.zeros(outputs, np.float32)

    def norm(name: str) -> None:
        found[f"{name}.weight"], found[f"{name}.bias"] = np.ones(d, np.float32), np.zeros(d, np.float32)

    for side in ("encoder", "decoder"):
        for at in (f"{side}.{i}" for i in range(settings[f"{side}_layers"])):
            linear(f"{at}.self_attention.query_key_value", 3 * d, d)
            linear(f"{at}.self_attention.output", d, d)
            norm(f"{at}.self_residual.norm")
            if side == "decoder":
                linear(f"{at}.cross_attention.query", d, d)
                linear(f"{at}.cross_attention.key_value", 2 * d, d)
                linear(f"{at}.cross_attention.output", d, d)
                norm(f"{at}.cross_residual.norm")
            linear(f"{at}.feed_forward.expand", ff, d)
            linear(f"{at}.feed_forward.contract", d, ff)
            norm(f"{at}.feed_forward_residual.norm")
    return found


def _numbered_tokens(vocab: int) -> list[str]:
    return ["<pad>", "<sos>", "<eos>", *(f"t{i}" for i in range(3, vocab))]


def version() -> str:
    return f"ctranslate2 {ctranslate2.__version__}"
