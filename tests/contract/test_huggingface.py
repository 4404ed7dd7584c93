"""Import and export of `transformers` models with random weights: equal outputs and gradients."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import tokenizers
import torch
from tokenizers import decoders, models, normalizers, pre_tokenizers
from torch import Tensor

import glassformer as gf
from glassformer.errors import UserError
from glassformer.inference.generator import TextGenerator
from glassformer.inference.run import Run, read_weights, save_weights, weights_of
from glassformer.inference.text_stream import TextStream
from glassformer.interop.converter import HuggingFaceConverter
from glassformer.interop.huggingface import CONVERTERS, _vocabulary, export_run, import_run
from glassformer.interop.weight_rules import VocabularyMap, import_weights
from glassformer.models.heads import segments_of
from glassformer.text.tokenizer import EOS, PAD, SOS

transformers = pytest.importorskip("transformers")

CLOSE = {"atol": 1e-5, "rtol": 1e-5}
WORDS = ["the", "cat", "dog", "sat", "ran", "on", "a", "mat", "##s", "big", ".", "!", "old", "new", "red"]


@pytest.fixture(autouse=True)
def _quiet() -> Iterator[None]:
    transformers.utils.logging.disable_progress_bar()
    transformers.utils.logging.set_verbosity_error()
    yield


def word_pieces(folder: Path, *, first: list[str]) -> int:
    """Write a word tokenizer as of BERT, with special tokens at arbitrary ids. Return its vocabulary."""
    names = [*first, "[UNK]", *WORDS[:7], "[CLS]", *WORDS[7:11], "[MASK]", *WORDS[11:], "[SEP]"]
    names += [] if "[PAD]" in names else ["[PAD]"]
    inner = tokenizers.Tokenizer(models.WordPiece({n: i for i, n in enumerate(names)}, unk_token="[UNK]"))
    inner.normalizer = normalizers.BertNormalizer(lowercase=True)
    inner.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    inner.decoder = decoders.WordPiece()
    inner.add_special_tokens(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"])
    inner.enable_padding(length=99)
    inner.enable_truncation(5)
    inner.save(str(folder / "tokenizer.json"))
    return len(names)


def byte_pieces(folder: Path) -> int:
    """Write a byte-level tokenizer as of GPT-2: its only special token is the end of a text, the last entry."""
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    merges = [("t", "h"), ("th", "e"), ("Ġ", "the"), ("c", "a"), ("ca", "t"), ("Ġ", "cat")]
    names = [*alphabet, *("".join(pair) for pair in merges), "<|endoftext|>"]
    inner = tokenizers.Tokenizer(models.BPE({n: i for i, n in enumerate(names)}, merges))
    inner.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    inner.decoder = decoders.ByteLevel()
    inner.add_special_tokens(["<|endoftext|>"])
    inner.save(str(folder / "tokenizer.json"))
    return len(names)


def joint_pieces(folder: Path) -> int:
    """Write a tokenizer with Marian's special tokens: the end first, padding last."""
    names = ["</s>", "<unk>", *(f"▁{word}" for word in WORDS), *"abcdefghijklmnopqrstuvwxyz.!", "▁", "<pad>"]
    inner = tokenizers.Tokenizer(models.Unigram([(name, -float(i)) for i, name in enumerate(names)], unk_id=1))
    inner.pre_tokenizer = pre_tokenizers.Metaspace()
    inner.decoder = decoders.Metaspace()
    inner.add_special_tokens(["</s>", "<unk>", "<pad>"])
    inner.save(str(folder / "tokenizer.json"))
    return len(names)


def lively(model: Any) -> Any:
    """Move biases and norms away from 0 and 1 and enlarge the weights, so that leaving one out changes the output."""
    torch.manual_seed(3)
    with torch.no_grad():
        for parameter in filter(lambda parameter: parameter.requires_grad, model.parameters()):  # not the sinusoids
            parameter += (0.3 if parameter.dim() == 1 else 0.1) * torch.randn_like(parameter)
    return model.eval()


def gpt2(folder: Path, **over: Any) -> Any:
    entries = byte_pieces(folder)
    sizes = {"n_positions": 23, "n_embd": 12, "n_layer": 2, "n_head": 3, "vocab_size": entries}
    ends = {"bos_token_id": entries - 1, "eos_token_id": entries - 1}
    model = lively(transformers.GPT2LMHeadModel(transformers.GPT2Config(**(sizes | ends | over))))
    model.save_pretrained(folder)
    return model


