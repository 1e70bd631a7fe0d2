"""The error messages for schemas that can't be enforced."""

from __future__ import annotations

from service.engine.constraints.schema_error import explain_rejection


def test_property_with_a_keyword_s_name_is_not_reported() -> None:
    """The error names the keyword, not a property of the same name."""
    schema = '{"properties": {"not": {"not": {}}}}'
    assert "at /properties/not/not " in explain_rejection(schema, 'Unimplemented keys: ["not"]')


def test_error_without_a_keyword_is_returned_unchanged() -> None:
    """An error that can't be traced to a keyword keeps the compiler's message."""
    assert explain_rejection("{}", "Unsatisfiable schema: x\nmore") == "Unsatisfiable schema: x"
