"""Hugging Face's MarianMTModel, built from a configuration, with a loop like its Trainer's."""

from __future__ import annotations

import os
from pathlib import Path

os.environ.setdefault("HF_HUB_OFFLINE", "1")

import common
import torch
import torch.nn.functional as F
import transformers
from transformers import MarianConfig, MarianMTModel


def config(s: dict, vocab: int) -> MarianConfig:
    return MarianConfig(
        vocab_size=vocab,
        decoder_vocab_size=vocab,
        max_position_embeddings=1100,
        encoder_layers=s["layers"],
        decoder_layers=s["layers"],
        encoder_ffn_dim=s["d_ff"],
        decoder_ffn_dim=s["d_ff"],
        encoder_attention_heads=s["heads"],
        decoder_attention_heads=s["heads"],
        d_model=s["d_model"],
        dropout=s["dropout"],
        activation_function="relu",
        scale_embedding=True,
        share_encoder_decoder_embeddings=True,
        static_position_embeddings=True,
        pad_token_id=common.PAD,
        bos_token_id=common.SOS,
        eos_token_id=common.EOS,
        decoder_start_token_id=common.SOS,
        forced_eos_token_id=None,
    )


class Trainer:
    def __init__(self, size: dict, vocab: int) -> None:
        torch.manual_seed(0)
        self.model = MarianMTModel(config(size, vocab)).train()
        self.optimizer = torch.optim.AdamW(
            self.model.parameters(), lr=common.LR, betas=common.BETAS, eps=common.EPSILON, weight_decay=0.0
        )

    def prepare(self, batch):
        source, before, after = (torch.tensor(side) for side in batch)
        return source, source.ne(common.PAD).long(), before, after

    def step(self, batch) -> float:
        source, mask, before, after = batch
        self.optimizer.zero_grad(set_to_none=True)
        logits = self.model(input_ids=source, attention_mask=mask, decoder_input_ids=before, use_cache=False).logits
        loss = F.cross_entropy(
            logits.flatten(0, 1), after.flatten(), ignore_index=common.PAD, label_smoothing=common.SMOOTHING
        )
        loss.backward()
        self.optimizer.step()
        return loss.item()

    def set_learning_rate(self, lr: float) -> None:
        for group in self.optimizer.param_groups:
            group["lr"] = lr

    def translate(self, sources, beam: int) -> list[list[int]]:
        """Outputs without special tokens, in the order of the sources."""
        self.model.eval()
        order = sorted(range(len(sources)), key=lambda i: len(sources[i]))
        outputs: dict[int, list[int]] = {}
        for start in range(0, len(order), 32):
            batch = order[start : start + 32]
            rows = generate(self.model, [sources[i] for i in batch], num_beams=beam, max_new_tokens=100)
            for i, row in zip(batch, rows, strict=True):
                outputs[i] = [token for token in row if token not in (common.PAD, common.SOS, common.EOS)]
        return [outputs[i] for i in range(len(sources))]


@torch.inference_mode()
def generate(model: MarianMTModel, batch, **how) -> list[list[int]]:
    source = torch.tensor(common.pad([[*ids, common.EOS] for ids in batch]))
    mask = source.ne(common.PAD).long()
    return model.generate(input_ids=source, attention_mask=mask, do_sample=False, **how).tolist()


class Decoder:
    def __init__(self, folder: Path, size: dict, vocab: int, precision: str, threads: int) -> None:
        torch.manual_seed(0)
        self.model = MarianMTModel(config(size, vocab)).eval()

    def translate(self, batches, beam: int, length: int) -> list[list[int]]:
        exactly = {"min_new_tokens": length, "max_new_tokens": length}
        return [row for batch in batches for row in generate(self.model, batch, num_beams=beam, **exactly)]


def version() -> str:
    return f"transformers {transformers.__version__}"
