"""The Transformer: its size, tied weights, inputs and outputs, and comparison with PyTorch's Transformer."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor, nn

from glassformer.data.batching import PairBatches
from glassformer.models.transformer import Transformer
from glassformer.nn.probe import Recorder
from glassformer.settings import TransformerSettings
from glassformer.text.tokenizer import EOS, PAD, SOS
from tests.families import transformer

V, D, F, HEADS, N, M = 53, 21, 37, 3, 2, 3


def weights_by_formula(*, norm: str = "post", positions: int = 0, combine: int = 0, matrices: int = 1) -> int:
    attention = 4 * (D * D + D)  # W_Q, W_K, W_V, W_O, each with a bias
    feed_forward = D * F + F + F * D + D
    layer_norm = 2 * D
    encoder = N * (attention + feed_forward + 2 * layer_norm)
    decoder = M * (2 * attention + feed_forward + 3 * layer_norm)
    last_norms = 2 * layer_norm if norm == "pre" else 0
    return encoder + decoder + last_norms + matrices * V * D + 2 * positions * D + 2 * combine


@pytest.mark.parametrize(
    ("over", "count"),
    [
        ({}, weights_by_formula()),
        ({"norm": "pre"}, weights_by_formula(norm="pre")),
        ({"tie_embeddings": False}, weights_by_formula(matrices=3)),
        ({"positions": "learned", "max_positions": 43}, weights_by_formula(positions=43)),
        ({"positions": "none"}, weights_by_formula()),
        ({"combine_positions": "concatenate"}, weights_by_formula(combine=2 * D * D + D)),
    ],
)
def test_the_number_of_parameters(tiny_model, over: dict[str, object], count: int) -> None:
    assert sum(p.numel() for p in tiny_model(**over).parameters()) == count


def test_with_zero_init_the_sub_layers_add_nothing_at_first_and_then_learn() -> None:
    model = transformer(norm="pre", zero_init=True).eval()
    source, target = torch.tensor([[3, 5, 7]]), torch.tensor([[1, 9]])
    recorder = Recorder()
    model(source, target, recorder)
    for name in ("encoder.0.self.output", "decoder.0.cross.output", "decoder.1.ff.output"):
        assert not recorder.tensors[name].any()
    model(source, target)[..., 0].sum().backward()
    for linear in (model.decoder[0].cross_attention.output, model.decoder[1].feed_forward.contract):
        assert not linear.weight.any() and linear.weight.grad.any()


def test_the_base_model_of_the_paper_has_65_million_parameters() -> None:
    base = TransformerSettings(encoder_layers=6, decoder_layers=6, d_model=512, heads=8, d_ff=2048, dropout=0.1)
    with torch.device("meta"):
        model = Transformer(base, 37000, pad=0)
    millions = sum(p.numel() for p in model.parameters()) / 1e6
    assert millions == pytest.approx(65, rel=0.04)  # table 3; its 37,000 entries are a round number


def test_tied_embeddings_are_one_tensor(tiny_model) -> None:
    model = tiny_model()
    assert model.source_embedding.weight_VD is model.target_embedding.weight_VD is model.output.weight_VD
    apart = tiny_model(tie_embeddings=False)
    three = {id(part.weight_VD) for part in (apart.source_embedding, apart.target_embedding, apart.output)}
    assert len(three) == 3


def test_source_and_target_positions_are_learned_apart(tiny_model) -> None:
    model = tiny_model(positions="learned", max_positions=43)
    assert model.source_positions.positions.weight_TD is not model.target_positions.positions.weight_TD
    assert model.max_positions == 43
    assert tiny_model().max_positions is None


def test_the_decoder_reads_sos_je_vais_bien_and_writes_je_vais_bien_eos() -> None:
    words = {PAD: "<pad>", SOS: "<sos>", EOS: "<eos>", 5: "I", 7: "am", 11: "fine", 13: "Je", 17: "vais", 19: "bien"}
    words |= {23: "Thanks", 29: "Merci"}
    batch = PairBatches([([23], [29]), ([5, 7, 11], [13, 17, 19])], batch_tokens=100).batch([1, 0])

    def read(ids_BT: Tensor) -> list[str]:
        return [" ".join(words[i] for i in row) for row in ids_BT.tolist()]

    assert read(batch.source_BS) == ["I am fine <eos>", "Thanks <eos> <pad> <pad>"]
    assert read(batch.target_in_BT) == ["<sos> Je vais bien", "<sos> Merci <pad> <pad>"]
    assert read(batch.target_out_BT) == ["Je vais bien <eos>", "Merci <eos> <pad> <pad>"]
    assert (batch.target_out_BT != PAD).sum() == 6


def test_teacher_forcing_scores_each_word_after_the_words_before_it(tiny_model) -> None:
    model = tiny_model()
    batch = PairBatches([([5, 7, 11], [13, 17, 19])], batch_tokens=100).batch([0])
    with torch.no_grad():
        forced_TV = model(batch.source_BS, batch.target_in_BT)[0].log_softmax(-1)
        for t, word in enumerate(batch.target_out_BT[0]):
            prefix = batch.target_in_BT[:, : t + 1]
            alone_V = model(batch.source_BS, prefix)[0, -1].log_softmax(-1)
            torch.testing.assert_close(forced_TV[t, word], alone_V[word], atol=1e-5, rtol=1e-5)


def test_hidden_and_output_layer_give_the_logits(tiny_model, padded) -> None:
    model, source, target = tiny_model(), padded([5, 3]), padded([7, 7], seed=1)
    with torch.no_grad():
        hidden = model.hidden(source, target)
        torch.testing.assert_close(hidden @ model.output.weight_VD.T, model(source, target))


def test_without_positions_the_encoder_is_permutation_equivariant(tiny_model, padded) -> None:
    source, order = padded([11]), torch.tensor([7, 3, 0, 10, 1, 2, 9, 4, 8, 6, 5])
    with torch.no_grad():
        blind = tiny_model(positions="none")
        torch.testing.assert_close(blind.encode(source[:, order]).hidden_BSD, blind.encode(source).hidden_BSD[:, order])
        seeing = tiny_model()
        shuffled, straight = seeing.encode(source[:, order]).hidden_BSD, seeing.encode(source).hidden_BSD[:, order]
    assert not torch.isclose(shuffled, straight, atol=1e-2).all(dim=-1).any()


def test_sentences_beyond_the_first_table_of_positions(tiny_model, padded) -> None:
    model, source, target = tiny_model(decoder_layers=1, encoder_layers=1), padded([263]), padded([271], seed=1)
    with torch.no_grad():
        at_once = model(source, target)
        state = model.start(model.encode(source))
        for token in target[0]:
            last, state = model.step(token[None], state)
    torch.testing.assert_close(last, at_once[:, -1], atol=1e-5, rtol=1e-5)


def test_dropout_is_where_the_paper_has_it(tiny_model, padded) -> None:
    """§5.4: on the sum of embeddings and positions, and on the output of each sub-layer; nowhere else."""
    model, seen, read = tiny_model(dropout=0.5).train(), Recorder(), {}
    for side in ("encoder", "decoder"):
        model.get_submodule(f"{side}.0").register_forward_pre_hook(lambda _, x, side=side: read.update({side: x[0]}))
    model(padded([11, 11]), padded([13, 13], seed=1), seen)
    tensors = seen.tensors
    for side, x_BTD in read.items():
        clean_BTD = tensors[f"{side}.embedding"] + tensors[f"{side}.positions"]
        dropped = x_BTD == 0
        assert dropped.float().mean().item() == pytest.approx(0.5, abs=0.1)
        torch.testing.assert_close(x_BTD[~dropped], 2 * clean_BTD[~dropped])
    tensors |= {f"{side}.dropped_input": x_BTD.detach() for side, x_BTD in read.items()}
    before = {"encoder.0.self": "encoder.dropped_input", "encoder.0.ff": "encoder.0.self.norm"}
    before |= {"decoder.0.self": "decoder.dropped_input", "decoder.0.cross": "decoder.0.self.norm"}
    before |= {"decoder.0.ff": "decoder.0.cross.norm", "encoder.1.self": "encoder.0.ff.norm"}
    for at, x in before.items():
        added = tensors[f"{at}.residual"] - tensors[x]
        dropped = added.abs() < 1e-6
        assert dropped.float().mean().item() == pytest.approx(0.5, abs=0.1), at
        torch.testing.assert_close(added[~dropped], 2 * tensors[f"{at}.output"][~dropped], atol=1e-5, rtol=1e-4)
        if not at.endswith("ff"):
            rows = tensors[f"{at}.weights"].sum(-1)
            torch.testing.assert_close(rows, torch.ones_like(rows))
    assert torch.equal(tensors["encoder.memory"], tensors["encoder.1.ff.norm"])


def peer_of(model: Transformer, *, pre: bool) -> nn.Transformer:
    """PyTorch's Transformer with the same weights. Its final norms are left out where the paper has none."""
    how = {"d_model": D, "nhead": HEADS, "dim_feedforward": F, "dropout": 0.0, "batch_first": True, "norm_first": pre}
    encoder = nn.TransformerEncoder(
        nn.TransformerEncoderLayer(**how), N, norm=nn.LayerNorm(D) if pre else None, enable_nested_tensor=False
    )
    decoder = nn.TransformerDecoder(nn.TransformerDecoderLayer(**how), M, norm=nn.LayerNorm(D) if pre else None)
    peer = nn.Transformer(d_model=D, nhead=HEADS, batch_first=True, custom_encoder=encoder, custom_decoder=decoder)

    def copy(theirs: nn.Module, **weights: Tensor) -> None:
        for name, weight in weights.items():
            theirs.get_parameter(name).data.copy_(weight)

    def copy_attention(theirs: nn.MultiheadAttention, output: nn.Linear, *packed: nn.Linear) -> None:
        copy(theirs, in_proj_weight=torch.cat([p.weight for p in packed]))
        copy(theirs, in_proj_bias=torch.cat([p.bias for p in packed]))
        copy(theirs.out_proj, weight=output.weight, bias=output.bias)

    def copy_layer(theirs: nn.Module, ours: nn.Module, residuals: list[nn.Module]) -> None:
        copy_attention(theirs.self_attn, ours.self_attention.output, ours.self_attention.query_key_value)
        ff = ours.feed_forward
        copy(theirs.linear1, weight=ff.expand.weight, bias=ff.expand.bias)
        copy(theirs.linear2, weight=ff.contract.weight, bias=ff.contract.bias)
        for i, around in enumerate(residuals, start=1):
            copy(getattr(theirs, f"norm{i}"), weight=around.norm.weight, bias=around.norm.bias)

    for theirs, ours in zip(encoder.layers, model.encoder, strict=True):
        copy_layer(theirs, ours, [ours.self_residual, ours.feed_forward_residual])
    for theirs, ours in zip(decoder.layers, model.decoder, strict=True):
        copy_layer(theirs, ours, [ours.self_residual, ours.cross_residual, ours.feed_forward_residual])
        cross = ours.cross_attention
        copy_attention(theirs.multihead_attn, cross.output, cross.query, cross.key_value)
    if pre:
        copy(encoder.norm, weight=model.encoder_norm.weight, bias=model.encoder_norm.bias)
        copy(decoder.norm, weight=model.decoder_norm.weight, bias=model.decoder_norm.bias)
    return peer


