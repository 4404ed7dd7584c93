"""One module a group of addresses. Each has `routes(desk)`, which is all that the application knows of it."""

from glassformer.studio.routes import decode, traces

EVERY = (traces.routes, decode.routes)
