"""The schedule of the test processes."""

import pytest

from tests.e2e.stack import Stack


def test_tests_of_the_whole_product_have_a_group(stack: Stack, request: pytest.FixtureRequest) -> None:
    """A test that uses the running product is in the group of one test process, if tests are scheduled by groups."""
    assert stack.url
    assert ("@product " in request.node.nodeid) is getattr(request.config.option, "loadgroup", False)
