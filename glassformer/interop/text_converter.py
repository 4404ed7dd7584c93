"""`TextConverter`: the common part of all families that read text, with the conversion of token ids."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from glassformer.files import write_text
from glassformer.inference.run import Run
from glassformer.interop.converter import HuggingFaceConverter
from glassformer.interop.tokenizer_files import SpecialTokens, read_tokenizer, renumber_tokenizer
from glassformer.interop.weight_rules import VocabularyMap
from glassformer.models.heads import segments_of
from glassformer.nn.output_projection import OutputProjection
from glassformer.settings import Raw, task_traits
from glassformer.text.tokenizer import EOS, MASK, PAD, SOS, SPECIAL_TOKENS, Tokenizer, read_state

SPECIAL_IDS = {"pad_token_id": PAD, "bos_token_id": SOS, "eos_token_id": EOS}


class TextConverter(HuggingFaceConverter):
    """A converter for a model with a tokenizer."""

    kept_files = (
        *("config.json", "generation_config.json", "tokenizer.json", "tokenizer_config.json"),
        *("special_tokens_map.json", "vocab.json", "vocab.txt", "merges.txt", "source.spm", "target.spm"),
    )

    def special(self, config: Raw, tokenizer: Raw) -> SpecialTokens:
        """Return the Hugging Face ids of our special tokens."""
        raise NotImplementedError

    def template(self) -> str:
        """Return the special tokens around a text `$A`."""
        raise NotImplementedError

    def logits(self, model: Any, text_BS: Tensor, mask_BS: Tensor, segments_BS: Tensor) -> Tensor:
        """Return the logits of the Hugging Face model for padded texts, in its token ids."""
        raise NotImplementedError

    def our_logits(self, model: Any, text_BS: Tensor) -> Tensor:
        """Return the logits of our model for the same texts, in our token ids."""
        logits: Tensor = model(text_BS)
        return logits

    def tokenizer(self, config: Raw, folder: Path) -> Tokenizer:
        state = read_tokenizer(folder)
        ours = renumber_tokenizer(state, self.special(config, state), int(config["vocab_size"]))
        return Tokenizer(read_state(json.loads(ours), str(folder / "tokenizer.json")))

    def vocabulary(self, config: Raw, folder: Path) -> VocabularyMap:
        return self.special(config, read_tokenizer(folder)).vocabulary(int(config["vocab_size"]))

    def write_processor(self, run: Run, out: Path) -> None:
        """Write the tokenizer with a template for special tokens, which our models add themselves."""
        state, names = json.loads(run.tokenizer.to_json()), self.template().split()
        single = [_piece(name) for name in names]
        second = [_piece(name, 1) for name in ("$B", *names[names.index("$A") + 1 :])]
        special = {
            name: {"id": name, "ids": [SPECIAL_TOKENS.index(name)], "tokens": [name]}
            for name in names
            if name in SPECIAL_TOKENS
        }
        state["post_processor"] = {"type": "TemplateProcessing", "single": single, "pair": [*single, *second]}
        state["post_processor"]["special_tokens"] = special
        pad, sos, eos = SPECIAL_TOKENS
        described = {"tokenizer_class": "PreTrainedTokenizerFast", "pad_token": pad, "bos_token": sos, "eos_token": eos}
        described |= {"cls_token": sos, "sep_token": eos} | (
            {} if run.tokenizer.mask_id is None else {"mask_token": MASK}
        )
        write_text(out / "tokenizer.json", json.dumps(state, ensure_ascii=False))
        write_text(out / "tokenizer_config.json", json.dumps(described))

    def logits_of_both(self, run: Run, model: Any, vocabulary: VocabularyMap) -> tuple[Tensor, Tensor]:
        """Return the logits for padded texts without padding positions and tokens that are never predicted."""
        random, longest = torch.Generator().manual_seed(1), min(13, run.settings.model.max_length or 13)
        text_BS = torch.randint(EOS + 1, len(run.tokenizer), (3, longest), generator=random)
        text_BS[0, longest // 3] = EOS
        text_BS[1, longest // 2 :] = PAD
        real_BS = text_BS != PAD
        task = task_traits(run.settings.task)
        segments_BS = segments_of(text_BS) if task.input == "question" else torch.zeros_like(text_BS)
        external = self.logits(model, torch.tensor(vocabulary.order)[text_BS], real_BS.long(), segments_BS)
        ours = self.our_logits(run.model, text_BS)
        if ours.dim() == 3:
            ours, external = ours[real_BS], external[real_BS]
        if task.output == "tokens":
            ours_NV = vocabulary.export_rows(ours.T).T
            written_V = ours_NV[0] > OutputProjection.NEVER / 2
            ours, external = ours_NV[:, written_V], external[:, written_V]
        return ours, external


def _piece(name: str, kind: int = 0) -> Raw:
    """Return a text ($A, $B) or a special token as an entry of the template."""
    what, name = ("Sequence", name[1:]) if name.startswith("$") else ("SpecialToken", name)
    return {what: {"id": name, "type_id": kind}}
