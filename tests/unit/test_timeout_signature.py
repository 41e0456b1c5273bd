"""The signature of a timeout in a proxy, in the bodies that proxies send (L-2, L-3)."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from callability.contract.timeout_signature import timed_out_on_the_way
from support.drawing import drawing

TIMED_OUT = (
    "upstream call timeout",
    '{"error":"upstream call timeout","path":"/mcp"}',
    '{"path":"/mcp","error":"upstream call timeout"}',
    ' {"error": "upstream call timeout", "path": "/mcp"}\n',
    '{"a":{"b":[1,null,{"c":"ext_authz: request timed out"}]},"u":"http://h/x"}',
    '[["upstream call timeout"]]',
    '{"error":"upstream\\u0020call timeout","path":"/mcp"}',
    '{"error":"upstream call timeout (http://h/x)"}',
    '{"timeout":30,"error":"upstream request timeout"}',
    '{"body":"{\\"error\\":\\"upstream call timeout\\",\\"path\\":\\"/mcp\\"}"}',
    '{"message":"<p>upstream request timeout</p>"}',
    '403 Forbidden: {"error":"upstream call timeout","path":"/mcp"}',
    "<p>upstream request timeout</p>",
    "<html><head><title>403 Forbidden</title></head><body><p>upstream&#32;request timeout</p></body></html>",
    "upstream request timeout<br/>",
)
CUT = (
    '{"error":"upstream call timeout',
    '{"error":"upstream call timeout","pa',
    '{"error":"upstream call timeout\\',
    "<html><body><p>upstream request timeout",
    "<html><body><p>upstream request timeout</",
)
NOT_SURE = (
    '{"url":"http://h/upstream/call-timeout"}',
    '{"url":"https://h/a b upstream timeout","error":"no"}',
    '{"path":"/upstream-timeout","error":"no"}',
    '{"path":"/a b upstream timeout","error":"no"}',
    '{"u":"http%3A%2F%2Fh%2Fupstream-timeout"}',
    '{"u":"mcp?error=upstream+timeout"}',
    '{"host":"upstream-timeout.example"}',
    '{"upstream_timeout":30}',
    '{"upstream":"x","error":"timeout"}',
    '{"where":"upstream","what":"timeout"}',
    '{"error":"upstream timeout of 30 s"}',
    '{"error":"upstream call timeout","reason":"denied"}',
    '{"error":"denied","path":"/x","text":"upstream call timeout"}',
    '{"denied":"/x","error":"upstream call timeout"}',
    "<p>Access denied</p><p>upstream request timeout</p>",
    "<h1>upstream</h1><p>timeout</p>",
    '<a href="http://h/upstream call timeout">no</a>',
    '<a title="a > upstream call timeout">no</a>',
    "<!-- upstream call timeout --><p>no</p>",
    "<script>upstream call timeout</script>",
    "<style>upstream call timeout",
)


@pytest.mark.parametrize("body", [*TIMED_OUT, *CUT])
def test_a_body_says_that_it_timed_out_on_the_way(body: str) -> None:
    """As text, in a JSON value at any depth, in the text of a page, and if its end is missing (L-1)."""
    assert timed_out_on_the_way(body)


@pytest.mark.parametrize("body", NOT_SURE)
def test_a_body_that_is_not_sure_does_not_say_it(body: str) -> None:
    """A URL, a path, a name, a number, two joined texts, a decision beside it, text that no reader sees (L-2)."""
    assert not timed_out_on_the_way(body)


@drawing(200)
@given(
    address=st.sampled_from(["http://h/", "https://h.example/a b ", "/", "//h/", "ftp://h/x?y="]),
    before=st.text("ab-_./?=&% ", max_size=12),
    after=st.text("ab-_./?=&% ", max_size=12),
)
def test_a_url_in_json_never_says_it(address: str, before: str, after: str) -> None:
    """L-3, wherever the words are in it, and however compact the JSON is."""
    body = {"url": f"{address}{before}upstream-timeout{after}", "status": 403}
    assert not timed_out_on_the_way(json.dumps(body))
    assert not timed_out_on_the_way(json.dumps(body, separators=(",", ":")))


# IMPORT
