"""Model families, one file each. This table is the only place where a family is looked up by name."""

from __future__ import annotations

from glassformer.models.transformer import Transformer

FAMILIES = {"transformer": Transformer}
