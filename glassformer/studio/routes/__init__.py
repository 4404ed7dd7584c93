"""The addresses of the studio, one module per group. Each module has a function `routes(context)`."""

from glassformer.studio.routes import (
    compare,
    contrast,
    decode,
    embeddings,
    gradient,
    images,
    intervene,
    lessons,
    positions,
    recurrent,
    sampling,
    share,
    stream,
    traces,
    training,
    worked_example,
)

ALL_ROUTES = (
    traces.routes,
    images.routes,
    decode.routes,
    sampling.routes,
    positions.routes,
    stream.routes,
    recurrent.routes,
    gradient.routes,
    contrast.routes,
    embeddings.routes,
    intervene.routes,
    compare.routes,
    training.routes,
    lessons.routes,
    worked_example.routes,
    share.routes,
)
