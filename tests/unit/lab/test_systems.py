"""The compared systems: equal numbers of parameters, or one difference each."""

from __future__ import annotations

import pytest

from glassformer.errors import UserError
from glassformer.lab.ladder.systems import ABLATIONS, LADDER, model_settings, select_systems
from glassformer.planning import choices as planning
from glassformer.planning import sizes
from glassformer.settings import MODELS, Raw, family_of

TINY: Raw = {"layers": 1, "d_model": 16, "heads": 2, "d_ff": 16, "dropout": 0.0}
SIZES = [
    ({"layers": s.layers, "d_model": s.d_model, "heads": s.heads, "d_ff": s.d_ff, "dropout": s.dropout}, s.vocab)
    for s in sizes.SIZES[:4]
]
APART: Raw = {"encoder_layers": 4, "decoder_layers": 1, "d_model": 96, "heads": 4, "d_ff": 100, "dropout": 0.1}


@pytest.mark.parametrize(("transformer", "vocab"), [(TINY, 401), (APART, 997), *SIZES])
def test_all_systems_have_about_as_many_parameters(transformer: Raw, vocab: int) -> None:
    weights = {}
    for system in LADDER:
        model = model_settings(system, transformer, vocab)
        weights[system.name] = planning.count_parameters(family_of(model), model, vocab)
    assert all(abs(count / weights["transformer"] - 1) < 0.1 for count in weights.values()), weights


def test_shared_settings_apply_to_all_systems() -> None:
    gru = model_settings(LADDER[1], APART | {"dropout": 0.37, "tie_embeddings": False, "norm": "pre"}, 997)
    assert (gru["dropout"], gru["tie_embeddings"]) == (0.37, False)
    assert (gru["encoder_layers"], gru["decoder_layers"]) == (2, 1)
    assert "norm" not in gru and "heads" not in gru


def test_an_ablation_differs_in_one_setting() -> None:
    base, *variants = (MODELS["transformer"].model_validate(model_settings(s, TINY, 401)) for s in ABLATIONS)
    changed = [" ".join(name for name, value in variant if value != getattr(base, name)) for variant in variants]
    told = "ablations ablations ablations positions positions positions combine_positions heads norm ablations"
    assert changed == told.split()
    ablated = [variant.ablations for variant in variants if variant.ablations]
    assert ablated == [["no_scaling"], ["no_residual"], ["batch_norm"], ["no_look_ahead_mask"]]


def test_systems_are_chosen_by_name_and_keep_their_order() -> None:
    assert [system.name for system in select_systems("ladder", "transformer, gru")] == ["gru", "transformer"]
    assert select_systems("ablate", "") == ABLATIONS
    with pytest.raises(UserError, match=r"(?s)no system 'gpu'.*choose from rnn, gru, lstm"):
        select_systems("ladder", "gpu,gru")
