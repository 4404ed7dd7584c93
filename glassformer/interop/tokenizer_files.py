"""Read a Hugging Face tokenizer and renumber it: padding, start, end (and mask) come first, under our names."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from glassformer.errors import UserError, import_optional
from glassformer.files import read_json
from glassformer.interop.weight_rules import VocabularyMap
from glassformer.limits import JSON_FILE, VOCABULARY, read_bytes
from glassformer.text.tokenizer import MASK, SPECIAL_TOKENS, read_state

NEVER_CHOSEN = -1e4  # score of a piece that only the target language has


@dataclass(frozen=True)
class SpecialTokens:
    """The Hugging Face ids of our special tokens. A missing one is None and copies the entry `like` (default: end)."""

    pad: int | None
    sos: int | None
    eos: int
    mask: int | None = None
    like: int | None = None

    def __post_init__(self) -> None:
        for number in (self.pad, self.sos, self.eos, self.mask, self.like):
            if number is not None and (type(number) is not int or number < 0):
                raise TypeError(f"{number!r} is not the id of a special token")
        if self.eos is None:
            raise TypeError("there is no end-of-sequence token")

    def vocabulary(self, entries: int) -> VocabularyMap:
        first = [self.pad, self.sos, self.eos, *([] if self.mask is None else [self.mask])]
        like = self.eos if self.like is None else self.like
        rest = [number for number in range(entries) if number not in first]
        added = frozenset(place for place, number in enumerate(first) if number is None)
        return VocabularyMap([like if number is None else number for number in first] + rest, added)


def read_tokenizer(folder: Path) -> dict[str, Any]:
    """Return the tokenizer of a folder in the format of the `tokenizers` library."""
    path = folder / "tokenizer.json"
    if path.is_file():
        state = read_json(path, "The tokenizer", "copy the folder again")
        if not isinstance(state, dict):
            raise UserError(
                "The tokenizer is damaged: it is not an object.", where=str(path), hint="copy the folder again"
            )
        return state
    if (folder / "source.spm").is_file() and (folder / "vocab.json").is_file():
        return _of_sentencepiece(folder)
    raise UserError(
        "The folder has no tokenizer: tokenizer.json, or source.spm with vocab.json.",
        where=str(folder),
        hint="write it: AutoTokenizer.from_pretrained(…).save_pretrained(DIR) writes tokenizer.json",
    )


def token_id(state: dict[str, Any], name: str) -> int | None:
    return _numbers(state).get(name)


def renumber_tokenizer(state: dict[str, Any], special: SpecialTokens, entries: int) -> str:
    """Return the tokenizer as JSON, with our token ids and one entry per row of the model's embedding."""
    vocabulary = special.vocabulary(entries)
    names = {number: name for name, number in _numbers(state).items()}
    ours = [*SPECIAL_TOKENS, *([] if special.mask is None else [MASK])]
    # Embedding rows without a token get a name that does not occur in texts.
    ours += [names.get(number, f"<unused {number}>") for number in vocabulary.order[len(ours) :]]
    place = {number: here for here, number in enumerate(vocabulary.order) if here not in vocabulary.added}
    state = state | {"post_processor": None, "truncation": None, "padding": None}
    state["model"] = _model(state["model"], ours, place)
    state["added_tokens"] = _added(state["added_tokens"], ours, place, vocabulary.added)
    return json.dumps(state, ensure_ascii=False)


def _numbers(state: dict[str, Any]) -> dict[str, int]:
    return read_state(state, "tokenizer.json").get_vocab(with_added_tokens=True)


def _model(model: dict[str, Any], ours: list[str], place: dict[int, int]) -> dict[str, Any]:
    if model["type"] != "Unigram":
        return model | {"vocab": {name: number for number, name in enumerate(ours)}}
    scores = {place[number]: score for number, (_, score) in enumerate(model["vocab"]) if number in place}
    entries = [[name, scores.get(number, NEVER_CHOSEN)] for number, name in enumerate(ours)]
    unknown = model.get("unk_id")
    return model | {"vocab": entries, "unk_id": None if unknown is None else place[unknown]}


def _added(
    added: list[dict[str, Any]], ours: list[str], place: dict[int, int], copies: frozenset[int]
) -> list[dict[str, Any]]:
    """Return the added tokens in the order of their ids, with those that the tokenizer lacks."""
    flags = {"special": True, "single_word": False, "lstrip": False, "rstrip": False, "normalized": False}
    known = {place[token["id"]]: token for token in added if token["id"] in place}
    known |= {here: flags for here in range(len(SPECIAL_TOKENS)) if here not in known}
    if MASK in ours[: len(SPECIAL_TOKENS) + 1]:
        known.setdefault(len(SPECIAL_TOKENS), flags)
    return [token | {"id": here, "content": ours[here]} for here, token in sorted(known.items())]


def _entries(path: Path) -> dict[str, int]:
    """Return the token ids of a vocab.json, after checking that none exceeds the largest vocabulary."""
    numbers = read_json(path, "The vocabulary", "copy it again")
    if not isinstance(numbers, dict) or not all(type(number) is int and number >= 0 for number in numbers.values()):
        what = "The vocabulary is damaged: it does not map tokens to ids."
        raise UserError(what, where=str(path), hint="copy it again")
    if max(numbers.values(), default=0) >= VOCABULARY.value():
        raise VOCABULARY.exceeded(f"The vocabulary (highest id {max(numbers.values()):,})", str(path))
    return numbers


def _of_sentencepiece(folder: Path) -> dict[str, Any]:
    """Return Marian's tokenizer: pieces and scores of source.spm, token ids of vocab.json, shared by both languages.

    Text is normalized with NFKC, which differs from Marian's normalization only for rare characters.
    """
    sentencepiece = import_optional("sentencepiece", extra="huggingface", use="Reading source.spm")
    model = read_bytes(folder / "source.spm", JSON_FILE, "The SentencePiece model")
    try:
        pieces = sentencepiece.SentencePieceProcessor(model_proto=model)
    except RuntimeError as error:
        where, hint = str(folder / "source.spm"), "copy it again"
        raise UserError(f"The SentencePiece model is damaged: {error}.", where=where, hint=hint) from None
    scores = {pieces.id_to_piece(i): pieces.get_score(i) for i in range(pieces.get_piece_size())}
    numbers = _entries(folder / "vocab.json")
    vocab = [[piece, scores.get(piece, NEVER_CHOSEN)] for piece, _ in sorted(numbers.items(), key=lambda pair: pair[1])]
    words = {"type": "Metaspace", "replacement": "▁", "prepend_scheme": "always", "split": True}
    flags = {"special": True, "single_word": False, "lstrip": False, "rstrip": False, "normalized": False}
    special = [{"id": numbers[name], "content": name} | flags for name in ("</s>", "<unk>", "<pad>") if name in numbers]
    return {
        "version": "1.0",
        "truncation": None,
        "padding": None,
        "added_tokens": sorted(special, key=lambda token: int(str(token["id"]))),
        "normalizer": {"type": "NFKC"},
        "pre_tokenizer": words,
        "post_processor": None,
        "decoder": words,
        "model": {"type": "Unigram", "unk_id": numbers.get("<unk>"), "vocab": vocab, "byte_fallback": False},
    }
