"""Requests generated from the OpenAPI description: none causes a server error."""

from __future__ import annotations

import pytest
from server_process import ServerProcess

schemathesis = pytest.importorskip("schemathesis", reason="schemathesis is not installed")


def test_no_request_ends_in_a_server_error(server: ServerProcess) -> None:
    from hypothesis import HealthCheck, given, seed, settings
    from hypothesis import strategies as st

    schema = schemathesis.openapi.from_url(f"{server.url}/openapi.json")
    operations = [found.ok() for found in schema.get_all_operations()]
    assert len(operations) > 15
    statuses: set[int] = set()

    @seed(1)
    @settings(max_examples=120, deadline=None, suppress_health_check=list(HealthCheck), database=None)
    @given(case=st.one_of([operation.as_strategy() for operation in operations]))
    def check(case: schemathesis.Case) -> None:
        response = case.call(base_url=server.url, timeout=600)
        statuses.add(response.status_code)
        assert response.status_code < 500, (case.as_curl_command(), response.text)

    check()
    assert {200, 400} <= statuses
