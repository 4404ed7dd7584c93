"""Write a byte-pair encoding trained here as a SentencePiece model, for programs that read only those.

SentencePiece merges the adjacent pieces whose concatenation has the highest score. With the rank of each merge as its
score, that is the order in which our tokenizer merges. Two tokenizers can still differ where several merges give the
same piece, so the caller compares them on real text.
"""

from __future__ import annotations

import json
from typing import Any

from glassformer.errors import UserError
from glassformer.text.tokenizer import BYTE_TOKENS, SPECIAL_TOKENS, UNK, Tokenizer

BPE = 2  # TrainerSpec.ModelType of SentencePiece


def sentencepiece_model(tokenizer: Tokenizer) -> bytes:
    """Return the serialized model. Refuse a tokenizer that SentencePiece cannot represent."""
    if tokenizer.kind != "bpe" or tokenizer.lowercase:
        what = "tokenizer.lowercase=true" if tokenizer.lowercase else f"tokenizer.kind={tokenizer.kind}"
        raise UserError(
            f"SentencePiece cannot represent this tokenizer ({what}).",
            where="tokenizer.json",
            hint="train with tokenizer.kind=bpe and tokenizer.lowercase=false",
        )
    state = json.loads(tokenizer.to_json())["model"]
    ranks = {"".join(pair): rank for rank, pair in reversed(list(enumerate(state["merges"])))}
    proto = _protobuf().ModelProto()
    kinds = proto.SentencePiece
    proto.pieces.add(piece=UNK, score=0.0, type=kinds.UNKNOWN)  # required; never used, because bytes spell any text
    for piece in sorted(state["vocab"], key=state["vocab"].__getitem__):
        if piece in SPECIAL_TOKENS:
            kind, score = kinds.CONTROL, 0.0
        elif piece in BYTE_TOKENS:
            kind, score = kinds.BYTE, 0.0
        else:
            kind, score = kinds.NORMAL, -float(ranks.get(piece, len(ranks)))
        proto.pieces.add(piece=piece, score=score, type=kind)
    trainer, normalizer = proto.trainer_spec, proto.normalizer_spec
    trainer.model_type, trainer.vocab_size, trainer.byte_fallback = BPE, len(proto.pieces), True
    trainer.unk_id, trainer.unk_piece = 0, UNK
    trainer.bos_id = trainer.eos_id = trainer.pad_id = -1
    normalizer.name, normalizer.add_dummy_prefix = "identity", True
    normalizer.remove_extra_whitespaces = normalizer.escape_whitespaces = True
    serialized: bytes = proto.SerializeToString()
    return serialized


def _protobuf() -> Any:
    try:
        from sentencepiece import sentencepiece_model_pb2
    except ImportError:
        raise UserError(
            "Writing a SentencePiece model needs the packages sentencepiece and protobuf.",
            hint="pip install 'glassformer[argos]'",
        ) from None
    return sentencepiece_model_pb2
