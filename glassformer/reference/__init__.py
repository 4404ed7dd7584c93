"""Every operation of every model in NumPy: the ground truth for tests, the studio and "copy as NumPy".

Model code names the operation where it computes a tensor: `probe("scores", query @ key.mT, ops.dot_products, query,
key)`. `ops` is the table of all operations; each is one object with its formula as text, its computation, and which
operand entries one entry of the result depends on.

    operation.py   `Operation`: formula, computation and dependencies
    embeddings.py  tokens, positions, segments, images
    attention.py   scores, masks, weights, heads; also the attention of recurrent decoders
    layers.py      linear layers, feed-forward networks, normalization, residual connections, pooling
    backward.py    gradients of the logits and through one head
    recurrent.py   gates and states of recurrent cells, and the bridge from encoder to decoder
"""
