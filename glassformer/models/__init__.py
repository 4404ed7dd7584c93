"""Model families, one per file. `FAMILIES` is the only place where a family is looked up by its name.

transformer.py        the Transformer                  gpt.py, bert.py, vit.py   its descendants
recurrent.py          encoder–decoder, with or without attention
recurrent_lm.py       recurrent language model         window.py                 fixed-window language model
recurrent_encoder.py  bidirectional encoder            elmo.py                   contextual embeddings
heads.py              output layers on top of an encoder, by task
ablations.py          Transformers with removed or replaced parts
"""

from __future__ import annotations

from typing import Any

from glassformer.models.bert import BERT
from glassformer.models.elmo import ELMo
from glassformer.models.gpt import GPT
from glassformer.models.recurrent import Recurrent
from glassformer.models.recurrent_encoder import RecurrentEncoder
from glassformer.models.recurrent_lm import RecurrentLM
from glassformer.models.transformer import Transformer
from glassformer.models.vit import ViT
from glassformer.models.window import Window

FAMILIES: dict[str, Any] = {
    "transformer": Transformer,
    "recurrent": Recurrent,
    "recurrent_lm": RecurrentLM,
    "window": Window,
    "recurrent_encoder": RecurrentEncoder,
    "elmo": ELMo,
    "gpt": GPT,
    "bert": BERT,
    "vit": ViT,
}
