"""The systems that are compared: the steps towards the Transformer, and the Transformer with one thing changed."""

from __future__ import annotations

from dataclasses import dataclass

from glassformer.errors import UserError
from glassformer.planning import choices as planning
from glassformer.settings import Raw

LAYERS_AT_MOST = 2  # of a recurrent system: more are slow, and seldom better
FOR_ALL = ("dropout", "tie_embeddings")  # of what a person says of the Transformer, what means the same elsewhere


@dataclass(frozen=True)
class System:
    """One of the compared: its name (of its folder too), what people call it, and what is new or other in it."""

    name: str
    title: str
    korean: str
    change: str
    model: Raw


def _recurrent(name: str, title: str, korean: str, change: str, **model: object) -> System:
    return System(name, title, korean, change, {"family": "recurrent", "bidirectional": False} | model)


TRANSFORMER = System(
    "transformer",
    "Transformer",
    "트랜스포머",
    "Attention alone, no recurrence: every position is computed at once, and any two are one step apart.",
    {},
)

LADDER = (
    _recurrent(
        "rnn",
        "RNN encoder–decoder",
        "순환 신경망 인코더–디코더",
        "One network reads the source into a single vector, another writes from it (Sutskever et al., 2014).",
        cell="rnn",
        attention="none",
    ),
    _recurrent(
        "gru",
        "GRU encoder–decoder",
        "게이트 순환 유닛",
        "Gates decide what a state keeps, so that it lasts (Cho et al., 2014).",
        cell="gru",
        attention="none",
    ),
    _recurrent(
        "lstm",
        "LSTM encoder–decoder",
        "장단기 메모리",
        "Beside the state a memory cell, to which is added and from which is forgotten (Hochreiter & Schmidhuber, "
        "1997; Sutskever's choice).",
        cell="lstm",
        attention="none",
    ),
    _recurrent(
        "gru-additive",
        "GRU + additive attention",
        "바다나우 어텐션",
        "No single vector any more: before each word the decoder looks back at all states (Bahdanau et al., 2015).",
        cell="gru",
        attention="additive",
    ),
    _recurrent(
        "gru-dot",
        "GRU + dot attention",
        "루옹 어텐션",
        "A dot product in place of a small network: cheaper to ask (Luong et al., 2015).",
        cell="gru",
        attention="dot",
    ),
    _recurrent(
        "bigru-additive",
        "Bidirectional GRU + additive attention",
        "양방향 GRU",
        "The encoder reads from both ends: each state knows what follows it too.",
        cell="gru",
        attention="additive",
        bidirectional=True,
    ),
    TRANSFORMER,
)

ABLATIONS = (
    System("transformer", "Transformer", "트랜스포머", "As it is: what all others are compared with.", {}),
    System(
        "no-scaling",
        "no √d_k",
        "스케일링 없음",
        "Scores are not divided by √d_k: the softmax saturates.",
        {"ablations": ["no_scaling"]},
    ),
    System(
        "no-residual",
        "no residual",
        "잔차 연결 없음",
        "A sub-layer's input is not added to its output.",
        {"ablations": ["no_residual"]},
    ),
    System(
        "batch-norm",
        "batch normalisation",
        "배치 정규화",
        "Normalised over the tokens of a batch instead of a token's own width.",
        {"ablations": ["batch_norm"]},
    ),
    System(
        "no-positions",
        "no positions",
        "위치 인코딩 없음",
        "Nothing says where a word stands: the source is a bag of words.",
        {"positions": "none"},
    ),
    System(
        "learned-positions",
        "learned positions",
        "학습된 위치 임베딩",
        "A vector for each position is learnt instead of computed from sines.",
        {"positions": "learned"},
    ),
    System(
        "concatenated-positions",
        "positions concatenated",
        "위치 연결(concatenate)",
        "Positions stand beside the embedding, projected to its width, instead of being added.",
        {"combine_positions": "concatenate"},
    ),
    System("one-head", "one head", "단일 헤드", "One attention as wide as all heads together.", {"heads": 1}),
    System(
        "pre-norm",
        "pre-norm",
        "사전 정규화",
        "Normalisation before each sub-layer instead of after the sum.",
        {"norm": "pre"},
    ),
    System(
        "no-look-ahead-mask",
        "no look-ahead mask",
        "룩어헤드 마스크 없음",
        "In training the decoder sees the words it should predict: it copies them, its loss is that of a cheat, and "
        "it cannot translate.",
        {"ablations": ["no_look_ahead_mask"]},
    ),
)

KINDS = {"ladder": LADDER, "ablate": ABLATIONS}


def chosen(kind: str, only: str) -> tuple[System, ...]:
    """Those named, `gru,transformer`, in the order of their kind; all if none is."""
    systems = KINDS[kind]
    names = {name.strip() for name in only.split(",") if name.strip()}
    if unknown := sorted(names - {system.name for system in systems}):
        known = ", ".join(system.name for system in systems)
        raise UserError(f"There is no system '{unknown[0]}'.", where="--only", hint=f"there are: {known}")
    return tuple(system for system in systems if system.name in names or not names)


def model_settings(system: System, transformer: Raw, vocab: int) -> Raw:
    """All settings of a system's model. A recurrent one is as wide as gives it the Transformer's number of weights."""
    if system.model.get("family", "transformer") == "transformer":
        return transformer | system.model
    layers = {
        side: min(LAYERS_AT_MOST, transformer.get(side) or transformer["layers"])
        for side in ("encoder_layers", "decoder_layers")
    }
    model = system.model | layers | {name: transformer[name] for name in FOR_ALL if name in transformer}
    width = comparable_width(model, vocab, like=planning.count_parameters("transformer", transformer, vocab))
    return model | {"d_model": width}


def comparable_width(model: Raw, vocab: int, *, like: int) -> int:
    """A round width whose number of weights is within a twentieth of `like`; the nearest where there is none."""

    def weights(width: int) -> int:
        return planning.count_parameters("recurrent", model | {"d_model": width}, vocab)

    for step in (32, 16, 8, 4, 2):
        width = planning.nearest_width(weights, like, step=step)
        if abs(weights(width) - like) <= like / 20:
            break
    return width
