"""Errors of requests, and their two forms: `{"error": "…"}` as LibreTranslate, `{"error": {…}}` as OpenAI under /v1."""

from __future__ import annotations

import math
from typing import Any

from starlette.responses import JSONResponse

from glassformer.errors import UserError
from glassformer.serving.jobs import JobFailed, QueueFull, WorkerLost

# The types of OpenAI's errors, by HTTP status.
TYPES = {401: "authentication_error", 403: "permission_error", 404: "not_found_error", 429: "rate_limit_error"}


class RequestError(Exception):
    """A request that is not answered as asked.

    Args:
        status: of HTTP.
        message: what is wrong, in one sentence.
        parameter: the field of the request.
        hint: how to correct it.
        retry_after: seconds.
    """

    def __init__(
        self, status: int, message: str, *, parameter: str = "", hint: str = "", retry_after: float | None = None
    ) -> None:
        super().__init__(message)
        self.status, self.message, self.parameter, self.hint = status, message, parameter, hint
        self.retry_after = retry_after


KNOWN_ERRORS = (RequestError, QueueFull, WorkerLost, JobFailed, UserError)


def as_request_error(error: BaseException) -> RequestError | None:
    """Return an error of the pool or of the user as the error of a request; None for an unexpected error."""
    match error:
        case RequestError():
            return error
        case QueueFull():
            message = "Slowdown: the service is busy; the queue is full."
            return RequestError(429, message, hint="try again later", retry_after=error.retry_after)
        case WorkerLost():
            message = "The worker process that handled the request ended."
            return RequestError(503, message, hint="try again", retry_after=1)
        case JobFailed() | UserError():
            parameter = error.where.removeprefix("--")  # the command line has an option of the same name
            return RequestError(400, error.message, parameter=parameter, hint=error.hint)
    return None


def internal_error(request_id: str) -> RequestError:
    return RequestError(500, "Internal error.", hint=f"the log has the details of request {request_id}")


def error_response(error: RequestError, path: str) -> JSONResponse:
    """Return an error in the format that clients of an endpoint expect."""
    headers = {} if error.retry_after is None else {"Retry-After": str(max(1, math.ceil(error.retry_after)))}
    body: dict[str, Any]
    if path.startswith("/v1/"):
        kind = TYPES.get(error.status, "invalid_request_error" if error.status < 500 else "server_error")
        body = {"message": error.message, "type": kind, "param": error.parameter or None, "code": None}
        if error.hint:
            body["hint"] = error.hint
        return JSONResponse({"error": body}, error.status, headers)
    return JSONResponse({"error": error.message}, error.status, headers)
