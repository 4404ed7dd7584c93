"""JoeyNMT: its own model, batch, loss and search."""

from __future__ import annotations

import importlib.metadata
from pathlib import Path
from types import SimpleNamespace

import common
import torch
from joeynmt.batch import Batch
from joeynmt.model import Model, build_model
from joeynmt.search import search
from joeynmt.vocabulary import Vocabulary

UNK, PAD, BOS, EOS = range(4)  # the ids of JoeyNMT; ours are PAD, SOS, EOS and a first token: a rotation


def joeys(rows):
    return [[(token + 1) % 4 if token < 4 else token for token in row] for row in rows]


def build(size: dict, vocab: int) -> Model:
    torch.manual_seed(0)
    names = {"unk_token": "<unk>", "pad_token": "<pad>", "bos_token": "<s>", "eos_token": "</s>", "sep_token": None}
    ids = {"unk_id": UNK, "pad_id": PAD, "bos_id": BOS, "eos_id": EOS, "sep_id": None}
    words = Vocabulary([f"t{i}" for i in range(4, vocab)], SimpleNamespace(**names, **ids, lang_tags=[]))
    d, dropout = size["d_model"], size["dropout"]
    side = {
        "type": "transformer",
        "num_layers": size["layers"],
        "num_heads": size["heads"],
        "hidden_size": d,
        "ff_size": size["d_ff"],
        "dropout": dropout,
        "layer_norm": "post",
        "activation": "relu",
        "embeddings": {"embedding_dim": d, "scale": True, "dropout": dropout},
    }
    config = {"tied_embeddings": True, "tied_softmax": True, "encoder": side, "decoder": side}
    return build_model(config | {"initializer": "xavier_uniform", "embed_initializer": "xavier_uniform"}, words, words)


def as_batch(source, target=None) -> Batch:
    source = torch.tensor(joeys(source))
    return Batch(
        src=source,
        src_length=source.ne(PAD).sum(1),
        src_prompt_mask=None,
        trg=None if target is None else torch.tensor(joeys(target)),
        trg_prompt_mask=None,
        indices=torch.arange(len(source)),
        device=torch.device("cpu"),
        pad_index=PAD,
        eos_index=EOS,
        is_train=target is not None,
    )


class Trainer:
    def __init__(self, size: dict, vocab: int) -> None:
        self.model = build(size, vocab).train()
        self.model.loss_function = ("crossentropy", common.SMOOTHING)
        self.optimizer = torch.optim.Adam(self.model.parameters(), lr=common.LR, betas=common.BETAS, eps=common.EPSILON)

    def prepare(self, batch) -> Batch:
        source, _, after = batch
        return as_batch(source, [[common.SOS, *row] for row in after])

    def step(self, batch: Batch) -> float:
        self.model.zero_grad()
        total, *_ = self.model(return_type="loss", **vars(batch))
        loss = batch.normalize(total, "tokens")
        loss.backward()
        self.optimizer.step()
        return loss.item()


class Decoder:
    def __init__(self, folder: Path, size: dict, vocab: int, precision: str, threads: int) -> None:
        self.model = build(size, vocab).eval()

    @torch.inference_mode()
    def translate(self, batches, beam: int, length: int) -> list[list[int]]:
        outputs = []
        for batch in batches:
            found, *_ = search(
                model=self.model,
                batch=as_batch(common.pad([[*ids, common.EOS] for ids in batch])),
                beam_size=beam,
                beam_alpha=1.0,
                min_output_length=length,
                max_output_length=length,
            )
            outputs += found.tolist()
        return outputs


def version() -> str:
    return f"joeynmt {importlib.metadata.version('joeynmt')}"