def embedded(model: Transformer, tokens_BT: Tensor) -> Tensor:
    angle = [[t / 10000 ** ((d - d % 2) / D) for d in range(D)] for t in range(tokens_BT.shape[1])]
    table = torch.tensor([[math.cos(a) if d % 2 else math.sin(a) for d, a in enumerate(row)] for row in angle])
    return model.source_embedding.weight_VD[tokens_BT] * math.sqrt(D) + table


@pytest.mark.parametrize("norm", ["post", "pre"])
def test_equals_torch_transformer(tiny_model, padded, norm: str) -> None:
    model = tiny_model(norm=norm)
    peer = peer_of(model, pre=norm == "pre")  # in training mode, without dropout: PyTorch's fast path is disabled
    source, target = padded([11, 5, 1, 11, 7]), padded([13] * 5, seed=1)
    blind = torch.ones(13, 13, dtype=torch.bool).triu(1)
    hidden = peer(
        embedded(model, source),
        embedded(model, target),
        tgt_mask=blind,
        src_key_padding_mask=source == PAD,
        memory_key_padding_mask=source == PAD,
    )
    expected = hidden @ model.output.weight_VD.T
    torch.testing.assert_close(model(source, target), expected, atol=1e-5, rtol=1e-5)


def test_without_the_look_ahead_mask_teacher_forcing_sees_the_target(tiny_model, padded) -> None:
    """This is the only model whose steps differ from its forward pass."""
    masked, cheating = tiny_model(decoder_layers=1), tiny_model(decoder_layers=1, ablations=["no_look_ahead_mask"])
    source, target = padded([5, 3]), padded([7, 7], seed=1)
    with torch.no_grad():
        before = cheating(source, target)
        changed = target.clone()
        changed[:, -1] = target[:, -1] % (V - 3) + 3
        after = cheating(source, changed)
        assert ((after - before).abs().amax(-1) > 1e-4).all()  # every position sees the last token
        state, steps = cheating.start(cheating.encode(source)), []
        for tokens in target.T:
            logits, state = cheating.step(tokens, state)
            steps.append(logits)
        stepped = torch.stack(steps, dim=1)
        # Its steps are those of the model with the mask, which has the same weights ...
        torch.testing.assert_close(stepped, masked(source, target), atol=1e-5, rtol=1e-5)
        # ... and agree with its own forward pass nowhere but at the end, which has no future.
        torch.testing.assert_close(stepped[:, -1], before[:, -1], atol=1e-5, rtol=1e-5)
        assert not torch.isclose(stepped[:, :-1], before[:, :-1], atol=1e-3).all(-1).any()


def test_without_the_look_ahead_mask_padding_is_still_masked(tiny_model, padded) -> None:
    model, source, target = tiny_model(ablations=["no_look_ahead_mask"]), padded([5, 3]), padded([7, 4], seed=1)
    with torch.no_grad():
        alone = model(source[1:, :3], target[1:, :4])
        torch.testing.assert_close(model(source, target)[1:, :4], alone, atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("norm", ["post", "pre"])
def test_batch_normalization_ignores_padding(tiny_model, padded, norm: str) -> None:
    """In training, where the tokens of a batch do change each other."""
    model = tiny_model(ablations=["batch_norm"], norm=norm).train()
    source, target = padded([5, 3]), padded([7, 4], seed=1)
    nothing = torch.full((2, 6), PAD)
    with torch.no_grad():
        narrow = model(source, target)
        wide = model(torch.cat([source, nothing], dim=1), torch.cat([target, nothing], dim=1))[:, :7]
    real = target != PAD
    torch.testing.assert_close(wide[real], narrow[real], atol=1e-4, rtol=1e-4)
    assert not torch.allclose(model(source[:1], target[:1]), narrow[:1], atol=1e-2)
