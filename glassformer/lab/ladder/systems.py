"""The compared systems: the predecessors of the Transformer, and variants of the Transformer with one change."""

from __future__ import annotations

from dataclasses import dataclass

from glassformer.errors import UserError
from glassformer.planning import choices as planning
from glassformer.settings import Raw

MAX_RECURRENT_LAYERS = 2  # more are slower and rarely better
SHARED = ("dropout", "tie_embeddings")  # settings of the Transformer that also apply to recurrent systems


@dataclass(frozen=True)
class System:
    """A compared system: its name (also of its folder), title, what it changes, and its model settings."""

    name: str
    title: str
    korean: str
    change: str
    model: Raw

    @property
    def is_recurrent(self) -> bool:
        return self.model.get("family") == "recurrent"


def _recurrent(name: str, title: str, korean: str, change: str, **model: object) -> System:
    return System(name, title, korean, change, {"family": "recurrent", "bidirectional": False} | model)


TRANSFORMER = System(
    "transformer", "Transformer", "트랜스포머",
    "Attention only, no recurrence: all positions are computed in parallel, and any two are connected directly.", {},
)  # fmt: skip

LADDER = (
    _recurrent(
        "rnn", "RNN encoder–decoder", "RNN 인코더-디코더",
        "The encoder compresses the source into one vector, from which the decoder generates (Sutskever et al., 2014).",
        cell="rnn", attention="none",
    ),
    _recurrent(
        "gru", "GRU encoder–decoder", "게이트 순환 유닛",
        "Gates control what the hidden state keeps over many steps (Cho et al., 2014).", cell="gru", attention="none",
    ),
    _recurrent(
        "lstm", "LSTM encoder–decoder", "장단기 메모리",
        "A cell state in addition to the hidden state, changed by additive updates and a forget gate (Hochreiter & "
        "Schmidhuber, 1997).", cell="lstm", attention="none",
    ),
    _recurrent(
        "gru-additive", "GRU + additive attention", "바다나우 어텐션",
        "No information bottleneck: at each step the decoder attends to all encoder states (Bahdanau et al., 2015).",
        cell="gru", attention="additive",
    ),
    _recurrent(
        "gru-dot", "GRU + dot attention", "루옹 어텐션",
        "Scores are dot products instead of the output of a small network, which is cheaper (Luong et al., 2015).",
        cell="gru", attention="dot",
    ),
    _recurrent(
        "bigru-additive", "Bidirectional GRU + additive attention", "양방향 GRU",
        "The encoder reads in both directions, so each state also contains the right context.",
        cell="gru", attention="additive", bidirectional=True,
    ),
    TRANSFORMER,
)  # fmt: skip

ABLATIONS = (
    System("transformer", "Transformer", "트랜스포머", "The unchanged model, the baseline of the comparison.", {}),
    System(
        "no-scaling", "no √d_k", "스케일링 없음", "Scores are not divided by √d_k: the softmax saturates.",
        {"ablations": ["no_scaling"]},
    ),
    System(
        "no-residual", "no residual", "잔차 연결 없음", "The input of a sub-layer is not added to its output.",
        {"ablations": ["no_residual"]},
    ),
    System(
        "batch-norm", "batch normalization", "배치 정규화",
        "Normalization over the tokens of a batch instead of the dimensions of a token.", {"ablations": ["batch_norm"]},
    ),
    System(
        "no-positions", "no positions", "위치 인코딩 없음", "No positional encoding: the encoder sees a bag of words.",
        {"positions": "none"},
    ),
    System(
        "learned-positions", "learned positions", "학습된 위치 임베딩",
        "Learned positional embeddings instead of sinusoids.", {"positions": "learned"},
    ),
    System(
        "rotary-positions", "rotary positions", "회전 위치 임베딩(RoPE)",
        "Queries and keys are rotated in every self-attention (RoPE); nothing is added to the embedding.",
        {"positions": "rotary"},
    ),
    System(
        "concatenated-positions", "positions concatenated", "위치 인코딩 연결",
        "The positional encoding is concatenated to the embedding and projected instead of added.",
        {"positions": "sinusoidal", "combine_positions": "concatenate"},
    ),
    System("one-head", "one head", "단일 헤드", "One attention head of width d_model.", {"heads": 1}),
    System(
        "pre-norm", "pre-norm", "프리 노름",
        "Layer normalization before each sub-layer instead of after the residual connection.", {"norm": "pre"},
    ),
    System(
        "no-look-ahead-mask", "no look-ahead mask", "룩어헤드 마스크 없음",
        "In training the decoder sees the tokens it should predict and copies them; it cannot translate.",
        {"ablations": ["no_look_ahead_mask"]},
    ),
)  # fmt: skip

KINDS = {"ladder": LADDER, "ablate": ABLATIONS}
# An ablation changes one part of the paper's model, also with an optimizer for which `train` chooses other parts.
BASELINES: dict[str, Raw] = {"ladder": {}, "ablate": {"norm": "post", "positions": "sinusoidal", "zero_init": False}}


def select_systems(kind: str, only: str) -> tuple[System, ...]:
    """Return the systems with these names (`gru,transformer`), or all, in the order of the table."""
    systems = KINDS[kind]
    names = {name.strip() for name in only.split(",") if name.strip()}
    known = ", ".join(system.name for system in systems)
    if only and not names:
        raise UserError("--only names no system.", where=f"--only {only}", hint=f"choose from {known}")
    if unknown := sorted(names - {system.name for system in systems}):
        raise UserError(f"There is no system '{unknown[0]}'.", where="--only", hint=f"choose from {known}")
    return tuple(system for system in systems if system.name in names or not names)


def model_settings(system: System, transformer: Raw, vocab: int) -> Raw:
    """Return the model settings of a system; recurrent ones get about as many parameters as the Transformer."""
    if not system.is_recurrent:
        return transformer | system.model
    layers = {
        side: min(MAX_RECURRENT_LAYERS, transformer.get(side) or transformer["layers"])
        for side in ("encoder_layers", "decoder_layers")
    }
    model = system.model | layers | {name: transformer[name] for name in SHARED if name in transformer}
    width = comparable_width(model, vocab, like=planning.count_parameters("transformer", transformer, vocab))
    return model | {"d_model": width}


def comparable_width(model: Raw, vocab: int, *, like: int) -> int:
    """Return a round width whose number of parameters is within 5 % of `like`, or the nearest one."""

    def weights(width: int) -> int:
        return planning.count_parameters("recurrent", model | {"d_model": width}, vocab)

    for step in (32, 16, 8, 4, 2):
        width = planning.nearest_width(weights, like, step=step)
        if abs(weights(width) - like) <= like / 20:
            break
    return width
