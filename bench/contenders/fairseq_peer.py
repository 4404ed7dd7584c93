"""fairseq: TransformerModel, label-smoothed criterion, Adam and SequenceGenerator."""

from __future__ import annotations

import dataclasses
from argparse import Namespace
from pathlib import Path
from types import SimpleNamespace
from unittest import mock

import common
import torch


def hashable(cls=None, /, _make=dataclasses.dataclass, **options):
    """Python 3.11 refuses unhashable defaults, which fairseq and its hydra use: hash their dataclasses by identity."""
    if cls is None:
        return lambda one: hashable(one, **options)
    made = _make(cls, **options)
    if made.__hash__ is None:
        made.__hash__ = object.__hash__
    return made


with mock.patch.object(dataclasses, "dataclass", hashable):
    import fairseq
    from fairseq.criterions.label_smoothed_cross_entropy import LabelSmoothedCrossEntropyCriterion
    from fairseq.data import Dictionary
    from fairseq.models.transformer import TransformerModel, base_architecture
    from fairseq.optim.adam import Adam
    from fairseq.sequence_generator import SequenceGenerator

BOS, PAD, EOS = range(3)  # the ids of fairseq: 0 and 1 are swapped


def fairseqs(rows) -> torch.Tensor:
    """Keep padding on the right: its fast encoder fails with padding on the left in current PyTorch."""
    return torch.tensor([[1 - token if token < 2 else token for token in row] for row in rows])


def build(size: dict, vocab: int) -> tuple[TransformerModel, SimpleNamespace]:
    torch.manual_seed(0)
    words = Dictionary()
    for i in range(len(words), vocab):
        words.add_symbol(f"t{i}")
    options = Namespace(share_all_embeddings=True, max_source_positions=1100, max_target_positions=1100)
    options.dropout = size["dropout"]
    for side in ("encoder", "decoder"):
        setattr(options, f"{side}_layers", size["layers"])
        setattr(options, f"{side}_embed_dim", size["d_model"])
        setattr(options, f"{side}_ffn_embed_dim", size["d_ff"])
        setattr(options, f"{side}_attention_heads", size["heads"])
    base_architecture(options)
    task = SimpleNamespace(source_dictionary=words, target_dictionary=words)
    return TransformerModel.build_model(options, task), task


class Trainer:
    def __init__(self, size: dict, vocab: int) -> None:
        self.model, task = build(size, vocab)
        self.model.train()
        self.criterion = LabelSmoothedCrossEntropyCriterion(task, False, common.SMOOTHING)
        self.optimizer = Adam(self.model.parameters(), lr=common.LR, betas=common.BETAS, eps=common.EPSILON)

    def prepare(self, batch):
        source, before, after = map(fairseqs, batch)
        before[:, 0] = EOS  # fairseq's targets begin with the end
        inputs = {"src_tokens": source, "src_lengths": source.ne(PAD).sum(1), "prev_output_tokens": before}
        return {"net_input": inputs, "target": after, "ntokens": after.ne(PAD).sum().item()}

    def step(self, batch) -> float:
        self.optimizer.zero_grad()
        total, tokens, _ = self.criterion(self.model, batch)
        loss = total / tokens
        loss.backward()
        self.optimizer.step()
        return loss.item()


class Decoder:
    def __init__(self, folder: Path, size: dict, vocab: int, precision: str, threads: int) -> None:
        self.model, self.task = build(size, vocab)
        self.model.load_state_dict(self.model.state_dict())  # as from a checkpoint: turns its fast encoder on
        self.model.eval().make_generation_fast_()

    @torch.inference_mode()
    def translate(self, batches, beam: int, length: int) -> list[list[int]]:
        generator = SequenceGenerator(
            [self.model],
            self.task.target_dictionary,
            beam_size=beam,
            min_len=length - 1,  # <eos> is added: `length` steps in total
            max_len_b=length - 1,
        )
        outputs = []
        for batch in batches:
            source = fairseqs(common.pad([[*ids, common.EOS] for ids in batch]))
            inputs = {"src_tokens": source, "src_lengths": source.ne(PAD).sum(1)}
            outputs += [best["tokens"].tolist() for best, *_ in generator.generate([self.model], {"net_input": inputs})]
        return outputs


def version() -> str:
    return f"fairseq {fairseq.__version__}"
