"""The addresses of the studio, one module per group. Each module has a function `routes(context)`."""

from glassformer.studio.routes import compare, decode, intervene, lessons, positions, stream, traces, training

ALL_ROUTES = (
    traces.routes,
    decode.routes,
    positions.routes,
    stream.routes,
    intervene.routes,
    compare.routes,
    training.routes,
    lessons.routes,
)
