"""One module a group of addresses. Each has `routes(desk)`, which is all that the application knows of it."""

from glassformer.studio.routes import decode, positions, stream, traces

EVERY = (traces.routes, decode.routes, positions.routes, stream.routes)