def bert(
    folder: Path, architecture: str = "BertForMaskedLM", *, first: tuple[str, ...] = ("[PAD]",), **over: Any
) -> Any:
    entries = word_pieces(folder, first=list(first))
    sizes = {"hidden_size": 12, "num_hidden_layers": 2, "num_attention_heads": 3, "intermediate_size": 17}
    pad = 0 if "[PAD]" in first else entries - 1
    sizes |= {"max_position_embeddings": 23, "vocab_size": entries, "pad_token_id": pad}
    model = lively(getattr(transformers, architecture)(transformers.BertConfig(**(sizes | over))))
    model.save_pretrained(folder)
    return model


def marian(folder: Path, model_type: str = "Marian", **over: Any) -> Any:
    """A model of Marian, or of Pegasus, which is the same with pre-norm."""
    entries = joint_pieces(folder)
    sizes = {"encoder_layers": 2, "decoder_layers": 3, "d_model": 12, "max_position_embeddings": 64}
    sizes |= {"encoder_attention_heads": 3, "decoder_attention_heads": 3, "encoder_ffn_dim": 17, "decoder_ffn_dim": 17}
    sizes |= {"vocab_size": entries, "pad_token_id": entries - 1, "decoder_start_token_id": entries - 1}
    ends = {"eos_token_id": 0, "forced_eos_token_id": 0}
    how = {"scale_embedding": True, "activation_function": "swish"}
    architecture = {"Marian": "MarianMTModel", "Pegasus": "PegasusForConditionalGeneration"}[model_type]
    config = getattr(transformers, f"{model_type}Config")(**(sizes | ends | how | over))
    model = lively(getattr(transformers, architecture)(config))
    model.final_logits_bias.normal_()
    model.save_pretrained(folder)
    return model


MODELS = {
    "gpt2": (gpt2, {}),
    "gpt2, wide": (gpt2, {"n_layer": 1, "n_embd": 35, "n_head": 5, "n_inner": 41, "activation_function": "relu"}),
    "gpt2, untied": (gpt2, {"tie_word_embeddings": False, "layer_norm_epsilon": 1e-3}),
    "bert": (bert, {}),
    "bert, other numbers": (bert, {"first": ("red0", "[unused1]"), "num_hidden_layers": 3, "layer_norm_eps": 1e-4}),
    "bert, wide": (bert, {"hidden_act": "gelu_new", "hidden_size": 35, "num_attention_heads": 5}),
    "bert, more rows than entries": (bert, {"vocab_size": 40}),
    "bert, tags": (bert, {"architecture": "BertForTokenClassification", "num_labels": 5}),
    "bert, labels": (bert, {"architecture": "BertForSequenceClassification", "num_labels": 5}),
    "bert, two labels": (bert, {"architecture": "BertForSequenceClassification", "initializer_range": 0.5}),
    "bert, answers": (bert, {"architecture": "BertForQuestionAnswering"}),
    "marian": (marian, {}),
    "marian, odd, relu": (marian, {"d_model": 15, "activation_function": "relu", "encoder_layers": 1}),
    "pegasus": (marian, {"model_type": "Pegasus"}),
}


