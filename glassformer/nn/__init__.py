"""Layers, the building blocks of models. They operate on tensors and know neither text nor settings.

Tensor names carry their shape as a suffix, one letter per axis, the same letters everywhere:

    B  batch            S  source length     T  target length
    Q  queries          K  keys              N  rows of any kind, flattened
    D  model width      H  heads             E  width of one head (D / H)
    F  feed-forward     V  vocabulary        G  gates of a recurrent cell, side by side
    C  channels         Y, X  pixel rows and columns     P  patches of an image     L  labels

so that `scores_BHQK = query_BHQE @ key_BHKE.mT` can be checked by reading it.

Every layer takes a `probe` and passes it its intermediate tensors with the operations that compute them
(`probe.py`, `glassformer/reference/`).
"""
