"""The parts that models are wired from. They know tensors, and no text.

Tensor names carry their shape. One letter an axis, the same letters everywhere:

    B  batch            S  source length     T  target length
    Q  queries          K  keys              N  rows of any kind, flattened
    D  model width      H  heads             E  width of one head (D / H)
    F  feed-forward     V  vocabulary        G  gates of a recurrent cell, side by side
    C  channels         Y, X  pixels down and across     P  patches of an image     L  labels

so that `scores_BHQK = query_BHQE @ key_BHKE.mT` can be checked by reading it.
"""
