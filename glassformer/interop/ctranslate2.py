"""Export a Transformer to CTranslate2: its model folder, the tokenizer, and a README with the code that translates."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from typing import Any

from glassformer.errors import import_optional
from glassformer.files import write_text
from glassformer.interop.translation_export import (
    Comparison,
    Decode,
    TranslationRun,
    check,
    compare,
    load_translation_run,
    new_output,
)
from glassformer.text.special_tokens import EOS, PAD, SOS

ACTIVATIONS = {"relu": "RELU", "gelu": "GELU", "gelu_tanh": "GELUTanh", "swish": "SWISH"}  # the names of CTranslate2

README = """# {name} for CTranslate2

{description}. Exported in {precision}; {comparison}.

```python
import ctranslate2, tokenizers

translator = ctranslate2.Translator("{name}")
tokenizer = tokenizers.Tokenizer.from_file("{name}/tokenizer.json")
tokens = tokenizer.encode("{example}", add_special_tokens=False).tokens
output = translator.translate_batch([tokens], beam_size=4)[0].hypotheses[0]
print(tokenizer.decode([tokenizer.token_to_id(token) for token in output]))
```

`pip install ctranslate2 tokenizers`
"""


def export_ctranslate2(run: Path, out: Path, precision: str = "float32") -> str:
    """Write a run as a CTranslate2 model; return a description of the comparison with the run."""
    translation = load_translation_run(run, "CTranslate2")
    with new_output(out):
        out.mkdir(parents=True, exist_ok=True)
        comparison = write_checked_model(translation, out, precision)
        write_text(out / "tokenizer.json", translation.run.tokenizer.to_json())
        write_text(
            out / "README.md",
            README.format(
                name=out.name,
                description=translation.model.describe(),
                precision=precision,
                comparison=comparison,
                example="I am a student",
            ),
        )
    return str(comparison)


def write_checked_model(translation: TranslationRun, out: Path, precision: str) -> Comparison:
    """Write the model files into a folder and compare them with the run.

    The conversion is checked in fp32 first: the outputs must be identical. Then it is quantized.
    """
    check(_write(translation, out, "float32"), out, quantized=False)
    if precision == "float32":
        return _compared(translation, out, precision)
    return check(_write(translation, out, precision), out, quantized=True)


def _write(translation: TranslationRun, out: Path, precision: str) -> Comparison:
    ct2 = import_ctranslate2()
    model, tokens = translation.model, translation.tokens
    spec = ct2.specs.TransformerSpec.from_config(
        (model.encoder_layers, model.decoder_layers),
        model.heads,
        pre_norm=model.norm == "pre",
        activation=ct2.specs.common_spec.Activation[ACTIVATIONS[model.activation]],
    )
    if model.positions == "rotary":  # before version 4.7, the specification of an encoder has no such option
        for layer in (*spec.encoder.layer, *spec.decoder.layer):
            layer.self_attention = ct2.specs.attention_spec.MultiHeadAttentionSpec(
                self_attention=True, rotary_dim=model.d_model // model.heads, rotary_interleave=True, rotary_base=10000
            )
    _fill(spec, translation)
    spec.config.unk_token, spec.config.bos_token, spec.config.eos_token = (tokens[i] for i in (PAD, SOS, EOS))
    spec.config.decoder_start_token = tokens[SOS]
    spec.config.add_source_eos = True
    spec.register_source_vocabulary(tokens)
    spec.register_target_vocabulary(tokens)
    spec.validate()
    spec.optimize(quantization=precision)
    spec.save(str(out))
    return _compared(translation, out, precision)


def _compared(translation: TranslationRun, out: Path, precision: str) -> Comparison:
    return compare(translation, decoder(translation, out, precision))


def decoder(translation: TranslationRun, folder: Path, precision: str) -> Decode:
    """Return a function that decodes with CTranslate2."""
    ct2 = import_ctranslate2()
    compute = precision if precision in ct2.get_supported_compute_types("cpu") else "default"
    translator = ct2.Translator(str(folder), device="cpu", compute_type=compute, inter_threads=1, intra_threads=0)
    ids = {token: number for number, token in enumerate(translation.tokens)}

    def decode(sources: list[list[int]], beam: int, max_length: int) -> list[list[int]]:
        results = translator.translate_batch(
            [[translation.tokens[i] for i in source[:-1]] for source in sources],  # CTranslate2 appends <eos>
            beam_size=beam,
            length_penalty=0,
            max_decoding_length=max_length,
            max_input_length=0,
            max_batch_size=32,
        )
        return [[ids[token] for token in result.hypotheses[0]] for result in results]

    return decode


def import_ctranslate2() -> Any:
    import_optional("ctranslate2.specs", extra="ctranslate2", use="This export")
    return import_module("ctranslate2")


def _fill(spec: Any, translation: TranslationRun) -> None:
    """Copy the weights into the specification of CTranslate2."""
    arrays, model = translation.arrays, translation.model

    def linear(layer: Any, name: str) -> None:
        layer.weight, layer.bias = arrays[f"{name}.weight"], arrays[f"{name}.bias"]

    def norm(layer: Any, name: str) -> None:
        layer.gamma, layer.beta = arrays[f"{name}.weight"], arrays[f"{name}.bias"]

    tied = arrays["source_embedding.weight_VD"]
    spec.encoder.embeddings[0].weight = tied
    spec.decoder.embeddings.weight = arrays.get("target_embedding.weight_VD", tied)
    spec.decoder.projection.weight = arrays.get("output.weight_VD", tied)
    if model.output_bias:
        spec.decoder.projection.bias = arrays["output.bias_V"]
    for name, stack, side in (("encoder", spec.encoder, "source"), ("decoder", spec.decoder, "target")):
        stack.scale_embeddings = True  # by √d_model
        if model.positions != "rotary":
            # Its own sinusoids have all sines first, and begin at position 1.
            stack.position_encodings.encodings = translation.position_table(side)
        for i, layer in enumerate(stack.layer):
            at = f"{name}.{i}"
            linear(layer.self_attention.linear[0], f"{at}.self_attention.query_key_value")
            linear(layer.self_attention.linear[1], f"{at}.self_attention.output")
            norm(layer.self_attention.layer_norm, f"{at}.self_residual.norm")
            if name == "decoder":
                for j, part in enumerate(("query", "key_value", "output")):
                    linear(layer.attention.linear[j], f"{at}.cross_attention.{part}")
                norm(layer.attention.layer_norm, f"{at}.cross_residual.norm")
            linear(layer.ffn.linear_0, f"{at}.feed_forward.expand")
            linear(layer.ffn.linear_1, f"{at}.feed_forward.contract")
            norm(layer.ffn.layer_norm, f"{at}.feed_forward_residual.norm")
        if model.norm == "pre":
            norm(stack.layer_norm, f"{name}_norm")
