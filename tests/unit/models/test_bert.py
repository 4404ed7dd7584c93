"""BERT: its equations, padding, masked language modeling and sentence embeddings."""

from __future__ import annotations

from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from glassformer.models.bert import BERT, Segments
from glassformer.models.heads import MaskedLanguageModel, PoolerClassifier, SentenceEmbedding, Tagger
from glassformer.nn.probe import NO_PROBE, Probe, Recorder
from glassformer.reference.embeddings import segments
from glassformer.settings import BertSettings

V, D, PAD = 53, 21, 0
CLOSE = {"atol": 1e-5, "rtol": 1e-5}


def bert(**over: Any) -> BERT:
    torch.manual_seed(1)
    sizes = {"layers": 2, "d_model": D, "heads": 3, "d_ff": 37, "max_positions": 19, "dropout": 0.0}
    return BERT(BertSettings(**(sizes | over)), V, pad=PAD).eval()


@torch.no_grad()
def test_equals_torch_transformer_encoder(padded: Any, enliven: Any) -> None:
    model, tokens_BS = enliven(bert(norm_epsilon=1e-3)), padded([7, 7])
    segments_BS = torch.tensor([[0] * 3 + [1] * 4] * 2)

    def normed(norm: Any, x: Tensor) -> Tensor:
        return F.layer_norm(x, (D,), norm.weight, norm.bias, eps=1e-3)

    x = model.tokens.weight_VD[tokens_BS] + model.segments.weight_VD[segments_BS]
    x = normed(model.input_norm, x + model.positions.positions.weight_TD[:7])
    for layer in model.encoder:
        query, key, value = (
            part.unflatten(2, (3, 7)).transpose(1, 2)
            for part in F.linear(x, *layer.self_attention.query_key_value.parameters()).chunk(3, dim=2)
        )
        context = ((query @ key.mT / 7**0.5).softmax(-1) @ value).transpose(1, 2).flatten(2)
        x = normed(layer.self_residual.norm, x + F.linear(context, *layer.self_attention.output.parameters()))
        y = F.gelu(F.linear(x, *layer.feed_forward.expand.parameters()))
        x = normed(layer.feed_forward_residual.norm, x + F.linear(y, *layer.feed_forward.contract.parameters()))
    torch.testing.assert_close(model(tokens_BS, NO_PROBE, Segments(segments_BS, segments)), x, **CLOSE)
    assert not torch.allclose(model(tokens_BS), x, atol=1e-3)  # one segment is another input


@torch.no_grad()
@pytest.mark.parametrize("head", [PoolerClassifier, Tagger, MaskedLanguageModel, SentenceEmbedding])
def test_padding_and_batch_mates_change_nothing(padded: Any, enliven: Any, head: Any) -> None:
    model = enliven(head(bert(), V)).eval()
    tokens_BS = padded([11, 4, 7, 1])
    together = model(tokens_BS)
    for row, length in enumerate([11, 4, 7, 1]):
        alone = model(tokens_BS[row : row + 1, :length])[0]
        mine = together[row, :length] if head in (Tagger, MaskedLanguageModel) else together[row]
        torch.testing.assert_close(mine, alone, **CLOSE)


def test_a_recorder_changes_nothing_in_training(padded: Any, enliven: Any) -> None:
    model, tokens_BS = enliven(MaskedLanguageModel(bert(dropout=0.3), V)).train(), padded([11, 11, 11])

    def run(probe: Probe) -> tuple[Tensor, dict[str, Tensor]]:
        model.zero_grad()
        torch.manual_seed(7)
        logits_BSV = model(tokens_BS, probe)
        logits_BSV.square().sum().backward()
        return logits_BSV.detach(), {name: p.grad.clone() for name, p in model.named_parameters()}

    seen = Recorder()
    fused_BSV, fused = run(NO_PROBE)
    explicit_BSV, explicit = run(seen)
    assert "encoder.1.self.weights" in seen.tensors
    torch.testing.assert_close(explicit_BSV, fused_BSV, atol=1e-4, rtol=1e-4)
    for name, grad in fused.items():
        scale = float(grad.abs().max())
        assert scale > 0, name
        torch.testing.assert_close(explicit[name], grad, atol=1e-4 * scale, rtol=1e-3, msg=name)


@torch.no_grad()
def test_every_token_attends_to_all_others(padded: Any) -> None:
    model, tokens_BS = bert(), padded([7])
    for place in range(7):
        changed_BS = tokens_BS.clone()
        changed_BS[0, place] = tokens_BS[0, place] % (V - 3) + 3
        assert ((model(changed_BS) - model(tokens_BS)).abs().amax(-1) > 1e-6).all()


@torch.no_grad()
def test_predictions_at_some_positions_are_those_of_all_positions(padded: Any, enliven: Any) -> None:
    model, tokens_BS = enliven(MaskedLanguageModel(bert(), V)).eval(), padded([7, 5])
    hidden_BSD = model.encoder(tokens_BS)
    torch.testing.assert_close(model.predict(hidden_BSD[0, [2, 5]]), model(tokens_BS)[0, [2, 5]])
    assert model.get_parameter("bias_V").shape == (V,)


@torch.no_grad()
def test_a_sentence_embedding_is_the_normalized_mean_of_the_hidden_states(padded: Any) -> None:
    model, tokens_BS = SentenceEmbedding(bert()), padded([5])
    mean_D = model.encoder(tokens_BS)[0].mean(0)
    torch.testing.assert_close(model(tokens_BS)[0], mean_D / mean_D.norm())
