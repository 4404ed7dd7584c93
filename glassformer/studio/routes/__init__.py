"""One module a group of addresses. Each has `routes(desk)`, which is all that the application knows of it."""

from glassformer.studio.routes import compare, decode, intervene, positions, stream, traces, training

EVERY = (
    traces.routes,
    decode.routes,
    positions.routes,
    stream.routes,
    intervene.routes,
    compare.routes,
    training.routes,
)