@pytest.fixture(params=MODELS)
def pair(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[Any, Run]:
    """Return the Hugging Face model, and our model of the same folder."""
    make, over = MODELS[request.param]
    folder = tmp_path / "theirs"
    folder.mkdir()
    return make(folder, **over), import_run(folder, tmp_path / "run")


def converter_of(run: Run) -> HuggingFaceConverter:
    return next(converter for converter in CONVERTERS if converter.exports(run.settings.model))


def vocabulary_of(run: Run) -> VocabularyMap:
    return _vocabulary(run, converter_of(run))


def said(theirs: Any, run: Run, lengths: list[int]) -> tuple[Tensor, Tensor]:
    """Return the logits of both models for the same texts, without padding and tokens that are never predicted."""
    vocabulary = vocabulary_of(run)
    text_BS = torch.randint(EOS + 1, len(run.tokenizer), (len(lengths), max(lengths)))
    for row, length in enumerate(lengths):
        text_BS[row, length:] = PAD
    if run.settings.task == "question_answering":  # the text after the question is another segment
        text_BS[torch.tensor(lengths) > 3, 2] = EOS
    real_BS = text_BS != PAD
    given = {"input_ids": torch.tensor(vocabulary.order)[text_BS], "attention_mask": real_BS.long()}
    model: Any = run.model
    if run.settings.task == "translation":
        read_BT = torch.randint(EOS + 1, len(run.tokenizer), (len(lengths), 9))
        read_BT[:, 0] = SOS
        found = theirs(**given, decoder_input_ids=torch.tensor(vocabulary.order)[read_BT]).logits
        ours, real_BS = model(text_BS, read_BT), torch.ones_like(read_BT, dtype=torch.bool)
    elif run.settings.task == "question_answering":
        both = theirs(**given, token_type_ids=segments_of(text_BS))
        found, ours = torch.stack([both.start_logits, both.end_logits], dim=2), model(text_BS)
    else:
        found, ours = theirs(**given).logits, model(text_BS)
    if run.settings.task == "classification":
        return found, ours
    if run.settings.task not in ("tagging", "question_answering"):
        found = found[..., vocabulary.order]
        written = [n for n in range(len(run.tokenizer)) if n != PAD and n not in vocabulary.added]
        found, ours = found[..., written], ours[..., written]
    return found[real_BS], ours[real_BS]


@pytest.mark.parametrize("lengths", [[19], [11, 4, 7, 1]])
@torch.no_grad()
def test_outputs_agree(pair: tuple[Any, Run], lengths: list[int]) -> None:
    theirs_NV, ours_NV = said(*pair, lengths)
    assert theirs_NV.std() > 0.1
    torch.testing.assert_close(ours_NV, theirs_NV, **CLOSE)


def test_gradients_agree(pair: tuple[Any, Run], tmp_path: Path) -> None:
    """The gradient of each of our weights is the converted gradient of the Hugging Face model."""
    theirs, run = pair
    run.model.requires_grad_(True)
    found_NV, ours_NV = said(theirs, run, [11, 4, 7])
    upstream = torch.randn_like(found_NV)
    found_NV.backward(upstream)
    ours_NV.backward(upstream)
    converter = converter_of(run)
    gradients = {name: p.grad for name, p in theirs.named_parameters() if p.grad is not None}
    rules = [rule for rule in converter.rules(run.settings) if rule.ours != "output.bias_V"]
    vocabulary = vocabulary_of(run)
    expected = import_weights(rules, gradients, vocabulary, converter.feature_order(run.settings), tmp_path)
    got = {name: p.grad for name, p in run.model.named_parameters()}
    for rule in rules:
        ours, theirs_too = got[rule.ours], expected[rule.ours]
        if rule.vocab_rows and vocabulary.added:  # a token and its copy share one row of the Hugging Face model
            ours, theirs_too = ours[EOS + 1 :], theirs_too[EOS + 1 :]
        scale = float(theirs_too.abs().max())
        assert scale > 0, rule.ours
        torch.testing.assert_close(ours, theirs_too, atol=1e-5 * max(1.0, scale), rtol=1e-4, msg=rule.ours)


@torch.no_grad()
def test_export_of_an_imported_model_gives_the_original(pair: tuple[Any, Run], tmp_path: Path) -> None:
    theirs, run = pair
    assert export_run(run.folder.path, tmp_path / "out") < 1e-5
    again = type(theirs).from_pretrained(tmp_path / "out")
    before = theirs.state_dict()
    for name, weight in again.state_dict().items():
        if name != "final_logits_bias":
            assert torch.equal(weight, before[name]), name
    kept = (tmp_path / "theirs" / "tokenizer.json").read_text(encoding="utf-8")
    assert (tmp_path / "out" / "tokenizer.json").read_text(encoding="utf-8") == kept


def test_a_sentence_has_the_same_tokens(tmp_path: Path) -> None:
    (tmp_path / "bert").mkdir()
    bert(tmp_path / "bert", first=("red0", "[unused1]"))
    run = import_run(tmp_path / "bert", tmp_path / "run")
    theirs = tokenizers.Tokenizer.from_file(str(tmp_path / "bert" / "tokenizer.json"))
    theirs.no_padding()
    theirs.no_truncation()
    text = "The big cats sat on a  zebra!"
    assert run.tokenizer.pieces(run.tokenizer.encode(text)) == theirs.encode(text).tokens
    assert run.tokenizer.kind == "imported" and run.tokenizer.mask_id == 3
    blanks = run.tokenizer.encode_with_masks("the ___ sat on a [MASK].")
    assert run.tokenizer.pieces(blanks) == ["the", "<mask>", "sat", "on", "a", "<mask>", "."]


@torch.no_grad()
def test_question_answering_gives_the_answer_of_transformers(tmp_path: Path) -> None:
    """Compare the predicted answer span of a question, from text to characters."""
    (tmp_path / "bert").mkdir()
    theirs = bert(tmp_path / "bert", "BertForQuestionAnswering", max_position_embeddings=97)
    run = import_run(tmp_path / "bert", tmp_path / "run")
    assert (run.settings.data.window, run.settings.data.overlap) == (30, 7)  # 64 of a question, and 3 marks
    question, text = "the red cat ?", "the old dog sat on a big mat. a new cat ran!"
    reader = tokenizers.Tokenizer.from_file(str(tmp_path / "bert" / "tokenizer.json"))
    reader.no_padding()
    reader.no_truncation()
    cls, sep = (reader.token_to_id(name) for name in ("[CLS]", "[SEP]"))
    asked, about = reader.encode(question), reader.encode(text)
    first, count = len(asked.ids) + 2, len(about.ids)
    ids = [cls, *asked.ids, sep, *about.ids, sep]
    kinds = [int(place >= first) for place in range(len(ids))]
    found = theirs(input_ids=torch.tensor([ids]), token_type_ids=torch.tensor([kinds]))
    allowed = [0, *range(first, first + count)]  # the first token: no answer
    start_S, end_S = (side[0, allowed].log_softmax(0)[1:] for side in (found.start_logits, found.end_logits))
    backwards_SS = torch.ones(count, count).tril(-1) > 0
    score_SS = (start_S[:, None] + end_S).masked_fill(backwards_SS, float("-inf"))
    begin, end = divmod(int(score_SS.argmax()), count)
    (answer,) = gf.load(tmp_path / "run").predict([(question, text)])
    assert (answer.start, answer.end) == (about.offsets[begin][0], about.offsets[end][1])
    assert answer.probability == pytest.approx(float(score_SS.max().exp()), rel=1e-4)


def test_a_classifier_keeps_the_names_of_its_labels(tmp_path: Path) -> None:
    named = {"id2label": {0: "calm", 1: "glad", 2: "sad"}, "label2id": {"calm": 0, "glad": 1, "sad": 2}}
    for architecture in ("BertForSequenceClassification", "BertForTokenClassification"):
        folder, run = tmp_path / architecture, tmp_path / f"run {architecture}"
        folder.mkdir()
        theirs = bert(folder, architecture, **named)
        assert import_run(folder, run).labels == ["calm", "glad", "sad"]
        export_run(run, tmp_path / f"out {architecture}")
        again = type(theirs).from_pretrained(tmp_path / f"out {architecture}")
        assert again.config.id2label == named["id2label"]
    answer = gf.load(tmp_path / "run BertForSequenceClassification").predict(["the cat sat"])[0]
    assert set(answer.probabilities) == {"calm", "glad", "sad"}


@pytest.mark.parametrize(
    ("over", "says"),
    [
        ({"num_labels": 1}, "Regression"),
        ({"num_labels": 3, "problem_type": "multi_label_classification"}, "Multi-label"),
        ({"architecture": "BertForMultipleChoice"}, "neither texts nor tokens"),
    ],
)
def test_regression_and_multi_label_models_are_refused(over: dict[str, Any], says: str, tmp_path: Path) -> None:
    (tmp_path / "bert").mkdir()
    bert(tmp_path / "bert", **({"architecture": "BertForSequenceClassification"} | over))
    with pytest.raises(UserError, match=says):
        import_run(tmp_path / "bert", tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_a_gpt_with_byte_tokens_generates_text(tmp_path: Path) -> None:
    (tmp_path / "gpt2").mkdir()
    gpt2(tmp_path / "gpt2")
    import_run(tmp_path / "gpt2", tmp_path / "run")
    model = gf.load(tmp_path / "run")
    assert isinstance(model, TextGenerator)
    written = model("the cat é", length=60)
    assert written.startswith("the cat é") and "Ġ" not in written and "<pad>" not in written
    ids = model.tokenizer.encode("the cat é 고양이 the")
    assert "".join(map(TextStream(model.tokenizer, after_word=True).push, ids)) == "the cat é 고양이 the"
    assert model.trace("the cat").attention("decoder").shape == (3, 3, 3)


@pytest.mark.parametrize(
    ("family", "settings"),
    [
        ("gpt", {"model.layers": 2, "data.sequence": 16}),
        ("bert", {"task": "classification", "model.layers": 2, "model.pooling": "first"}),
        ("bert", {"task": "masked_words", "model.layers": 2, "data.sequence": 16}),
        ("transformer", {"model.layers": 1, "model.heads": 2, "model.d_ff": 16}),
    ],
)
def test_transformers_loads_an_exported_run(family: str, settings: dict[str, Any], tmp_path: Path) -> None:
    lines = [f"{a} {b} {c}" for a in WORDS[:5] for b in WORDS[:5] for c in WORDS[9:12]]
    files = [tmp_path / "a.txt"] if family != "transformer" else [tmp_path / "a.en", tmp_path / "a.de"]
    if settings.get("task") == "classification":
        files, lines = [tmp_path / "a.tsv"], [f"{'the' in line}\t{line}" for line in lines]
    for file in files:
        file.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    tiny = {"model.family": family, "model.d_model": 12, "train.steps": 3, "train.batch_tokens": 128}
    tiny |= {"data.drop_identical": False} if family == "transformer" else {}
    run = gf.train(*map(str, files), out=tmp_path / "run", settings=tiny | settings)
    assert export_run(run.path, tmp_path / "out") < 1e-5
    reader = transformers.PreTrainedTokenizerFast.from_pretrained(tmp_path / "out")
    ours = gf.load(run.path).tokenizer.encode("the cat ran")
    around = {"gpt": ([], []), "bert": ([SOS], [EOS]), "transformer": ([], [EOS])}[family]
    assert reader("the cat ran")["input_ids"] == [*around[0], *ours, *around[1]]


def test_unsupported_settings_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "a").mkdir()
    gpt2(tmp_path / "a")
    import_run(tmp_path / "a", tmp_path / "run")
    with pytest.raises(UserError, match="not empty"):
        import_run(tmp_path / "a", tmp_path / "run")
    config = json.loads((tmp_path / "a" / "config.json").read_text())

    def changed(**over: Any) -> Path:
        (tmp_path / "a" / "config.json").write_text(json.dumps(config | over))
        return tmp_path / "a"

    with pytest.raises(UserError, match="scale_attn_weights = False"):
        import_run(changed(scale_attn_weights=False), tmp_path / "b")
    with pytest.raises(UserError, match="type 'llama' is not supported"):
        import_run(changed(model_type="llama"), tmp_path / "b")
    with pytest.raises(UserError, match="activation 'mish'"):
        import_run(changed(activation_function="mish"), tmp_path / "b")
    with pytest.raises(UserError, match=r"transformer\.h\.2.* is missing"):
        import_run(changed(n_layer=3), tmp_path / "b")
    for lost in ("vocab_size", "n_layer", "n_embd"):
        (tmp_path / "a" / "config.json").write_text(json.dumps({k: v for k, v in config.items() if k != lost}))
        with pytest.raises(UserError, match=f"The setting '{lost}' is missing"):
            import_run(tmp_path / "a", tmp_path / "b")
    (changed() / "tokenizer.json").unlink()
    with pytest.raises(UserError, match=r"no tokenizer(.|\n)*save_pretrained"):
        import_run(tmp_path / "a", tmp_path / "b")
    (tmp_path / "a" / "model.safetensors").rename(tmp_path / "a" / "pytorch_model.bin")
    with pytest.raises(UserError, match="pickled"):
        import_run(tmp_path / "a", tmp_path / "b")
    assert not (tmp_path / "b").exists()
    # An export that would compute something else leaves nothing behind.
    (tmp_path / "run" / "huggingface" / "config.json").write_text(json.dumps(config | {"activation_function": "relu"}))
    with pytest.raises(UserError, match="outputs of the exported model differ"):
        export_run(tmp_path / "run", tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_marian_tokenizer_from_sentencepiece_files(tmp_path: Path) -> None:
    """source.spm and vocab.json give the tokens of sentencepiece, with ids shared by both languages."""
    sentencepiece = pytest.importorskip("sentencepiece")
    lines = tmp_path / "lines.txt"
    lines.write_text(
        "".join(f"{a} {b}s {c}.\n" for a in WORDS[:8] for b in WORDS[9:] for c in WORDS[:6]), encoding="utf-8"
    )
    folder = tmp_path / "theirs"
    folder.mkdir()
    sentencepiece.SentencePieceTrainer.train(
        input=str(lines), model_prefix=str(tmp_path / "source"), vocab_size=40, hard_vocab_limit=False, minloglevel=2
    )
    reader = sentencepiece.SentencePieceProcessor(model_file=str(tmp_path / "source.model"))
    pieces = [reader.id_to_piece(i) for i in range(3, reader.get_piece_size())]
    names = ["</s>", "<unk>", "▁nurdrüben", *reversed(pieces), "<pad>"]
    marian(folder, vocab_size=len(names), pad_token_id=len(names) - 1, decoder_start_token_id=len(names) - 1)
    (folder / "tokenizer.json").unlink()
    (tmp_path / "source.model").rename(folder / "source.spm")
    (folder / "vocab.json").write_text(
        json.dumps({name: number for number, name in enumerate(names)}), encoding="utf-8"
    )
    tokenizer = import_run(folder, tmp_path / "run").tokenizer
    for text in ("the cats sat on a mat.", "a  dog", "red mats ran!"):
        assert tokenizer.pieces(tokenizer.encode(text)) == reader.encode(text, out_type=str)
        assert tokenizer.decode(tokenizer.encode(text)) == " ".join(text.split())
    assert isinstance(gf.load(tmp_path / "run")("the cat"), str)


def in_two_files(folder: Path) -> dict[str, str]:
    """Split the weights of a folder into two files as `save_pretrained` does for large models; return the index."""
    weights = read_weights(folder / "model.safetensors")
    names, files = sorted(weights), [f"model-0000{i}-of-00002.safetensors" for i in (1, 2)]
    for file, some in zip(files, (names[::2], names[1::2]), strict=True):
        save_weights(folder / file, {name: weights[name].clone() for name in some})
    (folder / "model.safetensors").unlink()
    file_of = {name: files[i % 2] for i, name in enumerate(names)}
    write_index(folder, file_of)
    return file_of


def write_index(folder: Path, file_of: dict[str, Any]) -> None:
    content = {"metadata": {}, "weight_map": file_of}
    (folder / "model.safetensors.index.json").write_text(json.dumps(content), encoding="utf-8")


def same_weights(run: Run, other: Run) -> bool:
    found, expected = weights_of(run.model), weights_of(other.model)
    return found.keys() == expected.keys() and all(found[name].equal(weight) for name, weight in expected.items())


def test_only_the_files_of_the_index_are_read(tmp_path: Path) -> None:
    """A second variant of the weights in the folder (`model.fp16.safetensors`) is ignored."""
    folder = tmp_path / "a"
    folder.mkdir()
    gpt2(folder)
    expected = import_run(folder, tmp_path / "expected")
    zeros = {name: torch.zeros_like(weight) for name, weight in read_weights(folder / "model.safetensors").items()}
    save_weights(folder / "model.fp16.safetensors", zeros)
    save_weights(folder / "model_other.safetensors", zeros)
    assert same_weights(import_run(folder, tmp_path / "one file"), expected)
    in_two_files(folder)
    assert same_weights(import_run(folder, tmp_path / "two files"), expected)
    transformers.AutoModelForCausalLM.from_pretrained(folder)  # the index has the format of transformers
    for file in folder.glob("model-*.safetensors"):
        file.unlink()
    with pytest.raises(UserError, match="weights are missing"):
        import_run(folder, tmp_path / "b")
    (folder / "model.safetensors.index.json").unlink()
    with pytest.raises(UserError, match="weights are missing"):
        import_run(folder, tmp_path / "b")


@pytest.mark.parametrize("file", ["../secret.safetensors", "/secret.safetensors", "..", "", "a\\b.safetensors"])
def test_an_index_with_paths_outside_its_folder_is_refused(file: str, tmp_path: Path) -> None:
    folder = tmp_path / "a"
    folder.mkdir()
    gpt2(folder)
    (tmp_path / "secret.safetensors").write_bytes((folder / "model.safetensors").read_bytes())
    file_of = in_two_files(folder)
    write_index(folder, file_of | {next(iter(file_of)): file})
    with pytest.raises(UserError, match="not a file in its folder"):
        import_run(folder, tmp_path / "b")


def test_an_index_that_is_damaged_is_refused(tmp_path: Path) -> None:
    folder = tmp_path / "a"
    folder.mkdir()
    gpt2(folder)
    file_of = in_two_files(folder)
    write_index(folder, file_of | {"no.such.weight": next(iter(file_of.values()))})
    with pytest.raises(UserError, match=r"no\.such\.weight is not in"):
        import_run(folder, tmp_path / "b")
    for content in ("{", "[]", '{"weight_map": 3}', "{}"):
        (folder / "model.safetensors.index.json").write_text(content, encoding="utf-8")
        with pytest.raises(UserError, match="index of the weights is damaged"):
            import_run(folder, tmp_path / "b")
